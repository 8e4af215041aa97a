"""Client-level differential privacy: what is sent, how much noise, and what it is worth."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from attackers import really_lost
from command_line import CommandLine
from pages import ROOT
from sent_updates import BUFFERS, SIZES, START, apply, draw, flat
from small import digest, result, simulate, small

from feddecorr.config.experiment import Experiment
from feddecorr.config.overrides import read_overrides
from feddecorr.core.client_memory import Memories
from feddecorr.core.messages import Broadcast, Failure, RoundInfo, Update, from_bytes, to_bytes
from feddecorr.core.paths import InnerPath
from feddecorr.core.randomness import gaussian
from feddecorr.core.states import State
from feddecorr.errors import RunError, UserError
from feddecorr.runs.diagnosis import Wanted, examine
from feddecorr.runs.directory import RunDirectory
from feddecorr.runs.pipeline import resume, run
from feddecorr.server.accounting import privacy_spent
from feddecorr.server.federation import Simulation
from feddecorr.server.rounds import federate
from feddecorr.settings.flat import parse_settings
from feddecorr.training.client import Client
from feddecorr.transforms.privacy_loss import NeighboringRelation, epsilon
from feddecorr.transforms.private import LocallyPrivate, Private

GROUPS = ("model.norm=group", "rounds=2", "transforms=private")


def test_the_noise_nobody_foresees_is_normal_and_comes_from_the_system(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    urandom = os.urandom

    def noted(count: int) -> bytes:
        asked.append(count)
        return urandom(count)

    monkeypatch.setattr(os, "urandom", noted)
    values = gaussian(torch.Size([200, 1001]), None).flatten().numpy()
    assert sum(asked) >= 16 * len(values)
    assert values.mean() == pytest.approx(0, abs=4 / math.sqrt(len(values)))
    assert values.std() == pytest.approx(1, abs=4 / math.sqrt(2 * len(values)))
    ordered = np.sort(values)
    normal = np.array([0.5 * (1 + math.erf(value / math.sqrt(2))) for value in ordered[::100]])
    there = np.arange(len(values))[::100] / len(values)
    assert np.abs(normal - there).max() < 1.95 / math.sqrt(len(values))  # Kolmogorov and Smirnov, at 0.1 %
    assert not torch.equal(gaussian(torch.Size([8]), None), gaussian(torch.Size([8]), None))


def change(weights: State) -> torch.Tensor:
    """Return how far weights are from those that were sent in `apply`, which are zero."""
    return flat(weights)


def test_every_client_counts_the_same_and_by_no_more_than_the_norm() -> None:
    (found,) = apply(Private(clipping_norm=0.5, noise_multiplier=1e-12, seed=0), draw())
    expected = torch.stack([0.5 * flat(each.weights) / flat(each.weights).norm() for each in draw()]).mean(dim=0)
    assert torch.allclose(change(found.weights), expected)
    assert (found.examples, found.amount, found.extra, found.metrics) == (len(SIZES), 1.0, {}, {})


def test_a_client_sends_no_more_than_the_norm_and_noise() -> None:
    for update in draw():
        sent = LocallyPrivate(clipping_norm=0.5, noise_multiplier=1e-12, seed=0).send(
            update, Broadcast(1, START, BUFFERS, {})
        )
        assert float(change(sent.weights).norm()) == pytest.approx(0.5)
        assert (sent.examples, sent.amount) == (update.examples, update.amount)


def flat_updates(values: dict[int, torch.Tensor]) -> list[Update]:
    return [Update(1, client, 5, 1.0, {"w": value}, {}, {}, {}) for client, value in values.items()]


def test_the_spread_of_the_noise_is_what_the_guarantee_needs() -> None:
    """By a trusted server noise·norm on the sum, whoever is missing; by clients noise·norm each."""
    start = {"w": torch.zeros(300, 300, dtype=torch.float64)}
    central, local = (
        Private(clipping_norm=3.0, noise_multiplier=2.0, seed=1),
        LocallyPrivate(clipping_norm=3.0, noise_multiplier=2.0, seed=1),
    )
    for senders in (range(9), range(4), range(0)):
        sent = flat_updates(dict.fromkeys(senders, start["w"]))
        one, other = (
            next(central(sent, Broadcast(number, start, {}, {}), RoundInfo(number, 0, SIZES))) for number in (1, 2)
        )
        assert float(one.weights["w"].std()) == pytest.approx(2.0 * 3.0 / 9, rel=0.02)
        assert not torch.equal(one.weights["w"], other.weights["w"])
    sent = [local.send(update, Broadcast(1, start, {}, {})) for update in flat_updates({0: start["w"], 1: start["w"]})]
    assert all(float(update.weights["w"].std()) == pytest.approx(2.0 * 3.0, rel=0.02) for update in sent)
    assert not torch.equal(sent[0].weights["w"], sent[1].weights["w"])


def moves(experiment: Experiment, neighbours: list[dict[int, float]]) -> float:
    """Return how far a round's result moves between two sets of senders, in spreads of the noise, without the noise.

    Each client sends a number, which the experiment's transform adds up.
    """
    transform = Private(clipping_norm=1.0, noise_multiplier=1e-12, seed=0)
    start = {"w": torch.zeros(1, dtype=torch.float64)}
    info = RoundInfo(1, 0, np.full(experiment.clients, 5), experiment.rate)
    ends = [
        next(
            transform(
                flat_updates({k: torch.tensor([v], dtype=torch.float64) for k, v in each.items()}),
                Broadcast(1, start, {}, {}),
                info,
            )
        ).weights["w"]
        for each in neighbours
    ]
    return float((ends[0] - ends[1]).abs()) * info.cohort


WORDS = [
    "clients=1000",
    "participation=0.05",
    "rounds=100",
    "transforms=private",
    "transforms.private.noise_multiplier=1.1",
]

OPPOSITE = dict.fromkeys(range(1, 50), -9.0)


@pytest.mark.parametrize(
    ("sampling", "neighbours"),
    [
        ("fixed", [{0: 9.0, **OPPOSITE}, {50: -9.0, **OPPOSITE}]),  # another is drawn in its place
        ("poisson", [{0: 9.0, **OPPOSITE}, OPPOSITE]),  # nobody is
    ],
)
def test_epsilon_is_a_bound_on_what_the_draw_that_is_made_really_loses(
    sampling: str, neighbours: list[dict[int, float]]
) -> None:
    """On the worst data, by a computation of its own, from how far the transform lets one client move the result."""
    experiment, _ = parse_settings(read_overrides([*WORDS, f"sampling={sampling}"]))
    shift = moves(experiment, neighbours) / 1.1
    least = really_lost(0.05, shift, 100, 1e-5)
    assert least <= privacy_spent(experiment, 100, 1e-5).epsilon <= 1.1 * least


def test_a_missing_client_changes_the_sum_and_nothing_else() -> None:
    """Neither the divisor nor the noise: who fails is as who sends no change."""
    for sampling in ("fixed", "poisson"):
        experiment = small("participation=0.5", f"sampling={sampling}", "transforms=private").experiment
        assert moves(experiment, [{0: 0.7}, {0: 0.7, 1: 0.0}]) == 0
        assert moves(experiment, [{0: 0.7}, {0: 0.7, 1: 0.4}]) == pytest.approx(0.4)


def test_what_would_tell_of_data_next_to_the_weights_is_refused_before_there_is_a_run(tmp_path: object) -> None:
    for words in (["model.norm=batch"], ["method=scaffold"]):
        with pytest.raises(UserError, match="protects only the weights"):
            list(run(*small(*GROUPS, *words), f"{tmp_path}/run"))
        assert not os.path.exists(f"{tmp_path}/run")  # noqa: PTH110 - a path in words


def test_a_seeded_run_is_repeatable_and_any_other_is_not(tmp_path: object) -> None:
    seeded = (*GROUPS, "transforms.private.seed=3")
    expected = result(run(*small(*seeded)))
    begun = result(run(*small(*seeded, "rounds=1"), f"{tmp_path}/seeded"))
    assert begun + result(resume(f"{tmp_path}/seeded", *small(*seeded, "engine=pool"))) == expected
    one, other = (list(run(*small(*GROUPS), f"{tmp_path}/{name}"))[-1].state for name in "ab")
    assert digest(one) != digest(other)
    with pytest.raises(UserError, match="its noise had no seed"):
        examine(RunDirectory.open(f"{tmp_path}/a"), Wanted(round=1), "a", lambda _: None)


def weights_after(experiment: Experiment, failing: set[int]) -> list[State]:
    """Return the weights after each round in which these clients fail."""
    simulation = Simulation(experiment)
    federation = simulation.federation

    def run_clients(broadcast: Broadcast, clients: Sequence[int]) -> Iterator[Update | Failure]:
        client = Client(simulation.task)
        for number in clients:
            if number in failing:
                yield Failure(broadcast.round, number, "it fell asleep")
            else:
                yield client(broadcast, simulation.shards[number], {})[0]

    return [now.server.weights for now in federate(federation.start(), federation, run_clients, rounds=range(1, 2))]


@pytest.mark.parametrize("sampling", ["fixed", "poisson"])
def test_a_run_goes_on_without_a_client_at_the_same_divisor(sampling: str) -> None:
    words: tuple[str, ...] = (
        *GROUPS,
        "rounds=1",
        "missing=continue",
        f"sampling={sampling}",
        "transforms.private.noise_multiplier=1e-9",
    )
    words += ("transforms.private.seed=0", "transforms.private.clipping_norm=0.1")
    both, first, second = (
        flat(weights_after(small(*words, "clients=2").experiment, failing)[0]) for failing in (set(), {1}, {0})
    )
    start = flat(simulate(*words, "clients=2").federation.start().weights)
    assert torch.allclose(both - start, (first - start) + (second - start), atol=1e-6)
    assert float((first - start).norm()) == pytest.approx(0.1 / 2, rel=1e-3)


def test_the_command_tells_what_was_spent_and_what_will_be(feddecorr: CommandLine, tmp_path: object) -> None:
    words = [
        "clients=1000",
        "participation=0.05",
        "rounds=100",
        "transforms=private",
        "transforms.private.noise_multiplier=1",
    ]
    foreseen = feddecorr("privacy", *words, "--delta", "1e-5", "--json").document
    assert foreseen["epsilon"] == epsilon(0.05, 1.0, 100, 1e-5, NeighboringRelation.REPLACE)
    assert (
        foreseen["epsilon"] < foreseen["epsilon_if_drawn"] == epsilon(1.0, 1.0, 100, 1e-5, NeighboringRelation.REPLACE)
    )
    poisson = feddecorr("privacy", *words, "sampling=poisson", "--delta", "1e-5", "--json").document
    assert poisson["epsilon"] == epsilon(0.05, 1.0, 100, 1e-5, NeighboringRelation.ADD_OR_REMOVE)
    assert poisson["neighbours"] == "add or remove one client"
    list(run(*small(*GROUPS), f"{tmp_path}/run"))
    assert "after 2 rounds: replace one client" in feddecorr("privacy", f"{tmp_path}/run").out
    list(run(*small(*GROUPS, "sampling=poisson", "transforms.private.seed=1"), f"{tmp_path}/seeded"))
    reported = feddecorr("privacy", f"{tmp_path}/seeded")
    assert "after 2 rounds: add or remove one client" in reported.out
    assert "transforms.private.seed=1: whoever knows it can remove the noise" in reported.err
    refused = feddecorr("privacy", "clients=3")
    assert refused.code == 2
    assert "not private" in refused.err
    local = privacy_spent(small(*GROUPS[:2], "transforms=locally_private").experiment, 4, 1e-5)
    assert local.epsilon == epsilon(1.0, 1.0, 4, 1e-5, NeighboringRelation.REPLACE)


def test_the_page_quotes_what_the_command_prints(feddecorr: CommandLine) -> None:
    page = (ROOT / "docs" / "untrusted-clients.md").read_text()
    for sampling in ("poisson", "fixed"):
        words = [f"sampling={sampling}", *WORDS, "--delta", "1e-5"]
        assert f"feddecorr privacy {' '.join(words)}\n" in page
        assert f"\n{feddecorr('privacy', *words).out.strip()}\n" in page


def test_a_delta_that_is_no_probability_is_refused(feddecorr: CommandLine) -> None:
    refused = feddecorr("privacy", "transforms=private", "--delta", "2")
    assert refused.code == 2
    assert "delta=2.0 is not a probability between 0 and 1" in refused.err


@pytest.mark.parametrize("engine", ["serial", "pool"])
def test_clients_add_their_noise_before_they_send_whoever_runs_them(engine: str, tmp_path: Path) -> None:
    """What comes out of an engine is what a server gets: no trace of the change, of terms or of epochs."""
    words = ("model.norm=group", "transforms=locally_private", "evaluation.epochs=true", f"engine={engine}")
    simulation = simulate(*words, "transforms.locally_private.noise_multiplier=1000")
    server = simulation.federation.start()
    with small(*words).options.engine.open(simulation.task, simulation.shards, Memories(tmp_path)) as run_clients:
        for answer in run_clients(Broadcast.of(1, server), range(4)):
            assert isinstance(answer, Update)
            apart = flat(answer.weights) - flat(server.weights)
            assert float(apart.std()) == pytest.approx(1000, rel=0.1)
            assert (answer.metrics, answer.epochs) == ({}, {})
            assert answer.examples == simulation.federation.roster.sizes[answer.client]


def test_a_node_adds_the_noise_before_it_answers(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The bytes that leave the node of a deployment hold none but the noisy weights."""
    from feddecorr.flower import node  # noqa: PLC0415 - an extra
    from feddecorr.flower.payload import Payload  # noqa: PLC0415

    simulation = simulate("model.norm=group", "transforms=locally_private", "training.clients_per_batch=1")
    server = simulation.federation.start()

    class AtHome:
        client = 1
        training = ()

        def shard(self, task: object) -> object:
            del task
            return simulation.shards[1]

        def memories(self, run: str) -> Memories:
            return Memories(InnerPath(tmp_path) / run)

    monkeypatch.setattr(node, "find_node", lambda *_: AtHome())
    note: dict[str, str | int] = {
        "task": json.dumps(simulation.task.to_dict()),
        "run": "r",
        "client": 1,
        "round": 1,
        "before": 1,
    }
    payload = Payload(to_bytes(Broadcast.of(1, server)), {**note, "counted": 0, "evidence": 0})
    kind, answer = node.handle("train", payload, {})
    assert kind == "update"
    sent = from_bytes(Update, answer)
    trained, _ = Client(simulation.apart().task)(Broadcast.of(1, server), simulation.shards[1], {})
    noise = flat(sent.weights) - flat(server.weights)
    assert float(noise.std()) == pytest.approx(1.0, rel=0.1)  # as is said: noise_multiplier=1, norm=1
    assert float((flat(trained.weights) - flat(server.weights)).norm()) > 0
    assert sent.metrics == {}


def test_who_looks_at_the_clients_of_a_simulation_sees_what_they_trained(tmp_path: Path) -> None:
    words = (
        "model.norm=group",
        "rounds=1",
        "transforms=locally_private",
        "transforms.locally_private.noise_multiplier=1e6",
    )
    list(run(*small(*words), tmp_path / "run"))
    found = examine(RunDirectory.open(tmp_path / "run"), Wanted(round=1, local=True, clients=[0, 1]), "a", print)
    assert len(found.diagnoses) == 3
    assert all(math.isfinite(each.loss or 0) and (each.loss or 0) < 100 for each in found.diagnoses[1:])


@pytest.mark.parametrize(
    "words",
    ["sampling=poisson", "sampling=poisson method=fedavgm", "sampling=poisson batchnorm=pooled model.norm=batch"],
)
def test_a_round_without_clients_changes_nothing(words: str, tmp_path: Path) -> None:
    """In any engine, also if the run is gone on with between."""
    said = ("participation=0.25", "rounds=8", "evaluation.every=1", *words.split())
    records = list(run(*small(*said)))
    empty = [place for place, record in enumerate(records) if not record.clients]
    assert 0 < len(empty) < 8
    for place in empty:
        assert records[place].terms == {}
        if place:
            assert digest(records[place].state) == digest(records[place - 1].state)
    list(run(*small(*said, "evaluation.clients=true"), tmp_path / "looked-at"))
    with pytest.raises(UserError, match=f"nobody trained in round {empty[0] + 1}"):
        examine(RunDirectory.open(tmp_path / "looked-at"), Wanted(round=empty[0] + 1, averaging=True), "a", print)
    begun = result(run(*small(*said, f"rounds={empty[0] + 1}"), tmp_path / "run"))
    gone_on = result(resume(tmp_path / "run", *small(*said, "engine=pool")))
    assert begun + gone_on == result(records)


def test_a_round_without_clients_is_noise_under_privacy() -> None:
    words = ("model.norm=group", "sampling=poisson", "participation=0.25", "rounds=8", "transforms=private")
    records = list(run(*small(*words, "transforms.private.noise_multiplier=1e-3", "transforms.private.seed=1")))
    place = next(place for place, record in enumerate(records) if place and not record.clients)
    apart = flat(records[place].state) - flat(records[place - 1].state)
    assert float(apart.std()) == pytest.approx(1e-3, rel=0.1)  # over the one client that a round expects


def test_all_who_were_drawn_may_be_missing_under_a_poisson_draw_alone() -> None:
    words = ("missing=continue", "rounds=1", "model.norm=group")
    (left,) = weights_after(small(*words, "sampling=poisson").experiment, set(range(4)))
    assert torch.equal(flat(left), flat(simulate(*words).federation.start().weights))
    with pytest.raises(RunError, match="minimum_clients=1"):
        weights_after(small(*words).experiment, set(range(4)))
    with pytest.raises(UserError, match="minimum_clients=2 is for sampling=fixed"):
        small("sampling=poisson", "minimum_clients=2")
