"""Hostile clients send what their attack says, and honest ones what they did."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

import pytest
import torch
from sent_updates import BUFFERS, COUNT, SIZES, START, attacked, draw, flat
from small import simulate, small

from feddecorr.core.messages import Broadcast, Failure, RoundInfo, Update
from feddecorr.core.states import square_distance
from feddecorr.runs.pipeline import run
from feddecorr.server.federation import Simulation
from feddecorr.transforms import TRANSFORMS
from feddecorr.transforms.attack import ATTACKS, STRENGTHS, Attack
from feddecorr.transforms.private import Clip
from feddecorr.transforms.transform import Transform

HOSTILE = 2


def sent(sends: str, strength: float | None = None) -> tuple[list[Update], list[Update]]:
    """Return what honest clients send, and what comes of it."""
    updates = [replace(update, extra=update.weights) for update in draw()]
    return updates, attacked(Attack.parse({"clients": HOSTILE, "sends": sends, "strength": strength}), updates)


@pytest.mark.parametrize("sends", ["noise", "flipped", "scaled"])
def test_an_attack_is_as_strong_as_it_is_reported(sends: str) -> None:
    updates, found = sent(sends, 3.0)
    for before, after in zip(updates[:HOSTILE], found[:HOSTILE], strict=True):
        assert float(flat(after.weights).norm()) == pytest.approx(3 * float(flat(before.weights).norm()), rel=1e-6)
        turned = float(flat(after.weights) @ flat(before.weights))
        assert {"flipped": turned < 0, "scaled": turned > 0, "noise": True}[sends]


def test_a_little_is_enough_stays_within_deviations_of_the_honest_mean() -> None:
    updates, found = sent("alie", 1.5)
    honest = torch.stack([flat(update.weights) for update in updates[HOSTILE:]])
    deviations = (honest - honest.mean(dim=0)).square().mean(dim=0).sqrt()
    for update in found[:HOSTILE]:
        torch.testing.assert_close(flat(update.weights), honest.mean(dim=0) - 1.5 * deviations)


def test_inner_product_manipulation_turns_the_honest_mean_round() -> None:
    updates, found = sent("ipm", 0.5)
    honest = torch.stack([flat(update.weights) for update in updates[HOSTILE:]]).mean(dim=0)
    for update in found[:HOSTILE]:
        torch.testing.assert_close(flat(update.weights), -0.5 * honest)  # what was sent is zero


def test_where_nobody_is_honest_the_hostile_ones_look_at_each_other() -> None:
    updates = draw()[:HOSTILE]
    expected = torch.stack([flat(update.weights) for update in updates]).mean(dim=0)
    found = attacked(Attack(clients=HOSTILE, sends="ipm", strength=1.0), updates)
    torch.testing.assert_close(flat(found[0].weights), -expected)


def test_statistics_extra_and_examples_are_changed_alone() -> None:
    updates, found = sent("statistics", 3.0)
    for before, after in zip(updates[:HOSTILE], found, strict=False):
        assert torch.equal(after.buffers["mean"], 3 * before.buffers["mean"])
        assert replace(after, buffers=before.buffers) == before
    updates, found = sent("extra", 3.0)
    for before, after in zip(updates[:HOSTILE], found, strict=False):
        assert torch.equal(flat(after.extra), -3 * flat(before.extra))
        assert replace(after, extra=before.extra) == before
    updates, found = sent("examples")
    assert [update.examples for update in found[:HOSTILE]] == [10**12] * HOSTILE
    assert [replace(after, examples=before.examples) for before, after in zip(updates, found, strict=True)] == updates


@pytest.mark.parametrize("sends", ATTACKS)
def test_honest_clients_and_failures_stay_as_they_are_in_their_order(sends: str) -> None:
    updates, found = sent(sends)
    assert found[HOSTILE:] == updates[HOSTILE:]
    assert [update.client for update in found] == list(range(COUNT))
    failed = Failure(1, 0, "it broke")
    attack = Attack.parse({"sends": sends})
    info = RoundInfo(1, 0, SIZES)
    assert next(iter(attack.collude([failed, *updates[1:]], Broadcast(1, START, BUFFERS, {}), info))) is failed
    assert TRANSFORMS.name(attack) == "attack"
    assert STRENGTHS[sends] > 0


def test_hostile_clients_train_on_flipped_labels_and_others_on_theirs() -> None:
    honest, hostile = (simulate(*words) for words in ([], ["transforms=attack", "transforms.attack.sends=labels"]))
    for client in range(len(honest.shards)):
        true, reported = honest.shards[client].images, hostile.shards[client].images
        assert torch.equal(true.pixels, reported.pixels)
        assert torch.equal(reported.labels, 3 - true.labels if client < HOSTILE else true.labels)
    assert honest.federation.data == hostile.federation.data
    assert torch.equal(honest.dataset.train.labels, hostile.dataset.train.labels)


class Broken(Transform):
    """Lets the first client send no numbers."""

    def collude(self, answers: Iterable[Update | Failure], *_: Any) -> Iterator[Update | Failure]:
        for answer in answers:
            assert isinstance(answer, Update)
            nothing = {name: tensor * torch.nan for name, tensor in answer.weights.items()}
            yield answer if answer.client else replace(answer, weights=nothing)

    def __call__(self, updates: Iterable[Update], *_: Any) -> Iterator[Update]:
        return iter(updates)


def test_hostile_messages_take_the_road_of_all_others_wherever_the_attack_is_chosen() -> None:
    for transforms in ({"broken": Broken(), "clip": Clip()}, {"clip": Clip(), "broken": Broken()}):
        experiment, options = small("missing=continue", "rounds=1")
        (record,) = run(experiment.model_copy(update={"transforms": transforms}), options)
        assert list(record.missing) == [0]
        assert "its weights hold NaN or infinity" in record.missing[0]


@pytest.mark.parametrize("order", ["attack,clip", "clip,attack"])
def test_an_attack_comes_before_what_is_to_hold_against_it(order: str) -> None:
    words = ["rounds=1", f"transforms={order}", "transforms.clip.clipping_norm=0.1", "transforms.attack.strength=1000"]
    experiment, options = small(*words)
    start = Simulation(experiment).federation.start().weights
    (record,) = run(experiment, options)
    assert square_distance(record.state, start) ** 0.5 < 0.11
