from pathlib import Path

import numpy as np
import pytest
import torch
from command_line import CommandLine
from safetensors.torch import save_file
from small import SETTINGS, small
from torch import nn

from feddecorr.runs.pipeline import run

pytestmark = pytest.mark.usefixtures("plain_look")

DATA = [f"data.{key}={value}" for key, value in SETTINGS["data"].items() if key != "name"]


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pictures are written to the working directory."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def features(tmp_path: Path) -> Path:
    stream = np.random.default_rng(0)
    np.save(tmp_path / "z.npy", stream.normal(size=(200, 3)) @ stream.normal(size=(3, 40)))
    np.save(tmp_path / "y.npy", stream.integers(0, 30, 200))
    return tmp_path / "z.npy"


def test_features_are_answered_in_numbers_words_and_a_picture(feddecorr: CommandLine, features: Path) -> None:
    """Rank 3 in 40 dimensions may be all that a task needs; what would tell is said. The page needs no network."""
    outcome = feddecorr("diagnose", "--features", features)
    assert outcome.code == 0
    assert "numerical_rank" in outcome.out
    assert "of 40 possible dimensions" in outcome.out
    assert "Without labels or another model" in outcome.out
    assert str(Path("diagnosis.html").resolve()) in outcome.err.replace("\n", "")
    assert "src=" not in Path("diagnosis.html").read_text().split("<body>")[1]


def test_equal_representations_are_a_total_collapse(feddecorr: CommandLine, tmp_path: Path) -> None:
    np.save(tmp_path / "equal.npy", np.ones((20, 4)))
    found = feddecorr("diagnose", "--features", tmp_path / "equal.npy", "--picture", tmp_path / "equal.html")
    assert "All samples have the same representation: a total collapse." in found.out


def test_labels_tell_which_collapse_it_is(feddecorr: CommandLine, features: Path, tmp_path: Path) -> None:
    """Thirty classes in three dimensions have collapsed; thirty tight classes on a simplex have not."""
    found = feddecorr("diagnose", "--features", features, "--labels", tmp_path / "y.npy", "--json").document
    assert "has collapsed" in " ".join(found["answer"])
    labels = np.repeat(np.arange(30), 4)
    np.save(tmp_path / "tight.npy", np.eye(30, 40)[labels] + 1e-3 * np.random.default_rng(1).normal(size=(120, 40)))
    np.save(tmp_path / "labels.npy", labels)
    found = feddecorr("diagnose", "--features", "tight.npy", "--labels", "labels.npy", "--json").document
    assert found["verdict"] == "neural collapse"
    assert "Neural collapse, which is good" in " ".join(found["answer"])
    assert found["nc1_variability"] < 1e-3


def test_json_has_every_measure_under_its_plain_name(feddecorr: CommandLine, features: Path) -> None:
    """One document: the first at its top, all others as a list."""
    outcome = feddecorr("diagnose", "--features", features, "--features", features, "--json")
    names = ["effective_rank", "participation_ratio", "stable_rank", "significant_singular_values", "singular_values"]
    first, (second,) = outcome.document, outcome.document["others"]
    assert all(first[name] == second[name] is not None for name in names)
    assert second["linear_cka"] == pytest.approx(1)
    assert first["nc1_variability"] is None


def test_runs_are_compared_with_the_homogeneous_one(feddecorr: CommandLine, tmp_path: Path) -> None:
    """Side by side, with their local models."""
    list(run(*small("rounds=1"), tmp_path / "skewed"))
    list(run(*small("rounds=1", "partition=homogeneous"), tmp_path / "alpha=inf"))
    outcome = feddecorr("diagnose", tmp_path / "skewed", tmp_path / "alpha=inf", "--clients", "0,3")
    assert outcome.code == 0
    assert "as of alpha=inf (homogeneous), round 1, global" in outcome.out
    assert outcome.out.count("At the start, with random weights, its effective rank was") == 2
    assert "skewed (α = 0.3), round 1, client 3" in outcome.out
    page = Path("diagnosis.html").read_text()
    assert "Local models" in page
    assert "Three classes" in page


def test_any_model_with_its_weights(feddecorr: CommandLine, tmp_path: Path) -> None:
    """A run's weights, given as a file, are diagnosed as the run recorded them."""
    *_, last = run(*small("rounds=1"), tmp_path / "a")
    words = ["--model", "convnet", "model.widths=[8,16]", "--data", "synthetic", *DATA]
    outcome = feddecorr("diagnose", *words, "--weights", tmp_path / "a" / "weights.safetensors", "--json")
    assert outcome.document["effective_rank"] == pytest.approx(last.effective_rank)
    assert outcome.document["accuracy"] == last.accuracy
    assert outcome.document["verdict"] != "untrained" == feddecorr("diagnose", *words, "--json").document["verdict"]
    torch.save(last.state, tmp_path / "w.pt")
    assert feddecorr("diagnose", *words, "--weights", "w.pt", "--json").document["accuracy"] == last.accuracy


def test_statistics_of_each_batch(feddecorr: CommandLine, tmp_path: Path) -> None:
    """A run and its weights as a file are diagnosed alike, and otherwise than with the model's own statistics."""
    list(run(*small("rounds=1"), tmp_path / "a"))
    words = ["--model", "convnet", "model.widths=[8,16]", "--data", "synthetic", *DATA]
    file = tmp_path / "a" / "weights.safetensors"
    plain = feddecorr("diagnose", tmp_path / "a", "--json").document
    whole = feddecorr("diagnose", tmp_path / "a", "--statistics", "batch", "--json").document
    stored = feddecorr("diagnose", *words, "--weights", file, "--statistics", "batch", "--json").document
    assert whole["singular_values"] == pytest.approx(stored["singular_values"])
    assert whole["effective_rank"] != pytest.approx(plain["effective_rank"], rel=1e-3)
    assert stored["name"].endswith("weights.safetensors, statistics of each batch")


def test_averaging_and_blame_in_words_tables_and_pictures(feddecorr: CommandLine, tmp_path: Path) -> None:
    """As text and as JSON; of the clients' models themselves, what was asked for."""
    list(run(*small("rounds=1", "partition.alpha=0.1"), tmp_path / "a"))
    outcome = feddecorr("diagnose", tmp_path / "a", "--averaging", "--layers", "--updates", "--clients", "all")
    assert outcome.code == 0
    for words in (
        "does averaging itself collapse?",
        "their average",
        "what goes into",
        "who is to blame?",
        "raised",
        "alignment",
        "a cosine of",
    ):
        assert words in outcome.out
    assert "is looked at (4 of 4)" in outcome.err
    page = Path("diagnosis.html").read_text()
    headings = ("Averaging: a, round 1", "The way to the average", "Accuracy on the way", "Layer by layer", "Who is to")
    assert all(heading in page for heading in headings)
    found = feddecorr("diagnose", tmp_path / "a", "--averaging", "--json").document
    assert found["others"] == []
    assert "blame" not in found
    (averaging,) = found["averaging"]
    assert averaging["averaging"]["averaged_effective_rank"] == found["effective_rank"]
    assert averaging["layers"] == {}
    blamed = feddecorr("diagnose", tmp_path / "a", "--clients", "all", "--json").document["blame"]
    assert [len(each["clients"]) for each in blamed] == [4]


def test_a_network_of_ones_own(feddecorr: CommandLine, tmp_path: Path) -> None:
    """Built by a function of a module in the working directory, with a layer by name."""
    (tmp_path / "my_diagnosed.py").write_text(
        "from torch import nn\n"
        "def build():\n"
        "    return nn.Sequential(nn.Flatten(), nn.Linear(64, 9), nn.ReLU(), nn.Linear(9, 4))\n"
    )
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 9), nn.ReLU(), nn.Linear(9, 4))
    save_file(model.state_dict(), tmp_path / "w.safetensors")
    words = ["--model", "my_diagnosed:build", "--weights", "w.safetensors", "--data", "synthetic", *DATA]
    assert feddecorr("diagnose", *words, "--json").document["dimensions"] == 9
    assert feddecorr("diagnose", *words, "--layer", "1", "--json").document["dimensions"] == 64
    outcome = feddecorr("diagnose", *words, "--layer", "head")
    assert outcome.code == 2
    assert "its layers: 0, 1, 2, 3" in outcome.err.replace("\n", " ")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "nothing to diagnose"),
        (["--features", "none.npy"], "no file none.npy"),
        (["--features", "z.npy", "--labels", "z.npy"], "one class for each sample"),
        (["--labels", "y.npy"], "nothing to diagnose"),
        (["--features", "z.npy", "--clients", "all"], "name its directory"),
        (["--features", "z.npy", "--weights", "w"], "settings need --model"),
        (["--model", "convnet"], "needs --data"),
        (["--model", "mlp", "--data", "digits", "--weights", "wrong.safetensors"], "does not fit the model"),
        (["--model", "mlp", "--data", "digits", "--weights", "z.npy"], "no file of weights: save model.state_dict()"),
        (["nowhere"], "holds no run"),
        (["nowhere", "--round", "first"], "'last' or a number"),
        (["nowhere", "--clients", "x"], "'all' or a list"),
        (["nowhere", "--clients", "none"], "'all' or a list"),
        (["nowhere", "--on", "both"], "'test' or 'train', not 'both'"),
        (["nowhere", "--statistics", "own"], "'model' or 'batch', not 'own'"),
        (["--features", "z.npy", "--statistics", "batch"], "for models, not for features"),
        (["--features", "z.npy", "--averaging"], "for models of a run: name its directory"),
        (["nowhere", "--layers"], "--layers needs --averaging"),
    ],
)
def test_what_is_wrong_is_said(feddecorr: CommandLine, features: Path, words: list[str], message: str) -> None:
    """With exit code 2, nothing on standard output, and what would be right."""
    save_file({"classifier.weight": torch.ones(2, 2)}, features.parent / "wrong.safetensors")
    outcome = feddecorr("diagnose", *words)
    assert outcome.code == 2
    assert message in outcome.err.replace("\n", " ")
    assert outcome.out == ""
