"""The last part of a key stands for the key wherever settings are said, where it ends the key of one option alone."""

from pathlib import Path

import pytest

from feddecorr.config.overrides import read_overrides
from feddecorr.errors import UserError
from feddecorr.settings.flat import parse_settings, to_settings
from feddecorr.settings.short_keys import read_settings
from feddecorr.sweeps.sweep import Sweep, SweepStudy

IN_FULL = {
    "lr=0.1": "training.lr=0.1",
    "alpha=0.1": "partition.alpha=0.1",
    "epochs=5": "training.epochs=5",
    "batch=32": "training.batch=32",
    "device=cuda": "device=cuda",
    "method=fedprox mu=0.01": "method=fedprox method.mu=0.01",
    "mu=0.01 method=moon": "method=moon method.mu=0.01",
    "beta=0.05 regularizers=feddecorr": "regularizers.feddecorr.beta=0.05",
    "regularizers=feddecorr feddecorr.beta=0.05": "regularizers.feddecorr.beta=0.05",
    "engine=pool workers=2": "engine=pool engine.workers=2",
    "schedule=cosine over=7": "training.schedule=cosine training.schedule.over=7",
    "schedule.over=7 schedule=cosine": "training.schedule=cosine training.schedule.over=7",
    "optimizer=adamw": "training.optimizer=adamw",
    "evaluation.measures=explained_variance components=3": "evaluation.measures.explained_variance.components=3",
    "every=3": "evaluation.every=3",
    "lr=0.3 training.lr=0.1": "training.lr=0.1",
    "training.lr=0.3 lr=0.1": "training.lr=0.1",
}


@pytest.mark.parametrize("short", IN_FULL)
def test_a_short_key_is_the_full_one(short: str) -> None:
    """In words, where later ones win, and in a table as Python or a file holds it; what is kept is the same."""
    expected = parse_settings(read_overrides(IN_FULL[short].split()))
    words = short.split()
    assert parse_settings(read_settings(words)) == expected
    if "training.lr" not in short:
        found = parse_settings(read_overrides(words))
        assert found == expected
        assert to_settings(*found) == to_settings(*expected)


def test_words_win_over_the_file_however_either_says_the_key(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    for held, word in (("lr = 0.5", "training.lr=0.1"), ("[training]\nlr = 0.5", "lr=0.1"), ("lr = 0.5", "lr=0.1")):
        file.write_text(held)
        assert parse_settings(read_settings([str(file), word]))[0].training.lr == 0.1
        assert parse_settings(read_settings([str(file)]))[0].training.lr == 0.5


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("alpha=1 method=feddyn", "'alpha' could be partition.alpha or method.alpha"),
        ("mu=0.01", "nothing that is chosen has the option 'mu': it belongs to method=fedacg, method=fedprox, "),
        ("beta=0.1", "regularizers=feddecorr"),
        ("learning_rate=1", "did you mean 'training.lr'?"),
        ("batch_size=1", "did you mean 'training.batch'?"),
        ("num_clients=1", "did you mean 'clients'?"),
        ("zzz=1", "unknown option 'zzz': there are: "),
    ],
)
def test_what_could_mean_several_things_or_none_is_named(words: str, said: str) -> None:
    with pytest.raises(UserError) as refusal:
        parse_settings(read_settings(words.split()))
    assert said in str(refusal.value)


def test_one_table_does_not_say_an_option_twice() -> None:
    with pytest.raises(UserError, match=r"lr and training\.lr are the same option: say it once"):
        parse_settings({"lr": 0.1, "training": {"lr": 0.2}})


def test_a_sweep_varies_short_keys_too() -> None:
    """Those of a kind that only some combinations choose."""
    over = {"method": ["fedavg", "fedprox"], "mu": [0.1, 1], "lr": [0.01, 0.1]}
    arms = SweepStudy("s", {}, Sweep(over=over, where=["method.mu != 1"])).arms("own", 1)
    assert [arm.labels for arm in arms] == [
        {"method": method, "method.mu": mu, "training.lr": lr, "seed": 0}
        for method, mu in (("fedavg", "–"), ("fedprox", 0.1))
        for lr in (0.01, 0.1)
    ]
    assert [arm.experiment.training.lr for arm in arms] == [0.01, 0.1] * 2
