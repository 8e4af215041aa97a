import pytest
from small import small

from feddecorr.cli.demo import RUNS, SETTINGS
from feddecorr.errors import UserError
from feddecorr.local_training.batches import epoch_sizes
from feddecorr.runs.pipeline import run
from feddecorr.runs.rhythm import rhythm
from feddecorr.settings.experiment import Experiment


def test_the_last_round_is_always_evaluated() -> None:
    records = list(run(small("evaluation.every=2", "rounds=3")))
    assert [record.accuracy is not None for record in records] == [False, True, True]


@pytest.mark.parametrize("words", [[], ["clients=50", "participation=0.2"], ["evaluation.clients=true"]])
def test_the_papers_settings_are_evaluated_in_every_round(words: list[str]) -> None:
    """Ten local epochs on 50 000 images beside 10 000 for testing; with part of the clients, and with their models."""
    assert rhythm(small("clients=10", "training.epochs=10", *words), 50_000, 10_000) == 1


@pytest.mark.parametrize("extra", RUNS.values())
def test_the_demo_is_evaluated_in_every_round(extra: dict[str, object]) -> None:
    experiment = Experiment.parse({**SETTINGS, **extra})
    dataset = experiment.data.load()
    assert rhythm(experiment, len(dataset.train), len(dataset.test)) == 1


def test_few_training_images_beside_many_to_test_are_evaluated_seldom() -> None:
    """By hand: 10 · 10 000 / (3 · 10 000), and 10 · 10 000 / (3 · 50 · 50), rounded up."""
    assert rhythm(small("training.epochs=1", "clients=10"), 10_000, 10_000) == 4
    assert rhythm(small("training.epochs=1", "clients=1000", "participation=0.05"), 50_000, 10_000) == 14


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
    experiment, test = small("clients=6", *words), 100
    seen = sum(map(sum, epoch_sizes(experiment.training, size)))
    drawn = round(6 * experiment.participation)
    cost = (1 + drawn * experiment.evaluation.clients) * test / (3 * drawn * seen)
    found = rhythm(experiment, 6 * size, test)
    assert cost / found < 0.1 + 1e-12
    assert found == 1 or cost / (found - 1) > 0.1 - 1e-12


def test_a_number_is_taken_at_its_word_and_auto_is_the_default() -> None:
    assert rhythm(small("evaluation.every=5"), 1, 1) == 5
    assert small().evaluation.every == "auto"
    assert rhythm(small("evaluation.every=auto"), 10, 1000) == rhythm(small(), 10, 1000) > 1


@pytest.mark.parametrize("word", ["0", "seldom", "1.5"])
def test_other_rhythms_are_refused(word: str) -> None:
    with pytest.raises(UserError, match=r"evaluation\.every"):
        small(f"evaluation.every={word}")


def test_runs_follow_the_rhythm() -> None:
    """By hand: 40 test images, four clients with a step of 16: 10 · 40 / (3 · 64), rounded up."""
    records = list(run(small("training.steps=1", "rounds=7")))
    assert [record.round for record in records if record.model is not None] == [3, 6, 7]
