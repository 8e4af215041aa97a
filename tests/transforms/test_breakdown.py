"""What no hostile minority can do to a robust rule, whatever finite numbers it sends, under any method."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import cycle, product

import numpy as np
import pytest
import torch
from each import each
from sent_updates import COUNT, SIZES, START, apply, attacked, draw, flat
from small import small
from torch import Tensor

from feddecorr.core.messages import Broadcast, RoundInfo, Server, Update
from feddecorr.core.states import Mean, State, not_finite
from feddecorr.errors import RunError, UserError
from feddecorr.methods import METHODS
from feddecorr.runs.pipeline import run
from feddecorr.transforms.attack import STRENGTHS, Attack
from feddecorr.transforms.robust import GeometricMedian, Krum, Median, TrimmedMean
from feddecorr.transforms.transform import Transform

RULES: dict[str, Transform] = {
    "median": Median(),
    "trimmed_mean": TrimmedMean(share=0.25),
    "geometric_median": GeometricMedian(),
    "krum": Krum(hostile=2),
    "multi-krum": Krum(hostile=2, keep=5),
}
HOSTILE = 2
HUGE = [1e30, -1e30, 1e15, 30.0, -30.0, 1e-30]
SENT: dict[str, Callable[[Tensor, float], Tensor]] = {
    "constant": torch.full_like,
    "scaled": lambda honest, value: honest * value,
    "flipped": lambda honest, value: honest * -value,
    "one coordinate": lambda honest, value: honest.flatten().index_fill(0, torch.tensor(0), value).view(honest.shape),
}


PAIRS = list(zip(METHODS.table, cycle(RULES), strict=False))
"""Every method, each rule in turn."""


def single(state: State) -> State:
    """Return the state as networks have it, in single precision."""
    return {name: tensor.float() if tensor.is_floating_point() else tensor for name, tensor in state.items()}


def clients() -> list[Update]:
    """Return what they send, and as extra what any method takes: a tensor for each weight, and class means."""
    found = []
    for update in draw():
        weights = single(update.weights)
        extra = {**weights, "means": weights["w"], "counts": weights["w"][:, 0].clone()}
        found.append(replace(update, weights=weights, extra=extra))
    return found


def spoiled(update: Update, how: str, value: float) -> Update:
    def spoil(state: State) -> State:
        return {
            name: SENT[how](tensor, value) if tensor.is_floating_point() else tensor for name, tensor in state.items()
        }

    sections = {name: spoil(getattr(update, name)) for name in ("weights", "buffers", "extra")}
    return Update(**{**vars(update), **sections, "examples": 10**12, "amount": 1e300})


def mean(updates: Sequence[Update], section: str = "weights") -> Tensor:
    found = Mean()
    for update in updates:
        found.add(getattr(update, section), update.examples)
    return flat(found.value)


def moved(rule: Transform, updates: Sequence[Update], method: str, order: Sequence[int] | None = None) -> Server:
    """Return the server after two rounds of these updates, by way of the rule."""
    info, chosen = RoundInfo(1, 0, SIZES, classifier="w"), METHODS.parse({"name": method})
    server = chosen.start(Server(single(START), {}), info)
    for _ in range(2):
        broadcast = Broadcast(1, server.weights, {}, server.shared)
        sent = [replace(updates[place], buffers={}) for place in order or range(len(updates))]
        server = chosen.aggregate(server, rule(sent, broadcast, info), info)
    return server


@each("value", HUGE)
@each("how", SENT)
@pytest.mark.parametrize("name", RULES)
def test_the_aggregate_stays_where_honest_clients_put_it(name: str, how: str, value: float) -> None:
    """In every section, within a bound that the honest clients alone decide."""
    honest = clients()
    sent = [*(spoiled(update, how, value) for update in honest[:HOSTILE]), *honest[HOSTILE:]]
    found = apply(RULES[name], sent)
    for section in ("weights", "buffers", "extra"):
        points = torch.stack([flat(getattr(update, section)) for update in honest[HOSTILE:]])
        middle = points.mean(dim=0)
        radius = float((points - middle).norm(dim=1).max())
        share = float(SIZES[:HOSTILE].sum() / SIZES.sum())
        bound = {
            "median": radius * points.shape[1] ** 0.5,
            "trimmed_mean": radius * points.shape[1] ** 0.5,
            "geometric_median": radius * 2 * (1 - share) / (1 - 2 * share),
            "krum": radius * (1 + 2 * (COUNT - HOSTILE - 2) ** 0.5),
            "multi-krum": radius * (1 + 2 * (COUNT - HOSTILE - 2) ** 0.5),
        }[name]
        assert float((mean(found, section) - middle).norm()) <= bound * (1 + 1e-6)


@pytest.mark.parametrize(("method", "name"), PAIRS)
def test_no_method_uses_what_hostile_clients_claim_about_themselves(name: str, method: str) -> None:
    """Numbers of examples are the server's own, and the amount of work is the median of all."""
    honest = clients()
    claims = [replace(update, examples=10**12, amount=1e300) for update in honest[:HOSTILE]] + honest[HOSTILE:]
    believed = [replace(update, amount=0.1 * COUNT) for update in honest[:HOSTILE]] + honest[HOSTILE:]
    found, expected = moved(RULES[name], claims, method), moved(RULES[name], believed, method)
    for section in ("weights", "shared", "memory"):
        for key, tensor in getattr(found, section).items():
            assert torch.equal(tensor, getattr(expected, section)[key]), (section, key)


@pytest.mark.parametrize(("method", "name"), PAIRS)
def test_every_method_stays_finite_and_small(name: str, method: str) -> None:
    honest = clients()
    for how, value in product(SENT, HUGE):
        sent = [*(spoiled(update, how, value) for update in honest[:HOSTILE]), *honest[HOSTILE:]]
        server = moved(RULES[name], sent, method)
        for state in (server.weights, server.shared, server.memory):
            assert not not_finite(state)
            assert all(float(tensor.abs().max()) < 100 for tensor in state.values())


@pytest.mark.parametrize(("method", "name"), PAIRS)
def test_the_order_of_clients_does_not_matter(name: str, method: str) -> None:
    updates = clients()
    expected = moved(RULES[name], updates, method)
    for seed in range(3):
        order = np.random.default_rng(seed).permutation(COUNT).tolist()
        found = moved(RULES[name], updates, method, order)
        for key, tensor in found.weights.items():
            torch.testing.assert_close(tensor, expected.weights[key], rtol=1e-5, atol=1e-6)


@each("scale", [1e-25, 1e-6, 1.0, 1e6, 1e25])
def test_the_geometric_median_knows_no_scale(scale: float) -> None:
    updates = clients()
    plain = flat(apply(GeometricMedian(), updates)[0].weights)
    scaled = [replace(each, weights={k: v.double() * scale for k, v in each.weights.items()}) for each in updates]
    torch.testing.assert_close(flat(apply(GeometricMedian(), scaled)[0].weights) / scale, plain, rtol=1e-6, atol=0)


@each("length", [1e9, 1e30, 1e150, 1e300])
def test_far_clients_pull_the_geometric_median_by_their_direction_alone(length: float) -> None:
    """At the median, unit vectors towards all clients cancel, however far some of them are."""
    updates = draw()
    far = {name: torch.full_like(tensor, -length) for name, tensor in START.items()}
    sent = [replace(update, weights=far) for update in updates[:HOSTILE]] + updates[HOSTILE:]
    center = flat(apply(GeometricMedian(), sent)[0].weights)
    vectors = torch.stack([flat(update.weights) for update in sent]) - center
    vectors /= vectors.abs().amax(dim=1, keepdim=True)
    units = vectors / vectors.norm(dim=1, keepdim=True)
    pull = (torch.tensor(SIZES / SIZES.sum())[:, None] * units).sum(dim=0)
    assert float(pull.norm()) < 1e-5


def test_clients_with_few_examples_cannot_outnumber_the_geometric_median() -> None:
    """Eight of nine clients with less than half of the examples: the ninth's point is the median, to the last bit."""
    updates = draw()
    sizes = np.array([1] * (COUNT - 1) + [COUNT])
    for length in (1.0, 1e30):
        sent = [spoiled(update, "constant", length) for update in updates[:-1]] + updates[-1:]
        found = list(GeometricMedian()(sent, Broadcast(1, START, {}, {}), RoundInfo(1, 0, sizes)))
        assert torch.equal(flat(found[0].weights), flat(updates[-1].weights))


def test_multi_krum_never_has_to_keep_a_hostile_client() -> None:
    """It keeps no more than are honest."""
    with pytest.raises(UserError, match="needs 8 clients in a round, and there are 7"):
        Krum(hostile=2, keep=6).check(7)
    with pytest.raises(RunError, match="there are 9 updates, and krum needs at least 10"):
        apply(Krum(hostile=2, keep=8), draw())


def test_multi_krum_keeps_inner_product_manipulation_where_clients_differ() -> None:
    """Short updates lie nearer to everybody than honest ones do to each other; scaled ones are left out."""
    spread = [replace(each, weights={k: 10 * (v - 1) + 0.1 for k, v in each.weights.items()}) for each in draw()]
    for sends, expected in (("ipm", {0, 1}), ("scaled", set())):
        sent = attacked(Attack.parse({"sends": sends}), spread)
        assert {update.client for update in apply(RULES["multi-krum"], sent)} & {0, 1} == expected


@pytest.mark.parametrize(
    ("rule", "method"),
    [
        (["median"], "fedavg"),
        (["trimmed_mean", "share=0.3"], "scaffold"),
        (["geometric_median"], "feddyn"),
        (["krum"], "scaffold"),
    ],
)
def test_no_attack_ends_a_run_under_a_robust_rule(rule: list[str], method: str) -> None:
    """From the clients' labels to the model: each attack as strong as usual or a billion times that, by turns."""
    name, *options = rule
    words = [
        "clients=9",
        "rounds=2",
        "partition=homogeneous",
        "training.steps=1",
        "model.widths=[4]",
        f"method={method}",
    ]
    words += [f"transforms=attack,{name}", *(f"transforms.{name}.{option}" for option in options)]
    factors = cycle((1.0, 1e9) if method == "scaffold" else (1e9, 1.0))
    for (sends, usual), factor in zip(STRENGTHS.items(), factors, strict=False):
        attack = [f"transforms.attack.sends={sends}", f"transforms.attack.strength={usual * factor}"]
        records = list(run(*small(*words, *attack, "missing=continue")))
        assert not not_finite(records[-1].state), sends
        assert max(float(tensor.abs().max()) for tensor in records[-1].state.values()) < 100, sends
        assert records[-1].accuracy is not None
        assert set(records[-1].missing) <= {0, 1}, "an honest client is blamed"
