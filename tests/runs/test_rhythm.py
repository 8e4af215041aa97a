import math

import numpy as np
import pytest
import torch
from small import small

from feddecorr.cli.demo import RUNS, SETTINGS
from feddecorr.client import split_batches
from feddecorr.errors import UserError
from feddecorr.federation import Federation, Roster, Simulation, Task
from feddecorr.runs.pipeline import run
from feddecorr.runs.rhythm import rhythm
from feddecorr.settings.experiment import Experiment


def every(*words: str, sizes: list[int], test: int) -> int:
    """Return the rhythm of a federation of which nothing but the sizes is known."""
    task = Task(small(f"clients={len(sizes)}", *words), (1, 8, 8), ("a", "b"), (0.0,), (1.0,))
    return rhythm(Federation(task, Roster(np.array(sizes))), test)


def test_the_last_round_is_always_evaluated() -> None:
    records = list(run(small("evaluation.every=2", "rounds=3")))
    assert [record.accuracy is not None for record in records] == [False, True, True]


@pytest.mark.parametrize("words", [[], ["clients=50", "participation=0.2"], ["evaluation.clients=true"]])
def test_the_papers_settings_are_evaluated_in_every_round(words: list[str]) -> None:
    """Ten local epochs on 50 000 images beside 10 000 for testing; with local models, too, and with part of them."""
    clients = 50 if words[:1] == ["clients=50"] else 10
    assert every("training.epochs=10", *words, sizes=[50_000 // clients] * clients, test=10_000) == 1


@pytest.mark.parametrize("extra", RUNS.values())
def test_the_demo_is_evaluated_in_every_round(extra: dict[str, object]) -> None:
    federation = Simulation(Experiment.parse({**SETTINGS, **extra})).federation
    assert federation.test is not None
    assert rhythm(federation, len(federation.test)) == 1


def test_few_training_images_beside_many_to_test_are_evaluated_seldom() -> None:
    """By hand: 10 · 10 000 / (3 · 10 000), and 10 · 10 000 / (3 · 50 · 50), rounded up."""
    assert every("training.epochs=1", sizes=[1000] * 10, test=10_000) == 4
    assert every("training.epochs=1", "participation=0.05", sizes=[50] * 1000, test=10_000) == 14


@pytest.mark.parametrize(
    "words",
    [
        ["training.epochs=1"],
        ["training.epochs=2.5"],
        ["training.steps=7"],
        ["training.steps=1", "participation=0.5"],
        ["evaluation.clients=true"],
        ["training.batch=1000"],
    ],
)
def test_forward_passes_stay_below_a_tenth_of_the_training(words: list[str]) -> None:
    """Of the images that clients really see, and no evaluation less than that allows."""
    sizes, test = [16, 40, 7, 120, 33], 100
    experiment = small("clients=5", *words)
    found = every(*words, sizes=sizes, test=test)
    seen = []
    for size in sizes:
        batches = [len(batch) for batch in split_batches(torch.arange(size), experiment.training.batch)]
        seen.append(sum(sum(batches[:steps]) for steps in experiment.training.steps_per_epoch(len(batches))))
    drawn = round(5 * experiment.participation)
    models = 1 + drawn * experiment.evaluation.clients
    cost = models * test / 3 / (drawn * sum(seen) / 5)
    assert cost / found <= 0.1 + 1e-12
    assert found == 1 or cost / (found - 1) > 0.1


def test_a_number_is_taken_at_its_word_and_auto_is_the_default() -> None:
    assert every("evaluation.every=5", sizes=[1], test=1) == 5
    assert small().evaluation.every == "auto"
    assert every("evaluation.every=auto", sizes=[10], test=1000) == every(sizes=[10], test=1000) > 1


@pytest.mark.parametrize("word", ["0", "seldom", "1.5"])
def test_other_rhythms_are_refused(word: str) -> None:
    with pytest.raises(UserError, match=r"evaluation\.every"):
        small(f"evaluation.every={word}")


def test_runs_follow_the_rhythm_and_end_where_others_do() -> None:
    """Three of seven rounds are due, the last among them."""
    words = ["data.test=40", "training.epochs=1", "training.steps=1", "rounds=7"]
    records = list(run(small(*words)))
    federation = Simulation(small(*words)).federation
    number = rhythm(federation, 40)
    assert number > 1
    assert math.ceil(7 / number) > 1
    due = [record.round for record in records if record.model is not None]
    assert due == sorted({*range(number, 8, number), 7})
