import warnings

import pytest
from small import Small, small

from feddecorr.cli.run import DEMO_RUNS, DEMO_SETTINGS
from feddecorr.collapse.diagnosis import Diagnosis
from feddecorr.core.messages import Server, Update
from feddecorr.errors import UserError
from feddecorr.loss.module import DyingFeatures
from feddecorr.runs.evaluation import Evaluator, rhythm
from feddecorr.runs.pipeline import run
from feddecorr.settings.flat import parse_settings
from feddecorr.training.shards import epoch_sizes


def test_the_last_round_is_always_evaluated() -> None:
    records = list(run(*small("evaluation.every=2", "rounds=3")))
    assert [record.accuracy is not None for record in records] == [False, True, True]


def test_so_many_of_the_last_rounds_are_evaluated_as_asked_for() -> None:
    records = list(run(*small("evaluation.every=3", "evaluation.final=2", "rounds=6")))
    assert [record.round for record in records if record.model is not None] == [3, 5, 6]


def test_clients_models_can_be_looked_at_in_the_last_round_only() -> None:
    """What is found then is what is found with them looked at always."""
    last, always = (
        list(run(*small("evaluation.every=1", f"evaluation.clients={when}", "rounds=2"))) for when in ("last", "true")
    )
    assert [bool(record.local_models) for record in last] == [False, True]
    assert [bool(record.local_models) for record in always] == [True, True]
    assert last[-1].local_models == always[-1].local_models


DYING = (
    "data=digits data.train=300 data.test=100 model=mlp model.widths=[64] training.lr=0.1 training.epochs=3",
    "regularizers=feddecorr regularizers.feddecorr.beta=1 evaluation.every=1 rounds=3",
)
WORDS = " ".join(DYING).split()


def test_a_run_in_which_features_die_says_so_once() -> None:
    """With the option that works against it, and not where that is set."""
    with pytest.warns(DyingFeatures, match=r"0 % at the start.*regularizers\.feddecorr\.dying=counted") as reported:
        *_, last = run(*small(*WORDS))
    assert len(reported) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        *_, counted = run(*small(*WORDS, "regularizers.feddecorr.dying=counted"))
    assert last.model is not None
    assert counted.model is not None
    assert 2 * counted.model.dead_features < last.model.dead_features


def test_who_dies_without_feddecorr_is_not_warned_of_it() -> None:
    """A representation that is dead from the start stays as it is."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        list(run(*small(*WORDS, "regularizers=none", "training.lr=2")))


def every(settings: Small, train: int, test: int) -> int:
    return rhythm(settings.experiment, settings.options.evaluation, train, test)


@pytest.mark.parametrize("words", [[], ["clients=50", "participation=0.2"], ["evaluation.clients=true"]])
def test_the_papers_settings_are_evaluated_in_every_round(words: list[str]) -> None:
    """Ten local epochs on 50 000 images with 10 000 for testing; with part of the clients, and with their models."""
    assert every(small("clients=10", "training.epochs=10", *words), 50_000, 10_000) == 1


@pytest.mark.parametrize("extra", DEMO_RUNS.values())
def test_the_demo_is_evaluated_in_every_round(extra: dict[str, object]) -> None:
    experiment, options = parse_settings({**DEMO_SETTINGS, **extra})
    dataset = experiment.data.load()
    assert rhythm(experiment, options.evaluation, len(dataset.train), len(dataset.test)) == 1


def test_few_training_images_next_to_many_to_test_are_evaluated_seldom() -> None:
    """By hand: 10 · 10 000 / (3 · 10 000), and 10 · 10 000 / (3 · 50 · 50), rounded up."""
    assert every(small("training.epochs=1", "clients=10"), 10_000, 10_000) == 4
    assert every(small("training.epochs=1", "clients=1000", "participation=0.05"), 50_000, 10_000) == 14


@pytest.mark.parametrize("size", [7, 48, 320])
@pytest.mark.parametrize(
    "words",
    [
        ["training.epochs=1"],
        ["training.epochs=3"],
        ["training.steps=60"],
        ["training.steps=1", "participation=0.5"],
        ["evaluation.clients=true"],
        ["training.batch=1000"],
    ],
)
def test_forward_passes_stay_below_a_tenth_of_the_training(words: list[str], size: int) -> None:
    """Of the images that clients really see, and no evaluation less than that allows."""
    (experiment, options), test = small("clients=6", *words), 100
    seen = sum(map(sum, epoch_sizes(experiment.training, size)))
    drawn = round(6 * experiment.participation)
    cost = (1 + drawn * (options.evaluation.clients is True)) * test / (3 * drawn * seen)
    found = rhythm(experiment, options.evaluation, 6 * size, test)
    assert cost / found < 0.1 + 1e-12
    assert found == 1 or cost / (found - 1) > 0.1 - 1e-12


def test_a_number_is_taken_at_its_word_and_auto_is_the_default() -> None:
    assert every(small("evaluation.every=5"), 1, 1) == 5
    assert small().options.evaluation.every == "auto"
    assert every(small("evaluation.every=auto"), 10, 1000) == every(small(), 10, 1000) > 1


@pytest.mark.parametrize("word", ["0", "seldom", "1.5"])
def test_other_rhythms_are_refused(word: str) -> None:
    with pytest.raises(UserError, match=r"evaluation\.every"):
        small(f"evaluation.every={word}")


def test_runs_follow_the_rhythm() -> None:
    """By hand: 40 test images, four clients with a step of 16: 10 · 40 / (3 · 64), rounded up."""
    records = list(run(*small("training.steps=1", "rounds=7")))
    assert [record.round for record in records if record.model is not None] == [3, 6, 7]


def test_averaging_is_recorded_where_clients_are_evaluated() -> None:
    """And nowhere else."""
    records = list(run(*small("evaluation.every=2", "evaluation.clients=true", "rounds=3")))
    assert [record.averaging is not None for record in records] == [False, True, True]
    assert all(record.averaging is None for record in run(*small("rounds=1")))


@pytest.mark.parametrize(("words", "more"), [((), 0), (("method=fedavgm",), 1)])
def test_an_average_that_is_the_global_model_is_looked_at_once(
    words: tuple[str, ...], more: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Four clients, the global model, and where the method goes beyond the average, that too; not in the first round.

    Before there is any momentum, FedAvgM goes to the average itself.
    """
    looked: list[Server | Update] = []
    look = Evaluator.__call__

    def count(evaluator: Evaluator, state: Server | Update, *, classes: bool) -> Diagnosis:
        looked.append(state)
        return look(evaluator, state, classes=classes)

    monkeypatch.setattr(Evaluator, "__call__", count)
    list(run(*small("evaluation.every=1", "evaluation.clients=true", "rounds=2", *words)))
    assert len(looked) == 2 * 5 + more
