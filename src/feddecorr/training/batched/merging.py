"""The mean of the updates of clients that trained side by side, in place of the updates."""

from __future__ import annotations

import math
from collections.abc import Sequence

from feddecorr.core.messages import Update
from feddecorr.core.states import State, not_finite
from feddecorr.training.batched.side_by_side import SideBySide
from feddecorr.training.client_round import ClientRound


def merge(
    learner: SideBySide, parts: Sequence[ClientRound], amounts: Sequence[float], out_buffers: State
) -> Update | None:
    """Return the mean by numbers of examples, in the room if there is any.

    None if anybody's training diverged: then each is to be looked at by itself.
    """
    first, *others = parts
    examples = [len(part.visits.shard) for part in parts]
    steps = [part.visits.steps for part in parts]
    metrics = learner.tally.mean(steps, examples)
    weights, buffers = learner.mean(examples, out_buffers)
    if not all(map(math.isfinite, metrics.values())) or not_finite(weights) or not_finite(buffers):
        return None
    done = [amounts[count - 1] * images for count, images in zip(steps, examples, strict=True)]
    return Update(
        round=first.context.broadcast.round,
        client=first.client,
        examples=sum(examples),
        amount=sum(done) / sum(examples),
        weights=weights,
        buffers=buffers,
        extra={},
        metrics=metrics,
        beside=[part.client for part in others],
    )
