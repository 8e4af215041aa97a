"""Hostile clients, to test robust aggregation against: for simulations only."""

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
from feddecorr.partition.split import Parts
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
"""The default `strength` of each attack."""


class Attack(Transform):
    """Makes the clients with the lowest numbers hostile: they send manipulated updates, or train on flipped labels.

    noise, flipped, scaled: noise of the norm of their change, or that change times −1 or 1, times `strength`.
    alie: the honest clients' mean minus `strength` standard deviations (A Little Is Enough: Baruch et al., 2019).
    ipm: the honest clients' mean change times −`strength` (inner-product manipulation: Xie et al., 2019).
    labels: they train on flipped labels, c − 1 − y of c classes. statistics: BatchNorm statistics times `strength`.
    extra: what the method sends as `extra`, times −`strength`. examples: they claim that number of examples.

    Attacks act before validation, wherever they stand in the list of transforms.
    """

    per_update = True

    clients: PositiveInt = Field(2, description="number of hostile clients: those with the lowest numbers")
    sends: Literal["noise", "flipped", "scaled", "alie", "ipm", "labels", "statistics", "extra", "examples"] = Field(
        "flipped", description="what they send"
    )
    strength: float | None = Field(
        None,
        gt=0,
        le=1e30,
        description="strength of the attack, in its own unit; by default "
        + ", ".join(f"{name} {strength:g}" for name, strength in STRENGTHS.items() if name != "labels"),
    )

    def labels(self, labels: Tensor, parts: Parts, classes: int) -> Tensor:
        """Flip the hostile clients' labels under sends=labels."""
        if self.sends != "labels":
            return labels
        theirs = torch.from_numpy(parts.order[: parts.bounds[min(self.clients, len(parts.bounds) - 1)]])
        return labels.index_copy(0, theirs, classes - 1 - labels[theirs])

    def collude(
        self, answers: Iterable[Update | Failure], broadcast: Broadcast, info: RoundInfo
    ) -> Iterator[Update | Failure]:
        """Replace the hostile clients' updates; they see the honest ones."""
        taken = list(answers)
        updates = [answer for answer in taken if isinstance(answer, Update)]
        honest = [update for update in updates if update.client >= self.clients]
        strength = STRENGTHS[self.sends] if self.strength is None else self.strength
        context = AttackContext(strength, honest or updates, broadcast, info)
        for answer in taken:
            if isinstance(answer, Update) and answer.client < self.clients:
                yield ATTACKS[self.sends](answer, context)
            else:
                yield answer

    def __call__(self, updates: Iterable[Update], broadcast: Broadcast, info: RoundInfo) -> Iterator[Update]:  # noqa: ARG002 - collude has done it
        """Change nothing here."""
        return iter(updates)


@dataclass(frozen=True)
class AttackContext:
    """What a hostile client knows: the updates of the round's honest clients (of all, if none is honest)."""

    strength: float
    honest: Sequence[Update]
    broadcast: Broadcast
    info: RoundInfo

    def honest_weights(self, name: str) -> Tensor:
        """Return the honest clients' values of one tensor, stacked."""
        return torch.stack([update.weights[name] for update in self.honest])


def _noise(update: Update, context: AttackContext) -> State:
    stream = generator(context.info.seed, "attack", context.info.round, update.client)
    sent = context.broadcast.weights
    drawn = {name: torch.randn(start.shape, generator=stream) for name, start in sent.items()}
    return {
        name: start + context.strength * _with_norm_of(drawn[name], update.weights[name] - start)
        for name, start in sent.items()
    }


def _with_norm_of(noise: Tensor, like: Tensor) -> Tensor:
    scaled: Tensor = noise.to(like.dtype) * (like.norm() / noise.norm().clamp_min(1e-12))
    return scaled


def _scaled(update: Update, context: AttackContext, factor: float) -> State:
    return extrapolate(context.broadcast.weights, update.weights, factor)


def _alie(update: Update, context: AttackContext) -> State:
    theirs = {name: context.honest_weights(name) for name in update.weights}
    return {name: t.mean(dim=0) - context.strength * t.std(dim=0, correction=0) for name, t in theirs.items()}


def _ipm(_: Update, context: AttackContext) -> State:
    sent = context.broadcast.weights
    return extrapolate(sent, {name: context.honest_weights(name).mean(dim=0) for name in sent}, -context.strength)


def _times(state: State, factor: float) -> State:
    return {name: tensor * factor if tensor.is_floating_point() else tensor for name, tensor in state.items()}


ATTACKS: dict[str, Callable[[Update, AttackContext], Update]] = {
    "noise": lambda update, context: replace(update, weights=_noise(update, context)),
    "flipped": lambda update, context: replace(update, weights=_scaled(update, context, -context.strength)),
    "scaled": lambda update, context: replace(update, weights=_scaled(update, context, context.strength)),
    "alie": lambda update, context: replace(update, weights=_alie(update, context)),
    "ipm": lambda update, context: replace(update, weights=_ipm(update, context)),
    "labels": lambda update, _: update,
    "statistics": lambda update, context: replace(update, buffers=_times(update.buffers, context.strength)),
    "extra": lambda update, context: replace(update, extra=_times(update.extra, -context.strength)),
    "examples": lambda update, context: replace(update, examples=int(context.strength)),
}
"""Maps the update that an honest client would send, and what it knows, to the hostile one."""
