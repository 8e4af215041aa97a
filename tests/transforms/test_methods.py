"""Every method under every transform, against both written out plainly.

A round is run by the package; the clients' own updates, before any transform, are trained apart from the same start.
What the transform and then the method's server have to make of them is computed here, in float64.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import cycle, product
from pathlib import Path

import numpy as np
import pytest
import torch
from sent_updates import flat
from small import small
from torch import Tensor
from torch.nn.functional import normalize

from feddecorr.config.experiment import Experiment
from feddecorr.core.client_memory import Memories
from feddecorr.core.messages import Broadcast, Server, Update
from feddecorr.core.paths import InnerPath
from feddecorr.core.randomness import generator
from feddecorr.core.states import State
from feddecorr.engines.engine import Serial
from feddecorr.methods import METHODS
from feddecorr.server.federation import Simulation
from feddecorr.server.rounds import federate

NORM, NOISE, SEED = 0.05, 0.01, 3

PRIVACY = f"clipping_norm={NORM} noise_multiplier={NOISE} seed={SEED}"
TRANSFORMS = {
    "none": "",
    "attack": "transforms=attack clients=1 sends=flipped strength=2",
    "clip": f"transforms=clip clipping_norm={NORM}",
    "median": "transforms=median",
    "trimmed_mean": "transforms=trimmed_mean share=0.2",
    "geometric_median": "transforms=geometric_median",
    "krum": "transforms=krum hostile=1 keep=3",
    "private": f"transforms=private {PRIVACY}",
    "private poisson": f"transforms=private {PRIVACY} sampling=poisson",
    "locally_private": f"transforms=locally_private {PRIVACY}",
}
TOLERANCE = {"geometric_median": 2e-3}
"""Where the package goes on until it is near enough; elsewhere it is rounding alone."""

NEEDS_EXTRA = {"scaffold", "fedmuon", "fedmr", "fednh"}
CLIENTS = 6


def words(method: str, transform: str) -> list[str]:
    first, *rest = [*TRANSFORMS[transform].split(), ""][:-1] or [""]
    name = first.partition("=")[2]
    own = [word if word.startswith("sampling") else f"transforms.{name}.{word}" for word in rest]
    size = [f"clients={CLIENTS}", "participation=0.84", "rounds=2", "data.train=150", "training.epochs=1"]
    model = ["model=mlp", "model.widths=[6]", "training.clients_per_batch=1"]
    return [*model, *size, f"method={method}", *filter(None, [first]), *own]


@dataclass(frozen=True)
class Sent:
    """What the server's side of a method gets of a client: all numbers as one vector."""

    client: int
    weights: Tensor
    extra: Tensor
    examples: float
    amount: float


@dataclass(frozen=True)
class Known:
    """What the server knows before a round: what it sent, the weights, what it shares and remembers, and N."""

    sent: Tensor
    weights: Tensor
    shared: Tensor
    memory: Tensor
    clients: int
    cohort: int
    examples: float
    round: int
    shapes: Sequence[torch.Size]


def noise(known: Known, client: int) -> Tensor:
    """Return the seeded noise of a client, or of the server for 0."""
    stream = generator(SEED, "privacy", known.round, client)
    drawn = [torch.randn(shape, generator=stream, dtype=torch.float64).flatten() for shape in known.shapes]
    return NOISE * NORM * torch.cat(drawn)


def short(change: Tensor) -> Tensor:
    return change * min(1.0, NORM / float(change.norm()))


def agreed(sent: list[Sent], rule: Callable[[np.ndarray], np.ndarray]) -> list[Sent]:
    weights, extra = (
        torch.from_numpy(rule(np.stack([getattr(each, name).numpy() for each in sent])))
        for name in ("weights", "extra")
    )
    amount = float(np.median([each.amount for each in sent]))
    return [Sent(each.client, weights, extra, each.examples, amount) for each in sent]


def central(sent: list[Sent], name: str) -> Tensor:
    """Return the point with the least sum of distances, by examples, found in a thousand steps of Weiszfeld's."""
    points = torch.stack([getattr(each, name) for each in sent])
    weights = torch.tensor([each.examples for each in sent], dtype=torch.float64)
    center = weights @ points / weights.sum()
    for _ in range(1000):
        pulls = weights / (points - center).norm(dim=1).clamp_min(1e-6)
        center = pulls @ points / pulls.sum()
    return center


def in_the_middle(sent: list[Sent]) -> list[Sent]:
    weights, extra = central(sent, "weights"), central(sent, "extra")
    amount = float(np.median([each.amount for each in sent]))
    return [Sent(each.client, weights, extra, each.examples, amount) for each in sent]


def trimmed(values: np.ndarray) -> np.ndarray:
    cut = int(0.2 * len(values))
    ordered: np.ndarray = np.sort(values, axis=0)[cut : len(values) - cut].mean(axis=0)
    return ordered


def nearest(sent: list[Sent]) -> list[Sent]:
    points = torch.stack([torch.cat([each.weights, each.extra]) for each in sent])
    squares = torch.cdist(points, points).square().sort(dim=1).values[:, 1 : len(sent) - 2]
    best = squares.sum(dim=1).argsort()[:3].tolist()
    return [sent[place] for place in sorted(best)]


def changed(transform: str, sent: list[Sent], known: Known) -> tuple[list[Sent], float]:
    """Return what the method gets, and how many examples all clients have together."""

    def moved(each: Sent, to: Tensor) -> Sent:
        return Sent(each.client, to, each.extra, each.examples, each.amount)

    start, total = known.sent, known.examples
    if transform.startswith("private"):
        added = sum((short(each.weights - start) for each in sent), torch.zeros_like(start)) + noise(known, 0)
        whole = Sent(-1, start + added / known.cohort, torch.zeros(0), known.cohort, 1.0)
        return [whole], known.clients
    plain: dict[str, Callable[[], list[Sent]]] = {
        "none": lambda: sent,
        "attack": lambda: [moved(e, start - 2 * (e.weights - start)) if e.client == 0 else e for e in sent],
        "clip": lambda: [moved(e, start + short(e.weights - start)) for e in sent],
        "median": lambda: agreed(sent, lambda values: np.median(values, axis=0)),
        "trimmed_mean": lambda: agreed(sent, trimmed),
        "geometric_median": lambda: in_the_middle(sent),
        "krum": lambda: [
            Sent(e.client, e.weights, e.extra, e.examples, float(np.median([each.amount for each in sent])))
            for e in nearest(sent)
        ],
        "locally_private": lambda: [moved(e, start + short(e.weights - start) + noise(known, e.client)) for e in sent],
    }
    return plain[transform](), total


def mean(sent: list[Sent], of: Callable[[Sent], Tensor]) -> Tensor:
    return sum((e.examples * of(e) for e in sent), torch.zeros(1)) / sum(e.examples for e in sent)


def adaptive(second: Callable[[Tensor, Tensor], Tensor], beta1: float) -> Callable[..., tuple[Tensor, Tensor]]:
    def step(known: Known, sent: list[Sent], _: float) -> tuple[Tensor, Tensor]:
        m, v = known.memory.chunk(2)
        change = mean(sent, lambda e: e.weights) - known.weights
        m, v = beta1 * m + (1 - beta1) * change, second(v, change**2)
        return known.weights + 0.01 * m / (v.sqrt() + 1e-3), torch.cat([m, v])

    return step


def fedavg(known: Known, sent: list[Sent], _: float) -> tuple[Tensor, Tensor]:
    return mean(sent, lambda e: e.weights), torch.cat([known.shared, known.memory])


def fedavgm(known: Known, sent: list[Sent], _: float) -> tuple[Tensor, Tensor]:
    velocity = 0.5 * known.memory + mean(sent, lambda e: e.weights) - known.weights
    return known.weights + velocity, velocity


def fedacg(known: Known, sent: list[Sent], _: float) -> tuple[Tensor, Tensor]:
    to = mean(sent, lambda e: e.weights)
    return to, to - known.weights


def fednova(known: Known, sent: list[Sent], _: float) -> tuple[Tensor, Tensor]:
    steps = mean(sent, lambda e: torch.tensor([e.amount]))
    return known.weights + steps * mean(sent, lambda e: (e.weights - known.weights) / e.amount), torch.zeros(0)


def fedexp(known: Known, sent: list[Sent], _: float) -> tuple[Tensor, Tensor]:
    change = mean(sent, lambda e: e.weights - known.weights)
    squares = mean(sent, lambda e: (e.weights - known.weights).square().sum()[None])
    factor = max(1.0, float(squares / (2 * (change.square().sum() + 1e-3))))
    return known.weights + factor * change, torch.zeros(0)


def feddyn(known: Known, sent: list[Sent], examples: float) -> tuple[Tensor, Tensor]:
    drift = known.memory - sum(e.examples * (e.weights - known.weights) for e in sent) / examples
    return mean(sent, lambda e: e.weights) - drift, drift


def scaffold(known: Known, sent: list[Sent], examples: float) -> tuple[Tensor, Tensor]:
    return mean(sent, lambda e: e.weights), known.shared + sum(e.examples * e.extra for e in sent) / examples


def fedmuon(known: Known, sent: list[Sent], examples: float) -> tuple[Tensor, Tensor]:
    moved = sum(e.examples * (e.weights - known.weights) for e in sent) / examples
    return known.weights + moved, known.shared + sum(e.examples * e.extra for e in sent) / examples


def class_table(known: Known, sent: list[Sent]) -> tuple[Tensor, Tensor]:
    """Return the mean of each class over everybody's samples of it, and how many there are."""
    classes, width = next(shape for shape in reversed(known.shapes) if len(shape) == 2)
    counts = torch.stack([e.extra[-classes:].clamp(0, e.examples) for e in sent])
    means = torch.stack([e.extra[:-classes].view(classes, width) for e in sent])
    total = counts.sum(0)
    return (counts.unsqueeze(2) * means).sum(0) / total.clamp(min=1e-12).unsqueeze(1), total


def fedmr(known: Known, sent: list[Sent], _: float) -> tuple[Tensor, Tensor]:
    means, total = class_table(known, sent)
    old, before = known.shared[: means.numel()].view(means.shape), known.shared[means.numel() :]
    kept = torch.where((total > 0).unsqueeze(1), means, old), torch.where(total > 0, total, before)
    return mean(sent, lambda e: e.weights), torch.cat([each.flatten() for each in kept])


def fednh(known: Known, sent: list[Sent], _: float) -> tuple[Tensor, Tensor]:
    means, total = class_table(known, sent)
    place = max(place for place, shape in enumerate(known.shapes) if len(shape) == 2)
    parts = mean(sent, lambda e: e.weights).split([shape.numel() for shape in known.shapes])
    old = known.weights.split([shape.numel() for shape in known.shapes])[place].view(means.shape)
    moved = normalize(0.9 * old + 0.1 * normalize(means))
    rows = torch.where((total > 0).unsqueeze(1), moved, old).flatten()
    return torch.cat([*parts[:place], rows, *parts[place + 1 :]]), torch.zeros(0)


SERVERS: dict[str, Callable[[Known, list[Sent], float], tuple[Tensor, Tensor]]] = {
    "fedavgm": fedavgm,
    "fedacg": fedacg,
    "fednova": fednova,
    "fedexp": fedexp,
    "feddyn": feddyn,
    "scaffold": scaffold,
    "fedmuon": fedmuon,
    "fedmr": fedmr,
    "fednh": fednh,
    "fedadagrad": adaptive(lambda v, square: v + square, 0.0),
    "fedadam": adaptive(lambda v, square: 0.99 * v + 0.01 * square, 0.9),
    "fedyogi": adaptive(lambda v, square: v - 0.01 * square * (v - square).sign(), 0.9),
}
"""What the server does where it does more than average; each returns weights, and what it shares or remembers."""


AVERAGED = list(zip(sorted(METHODS.table.keys() - {"fedavg", *SERVERS}), cycle(TRANSFORMS), strict=False))
"""Methods whose server only averages, each transform in turn."""


def vector(state: State) -> Tensor:
    """Return all numbers, those of one kind (`first/…`, `second/…`) after the other."""
    by_kind = dict(sorted(state.items(), key=lambda item: item[0].rpartition("/")[0]))
    return flat(by_kind) if state else torch.zeros(0, dtype=torch.float64)


def known_before(experiment: Experiment, simulation: Simulation, server: Server, broadcast: Broadcast) -> Known:
    return Known(
        sent=vector(broadcast.weights),
        weights=vector(server.weights),
        shared=vector(server.shared),
        memory=vector(server.memory),
        clients=experiment.clients,
        cohort=experiment.cohort,
        examples=float(simulation.federation.roster.sizes.sum()),
        round=broadcast.round,
        shapes=[tensor.shape for tensor in server.weights.values()],
    )


def of_update(update: Update) -> Sent:
    return Sent(update.client, vector(update.weights), vector(update.extra), update.examples, update.amount)


@pytest.mark.parametrize(("method", "transform"), [*product(["fedavg", *SERVERS], TRANSFORMS), *AVERAGED])
def test_a_round_is_what_the_method_makes_of_what_the_transform_leaves(
    method: str, transform: str, tmp_path: Path
) -> None:
    if method in NEEDS_EXTRA and "private" in transform:
        return  # they are refused: their extra would be released without noise
    experiment = small(*words(method, transform)).experiment
    simulation = Simulation(experiment)
    federation, server = simulation.federation, simulation.federation.start()
    apart = Memories(InnerPath(tmp_path) / "apart")
    whole, alone = simulation, simulation.apart()
    with (
        Serial().open(whole.task, whole.shards, Memories(InnerPath(tmp_path) / "run")) as run_clients,
        Serial().open(alone.task, alone.shards, apart) as train,
    ):
        for now in federate(server, federation, run_clients, rounds=range(1, 3)):
            broadcast = experiment.method.broadcast(now.number, server)
            known = known_before(experiment, simulation, server, broadcast)
            sent = [of_update(each) for each in train(broadcast, now.clients) if isinstance(each, Update)]
            got, examples = changed(transform, sent, known)
            weights, kept = SERVERS.get(method, fedavg)(known, got, examples)
            nearly = TOLERANCE.get(transform, 2e-6)
            torch.testing.assert_close(vector(now.server.weights), weights.double(), rtol=1e-4, atol=nearly)
            found = torch.cat([vector(now.server.shared), vector(now.server.memory)])
            torch.testing.assert_close(found, kept.double(), rtol=1e-3, atol=nearly)
            server = now.server
