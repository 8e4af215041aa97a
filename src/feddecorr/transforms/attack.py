"""Hostile clients, to see what others hold against them: for simulations alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import torch
from pydantic import Field, PositiveInt
from torch import Tensor

from feddecorr.core.messages import Broadcast, Failure, RoundInfo, Update
from feddecorr.core.randomness import generator
from feddecorr.core.states import State, extrapolate
from feddecorr.partition import Parts
from feddecorr.transforms.transform import Transform

STRENGTHS = {
    "noise": 10.0,
    "flipped": 10.0,
    "scaled": 10.0,
    "alie": 1.5,
    "ipm": 0.5,
    "labels": 1.0,
    "statistics": 100.0,
    "extra": 100.0,
    "examples": 1e12,
}
"""What an attack's `strength` is unless it is given."""


class Attack(Transform):
    """Lets the first clients be hostile: what they send is not what they learned, or they learned something else.

    noise, flipped, scaled: noise, their change turned round, or their change, `strength` times as long as that was.
    alie: the honest clients' mean less `strength` of their deviations (a little is enough: Baruch et al., 2019).
    ipm: the honest clients' mean change times −`strength` (inner-product manipulation: Xie et al., 2019).
    labels: they train on flipped labels, c − 1 − y of c classes. statistics: BatchNorm's, times `strength`.
    extra: what the method sends beside the weights, times −`strength`. examples: they claim that number.

    It acts before updates are checked, wherever it is chosen.
    """

    one_by_one = True

    clients: PositiveInt = Field(2, description="how many are hostile: those with the lowest numbers")
    sends: Literal["noise", "flipped", "scaled", "alie", "ipm", "labels", "statistics", "extra", "examples"] = Field(
        "flipped", description="what they send"
    )
    strength: float | None = Field(
        None,
        gt=0,
        le=1e30,
        description="how strong it is, measured as the attack does; by default "
        + ", ".join(f"{name} {strength:g}" for name, strength in STRENGTHS.items() if name != "labels"),
    )

    def labels(self, labels: Tensor, parts: Parts, classes: int) -> Tensor:
        """Flip those of the hostile clients, if they train on such."""
        if self.sends != "labels":
            return labels
        theirs = torch.from_numpy(parts.order[: parts.bounds[min(self.clients, len(parts.bounds) - 1)]])
        return labels.index_copy(0, theirs, classes - 1 - labels[theirs])

    def collude(
        self, answers: Iterable[Update | Failure], broadcast: Broadcast, info: RoundInfo
    ) -> Iterator[Update | Failure]:
        """Change what the hostile ones send, once they have seen what the others do."""
        taken = list(answers)
        updates = [answer for answer in taken if isinstance(answer, Update)]
        honest = [update for update in updates if update.client >= self.clients]
        strength = STRENGTHS[self.sends] if self.strength is None else self.strength
        scene = Scene(strength, honest or updates, broadcast, info)
        for answer in taken:
            if isinstance(answer, Update) and answer.client < self.clients:
                yield ATTACKS[self.sends](answer, scene)
            else:
                yield answer

    def __call__(self, updates: Iterable[Update], broadcast: Broadcast, info: RoundInfo) -> Iterator[Update]:  # noqa: ARG002 - it is done
        """Change nothing: updates come as they were sent."""
        return iter(updates)


@dataclass(frozen=True)
class Scene:
    """What a hostile client knows: all that the honest ones of the round send (or all, if none is honest)."""

    strength: float
    honest: Sequence[Update]
    broadcast: Broadcast
    info: RoundInfo

    def theirs(self, name: str) -> Tensor:
        """Return the honest clients' values of a weight."""
        return torch.stack([update.weights[name] for update in self.honest])


def _noise(update: Update, scene: Scene) -> State:
    stream = generator(scene.info.seed, "attack", scene.info.round, update.client)
    sent = scene.broadcast.weights
    drawn = {name: torch.randn(start.shape, generator=stream) for name, start in sent.items()}
    return {
        name: start + scene.strength * _as_long(drawn[name], update.weights[name] - start)
        for name, start in sent.items()
    }


def _as_long(noise: Tensor, like: Tensor) -> Tensor:
    scaled: Tensor = noise.to(like.dtype) * (like.norm() / noise.norm().clamp_min(1e-12))
    return scaled


def _flipped(update: Update, scene: Scene) -> State:
    return extrapolate(scene.broadcast.weights, update.weights, -scene.strength)


def _scaled(update: Update, scene: Scene) -> State:
    return extrapolate(scene.broadcast.weights, update.weights, scene.strength)


def _alie(update: Update, scene: Scene) -> State:
    theirs = {name: scene.theirs(name) for name in update.weights}
    return {name: t.mean(dim=0) - scene.strength * t.std(dim=0, correction=0) for name, t in theirs.items()}


def _ipm(_: Update, scene: Scene) -> State:
    sent = scene.broadcast.weights
    return extrapolate(sent, {name: scene.theirs(name).mean(dim=0) for name in sent}, -scene.strength)


def _times(state: State, factor: float) -> State:
    return {name: tensor * factor if tensor.is_floating_point() else tensor for name, tensor in state.items()}


ATTACKS: dict[str, Callable[[Update, Scene], Update]] = {
    "noise": lambda update, scene: replace(update, weights=_noise(update, scene)),
    "flipped": lambda update, scene: replace(update, weights=_flipped(update, scene)),
    "scaled": lambda update, scene: replace(update, weights=_scaled(update, scene)),
    "alie": lambda update, scene: replace(update, weights=_alie(update, scene)),
    "ipm": lambda update, scene: replace(update, weights=_ipm(update, scene)),
    "labels": lambda update, _: update,
    "statistics": lambda update, scene: replace(update, buffers=_times(update.buffers, scene.strength)),
    "extra": lambda update, scene: replace(update, extra=_times(update.extra, -scene.strength)),
    "examples": lambda update, scene: replace(update, examples=int(scene.strength)),
}
"""From the update that an honest client would send, and what it sees, to the hostile one."""
