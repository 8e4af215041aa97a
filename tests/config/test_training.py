import math
import re
from itertools import pairwise

import pytest
import torch
from pages import ROOT
from plain import send
from small import digest, result, simulate, small

from feddecorr.config.experiment import Experiment
from feddecorr.config.training import Evaluation, Training
from feddecorr.core.messages import Update
from feddecorr.core.text import read_list
from feddecorr.errors import UserError
from feddecorr.runs.pipeline import resume, run
from feddecorr.training.client import Client


def train(*words: str, number: int = 1, client: int = 0) -> Update:
    """Return what a client sends after a round."""
    simulation = simulate(*words)
    return Client(simulation.task)(send(simulation.federation.start(), number), simulation.shards[client], {})[0]


def passes(update: Update) -> int:
    """Return how many batches BatchNorm has counted."""
    return int(next(tensor for name, tensor in update.buffers.items() if name.endswith("num_batches_tracked")))


@pytest.mark.parametrize(
    ("words", "batches", "steps"),
    [
        (["training.epochs=2"], 4, [4, 4]),
        (["training.epochs=0.5"], 4, [2]),
        (["training.epochs=2.25"], 4, [4, 4, 1]),
        (["training.epochs=0.01"], 4, [1]),
        (["training.steps=3"], 4, [3]),
        (["training.steps=8"], 4, [4, 4]),
        (["training.steps=9"], 4, [4, 4, 1]),
    ],
)
def test_local_work_is_reported_in_epochs_parts_of_them_or_steps(
    words: list[str], batches: int, steps: list[int]
) -> None:
    assert small(*words).experiment.training.steps_per_epoch(batches) == steps


def test_as_many_steps_as_two_epochs_have_are_two_epochs() -> None:
    """To the last bit; and a client takes exactly these steps."""
    whole = train("training.epochs=2")
    assert digest(train(f"training.steps={passes(whole)}").weights) == digest(whole.weights)
    assert passes(train("training.steps=3")) == 3
    assert digest(train("training.epochs=2.0").weights) == digest(whole.weights)


def test_the_page_names_every_option_with_its_default() -> None:
    first, _, _ = (ROOT / "docs" / "training.md").read_text().partition("## How much")
    rows = dict(re.findall(r"^\| `(\w+)` \| (.*?) \|", first, re.MULTILINE))
    defaults = {**Training().to_dict(), "schedule": "constant", "optimizer": "sgd", "adapter": "none"}
    assert {name: read_list(text) for name, text in rows.items()} == {
        name: read_list(str(default).lower().strip("[]")) for name, default in defaults.items()
    }


def test_a_page_names_every_option_of_evaluation_with_its_default() -> None:
    text = (ROOT / "docs" / "diagnosis.md").read_text()
    rows = dict(re.findall(r"^\| `evaluation\.(\w+)` \| (.*?) \|", text, re.MULTILINE))
    assert rows == {
        name: str(default).lower() for name, default in {**Evaluation().to_dict(), "measures": "none"}.items()
    }


def test_a_constant_schedule_is_none_and_a_step_drops() -> None:
    assert [small().experiment.training.rate(number) for number in (1, 50)] == [0.05, 0.05]
    step = small(
        "training.schedule=step", "training.schedule.every=2", "training.schedule.drop=0.1"
    ).experiment.training
    assert [step.rate(number) for number in range(1, 6)] == pytest.approx([0.05, 0.05, 0.005, 0.005, 0.0005])


def test_a_cosine_falls_from_the_learning_rate_to_its_floor() -> None:
    """And stays there; in the middle it is half way."""
    words = ["training.schedule=cosine", "training.schedule.over=10", "training.schedule.floor=0.2"]
    training = small(*words).experiment.training
    rates = [training.rate(number) for number in range(1, 14)]
    assert rates[0] == 0.05
    assert rates[5] == pytest.approx(0.05 * 0.6)
    assert rates[10:] == pytest.approx([0.05 * 0.2] * 3)
    assert all(later < earlier for earlier, later in pairwise(rates[:11]))
    assert math.isclose(rates[1], 0.05 * (0.2 + 0.8 * (1 + math.cos(math.pi / 10)) / 2))


def test_a_cosine_wants_its_number_of_rounds() -> None:
    """It can't be that of the experiment: then a longer run would be another one from its first round on."""
    with pytest.raises(UserError, match=r"training\.schedule.*over"):
        small("training.schedule=cosine")


def test_the_choice_of_a_schedule_keeps_its_options_wherever_they_stand() -> None:
    words = ["training.schedule.over=10", "training.schedule=cosine"]
    assert small(*words) == small(*reversed(words))


@pytest.mark.parametrize("name", ["fedavg", "scaffold", "fednova"])
def test_a_schedule_is_the_learning_rate_of_each_round(name: str) -> None:
    """A round under a schedule has the bits of that round at that constant learning rate."""
    words = [f"method={name}", "training.schedule=step", "training.schedule.every=1", "training.schedule.drop=0.5"]
    scheduled = train(*words, number=2)
    constant = train(f"method={name}", "training.lr=0.025", number=2)
    assert digest(scheduled.weights) == digest(constant.weights)
    assert scheduled.amount == constant.amount


def test_a_run_under_a_schedule_can_be_interrupted_and_made_longer(tmp_path: object) -> None:
    words = ["training.schedule=cosine", "training.schedule.over=3", "method=scaffold"]
    expected = result(run(*small(*words)))
    begun = result(run(*small(*words, "rounds=1"), f"{tmp_path}/run"))
    assert begun + result(resume(f"{tmp_path}/run", *small(*words))) == expected


@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_the_amount_is_what_the_drift_is_divided_by(momentum: float) -> None:
    """On the first round SCAFFOLD's variate is the mean gradient: amount counts the learning rate, momentum or not."""
    words = ["training.weight_decay=0", f"training.momentum={momentum}", "training.steps=1", "method=scaffold"]
    sent = simulate(*words).federation.start()
    one, other = train(*words, "training.lr=0.05"), train(*words, "training.lr=0.2")
    for name, change in one.extra.items():
        torch.testing.assert_close(change, other.extra[name], rtol=1e-3, atol=1e-5)
        torch.testing.assert_close(change, (sent.weights[name] - one.weights[name]) / 0.05, rtol=1e-3, atol=1e-5)


def test_clipping_bounds_a_step_and_a_wide_bound_changes_nothing() -> None:
    words = ["training.steps=1", "training.momentum=0", "training.weight_decay=0"]
    start = simulate(*words).federation.start().weights
    clipped = train(*words, "training.max_grad_norm=0.01").weights
    length = sum(float((clipped[name] - start[name]).square().sum()) for name in start) ** 0.5
    assert length == pytest.approx(0.05 * 0.01, rel=1e-3)
    assert digest(train(*words, "training.max_grad_norm=1e9").weights) == digest(train(*words).weights)


def test_adamw_learns_and_what_needs_sgd_refuses_it() -> None:
    losses = [record.terms["cross_entropy"] for record in run(*small("training.optimizer=adamw", "training.lr=0.01"))]
    assert losses[-1] < losses[0]
    for name in ("scaffold", "fednova"):
        with pytest.raises(UserError, match=f"{name} .* needs training.optimizer=sgd, not adamw"):
            small("training.optimizer=adamw", f"method={name}")


def test_terms_of_each_local_epoch_are_recorded_by_wish() -> None:
    """Their mean over the epochs is the recorded mean, and training is the same with and without."""
    words = ["regularizers=feddecorr", "training.epochs=3", "rounds=1"]
    (plain,) = run(*small(*words))
    (record,) = run(*small(*words, "evaluation.epochs=true"))
    assert plain.local_terms == {}
    assert digest(plain.state) == digest(record.state)
    assert sorted(record.local_terms) == [0, 1, 2, 3]
    sizes = simulate(*words).shards.sizes
    for term in ("cross_entropy", "feddecorr"):
        means = {client: sum(terms[term]) / 3 for client, terms in record.local_terms.items()}
        total = sum(means[client] * int(sizes[client]) for client in means) / 120
        assert total == pytest.approx(record.terms[term], rel=1e-6)
        assert all(len(terms[term]) == 3 for terms in record.local_terms.values())


@pytest.mark.parametrize(
    ("cores", "words", "threads"),
    [
        (8, ["clients=1"], 8),
        (8, ["clients=3"], 2),
        (8, ["clients=8"], 1),
        (8, ["clients=100"], 1),
        (8, ["clients=100", "participation=0.02"], 4),
        (2, ["clients=1"], 2),
        (2, ["clients=2"], 1),
        (2, ["clients=3"], 2),
        (2, ["clients=12"], 1),
        (1, ["clients=1"], 1),
    ],
)
def test_threads_are_shared_out_to_those_who_play(
    monkeypatch: pytest.MonkeyPatch, cores: int, words: list[str], threads: int
) -> None:
    """By the cores and the cohort; the engine changes nothing."""
    monkeypatch.setattr("os.cpu_count", lambda: cores)
    for engine in ("serial", "pool"):
        assert small("training.threads=auto", f"engine={engine}", *words).experiment.training.threads == threads


def test_threads_that_were_picked_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is written down is their number, so a run is gone on with alike on any machine."""
    monkeypatch.setattr("os.cpu_count", lambda: 8)
    picked = small("training.threads=auto", "clients=2").experiment
    monkeypatch.setattr("os.cpu_count", lambda: 64)
    again = Experiment.parse(picked.to_dict())
    assert again == picked
    assert again.training.threads == 4
    assert again.digest() != small("training.threads=auto", "clients=2").experiment.digest()
    assert again.digest() == small("training.threads=4", "clients=2").experiment.digest()


@pytest.mark.parametrize("wrong", ["many", -1, 1.5])
def test_threads_are_a_number_or_auto(wrong: object) -> None:
    with pytest.raises(UserError, match="threads"):
        Experiment.parse({"training": {"threads": wrong}})
