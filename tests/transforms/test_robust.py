"""Each rule against its definition, against Flower's where it has it, and against hostile clients."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
import torch
from flwr.server.strategy import aggregate as flower
from sent_updates import BUFFERS, COUNT, SIZES, START, apply, draw, flat
from small import result, small

from feddecorr.core.messages import Update
from feddecorr.core.states import Mean, State
from feddecorr.errors import RunError, UserError
from feddecorr.methods import METHODS
from feddecorr.runs.pipeline import resume, run
from feddecorr.transforms.robust import GeometricMedian, Krum, Median, TrimmedMean
from feddecorr.transforms.transform import Transform

ROBUST: dict[str, Transform] = {
    "median": Median(),
    "trimmed_mean": TrimmedMean(share=0.25),
    "geometric_median": GeometricMedian(),
    "krum": Krum(hostile=2),
    "multi-krum": Krum(hostile=2, keep=5),
}


def mean(updates: Sequence[Update]) -> State:
    found = Mean()
    for update in updates:
        found.add(update.weights, update.examples)
    return found.value


def for_flower(updates: Sequence[Update]) -> list[tuple[list[np.ndarray], int]]:
    return [([tensor.numpy() for tensor in update.weights.values()], update.examples) for update in updates]


FLOWER = {
    "median": flower.aggregate_median,
    "trimmed_mean": lambda results: flower.aggregate_trimmed_avg(results, 0.25),
    "krum": lambda results: flower.aggregate_krum(results, 2, 0),
    "multi-krum": lambda results: flower.aggregate_krum(results, 2, 5),
}


@pytest.mark.parametrize("count", [8, 9])
@pytest.mark.parametrize("name", FLOWER)
def test_the_rules_are_those_of_flower(name: str, count: int) -> None:
    updates = [replace(update, buffers={}) for update in draw(count)]
    theirs = FLOWER[name](for_flower(updates))  # type: ignore[no-untyped-call]  # it has no types
    ours = mean(apply(ROBUST[name], updates))
    for mine, other in zip(ours.values(), theirs, strict=True):
        np.testing.assert_allclose(mine.numpy(), other, rtol=1e-12)


def test_medians_and_trimmed_means_are_those_of_every_coordinate() -> None:
    updates = draw()
    values = torch.stack([flat(update.weights) for update in updates]).numpy()
    assert np.allclose(flat(apply(Median(), updates)[0].weights), np.median(values, axis=0), rtol=1e-15)
    trimmed = np.sort(values, axis=0)[2:-2].mean(axis=0)
    assert np.allclose(flat(apply(TrimmedMean(share=0.25), updates)[0].weights), trimmed, rtol=1e-14)
    assert np.allclose(flat(apply(TrimmedMean(share=0.0), updates)[0].weights), values.mean(axis=0), rtol=1e-14)


def test_krum_takes_the_update_that_is_nearest_to_its_neighbours() -> None:
    """By brute force over all sets of n − f − 2 others."""
    updates = draw()
    vectors = [torch.cat([flat(update.weights), update.buffers["mean"].double()]) for update in updates]
    least = [
        min(
            sum(float((vectors[i] - vectors[j]).square().sum()) for j in others)
            for others in combinations([j for j in range(COUNT) if j != i], COUNT - 4)
        )
        for i in range(COUNT)
    ]
    assert torch.allclose(Krum(hostile=2).scores(updates), torch.tensor(least, dtype=torch.float64))
    assert [each.client for each in apply(Krum(hostile=2), updates)] == [int(np.argmin(least))]
    best = sorted(np.argsort(least)[:5].tolist())
    assert [each.client for each in apply(Krum(hostile=2, keep=5), updates)] == best


def test_the_geometric_median_has_the_least_sum_of_distances() -> None:
    """There, unit vectors towards all clients cancel, weighted by their examples; no neighbour is better."""
    updates = draw()
    center = flat(apply(ROBUST["geometric_median"], updates)[0].weights)
    vectors = torch.stack([flat(update.weights) for update in updates]) - center
    shares = torch.tensor(SIZES / SIZES.sum())
    pull = (shares[:, None] * vectors / vectors.norm(dim=1, keepdim=True)).sum(dim=0)
    assert pull.norm() < 1e-6
    for step in torch.eye(len(center), dtype=torch.float64) * 1e-3:
        assert (shares * (vectors - step).norm(dim=1)).sum() > (shares * vectors.norm(dim=1)).sum()


@pytest.mark.parametrize("name", ROBUST)
def test_two_clients_of_nine_cannot_move_it_far(name: str) -> None:
    """Whatever they send: it stays among the honest ones, while the mean goes anywhere."""
    honest = draw()
    spread = max(float((flat(update.weights) - 1).norm()) for update in honest)
    for wrong in (1e6, -1e6, 30.0):
        bad = {name: torch.full_like(tensor, wrong) for name, tensor in START.items()}
        states = {name: torch.full_like(tensor, wrong) for name, tensor in BUFFERS.items()}
        sent = [replace(update, weights=bad, buffers=states, amount=abs(wrong)) for update in honest[:2]] + honest[2:]
        found = apply(ROBUST[name], sent)
        assert float((flat(mean(found)) - 1).norm()) < 2 * spread
        assert all(abs(float(each.buffers["mean"].mean()) - 1) < 1 for each in found)
        assert all(5 <= int(each.buffers["count"]) < 9 for each in found)
        assert all(each.amount < 1 for each in found)
        assert float((flat(mean(sent)) - 1).norm()) > 2 * spread


@pytest.mark.parametrize("name", ["median", "trimmed_mean", "geometric_median", "krum"])
def test_clients_that_agree_are_believed_to_the_last_bit(name: str) -> None:
    same = [replace(update, weights=draw()[0].weights, buffers=draw()[0].buffers) for update in draw()]
    for found in apply(ROBUST[name], same):
        assert torch.allclose(flat(found.weights), flat(same[0].weights), rtol=0, atol=0 if name == "median" else 1e-15)


def test_too_few_updates_are_refused_at_the_door_and_on_the_way() -> None:
    with pytest.raises(UserError, match="needs 7 clients in a round, and there are 4"):
        small("transforms=krum")
    with pytest.raises(RunError, match="there are 6 updates, and krum needs at least 7"):
        apply(Krum(hostile=2), draw()[:6])


@pytest.mark.parametrize("name", METHODS.table)
def test_any_method_takes_any_rule_from_any_engine_and_after_a_resume(name: str, tmp_path: object) -> None:
    rule = ["median", "trimmed_mean", "geometric_median", "krum"][len(name) % 4]
    words = [f"method={name}", f"transforms=attack,{rule}", "transforms.attack.clients=1"]
    words += ["rounds=2", "training.epochs=1", "evaluation.every=1"]
    words += ["transforms.krum.hostile=0"] if rule == "krum" else []
    expected = result(run(*small(*words)))
    begun = result(run(*small(*words, "rounds=1"), f"{tmp_path}/run"))
    pool, pool_options = small(*words, "engine=pool", "engine.workers=2")
    assert begun + result(resume(f"{tmp_path}/run", pool, pool_options)) == expected


@pytest.mark.parametrize("rule", ["median", "trimmed_mean", "geometric_median"])
def test_who_is_far_from_the_robust_mean_is_named(rule: str) -> None:
    honest = draw()
    far = {name: tensor * 1e9 for name, tensor in honest[0].weights.items()}
    sent = [replace(honest[0], weights=far, note="it lost its memory"), *honest[1:]]
    notes = [update.note for update in apply(ROBUST[rule], sent)]
    assert notes[0].startswith("it lost its memory; its weights are ")
    assert notes[0].endswith("times as far from the robust mean as the median client's")
    assert not any(notes[1:])
    assert not any(update.note for update in apply(ROBUST[rule], honest))


def test_a_round_records_whom_a_rule_named_and_whom_it_left_out() -> None:
    words = [
        "clients=7",
        "rounds=1",
        "partition=homogeneous",
        "transforms.attack.strength=1e6",
        "transforms.attack.clients=1",
    ]
    (record,) = run(*small(*words, "transforms=attack,median", "transforms.median.name=median"))
    assert list(record.notes) == [0]
    assert "its weights are" in record.notes[0]
    (record,) = run(*small(*words, "transforms=attack,krum", "transforms.krum.keep=5"))
    assert len(record.notes) == 2
    assert record.notes[0] == "its update was dropped by transforms=attack,krum"
    (record,) = run(*small(*words[:3]))
    assert not record.notes
