"""Updates as clients send them, for what stands between them and the method."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from feddecorr.core.messages import Broadcast, RoundInfo, Update
from feddecorr.core.states import State
from feddecorr.transforms.transform import Transform

COUNT = 9
SIZES = np.arange(10, 10 + COUNT)
START: State = {"w": torch.zeros(4, 3, dtype=torch.float64), "b": torch.zeros(3, dtype=torch.float64)}
BUFFERS: State = {"mean": torch.zeros(2), "count": torch.tensor(0)}


def draw(count: int = COUNT) -> list[Update]:
    """Return what honest clients send: scattered around one point."""
    stream = torch.Generator().manual_seed(0)

    def state(like: State) -> State:
        return {
            name: 1 + 0.1 * torch.randn(tensor.shape, generator=stream, dtype=tensor.dtype)
            if tensor.is_floating_point()
            else torch.randint(5, 9, tensor.shape, generator=stream)
            for name, tensor in like.items()
        }

    return [
        Update(1, client, int(SIZES[client]), 0.1 * (client + 1), state(START), state(BUFFERS), {}, {})
        for client in range(count)
    ]


def apply(transform: Transform, updates: Sequence[Update]) -> list[Update]:
    """Let the updates of round 1 through."""
    return list(transform(updates, Broadcast(1, START, BUFFERS, {}), RoundInfo(1, 0, SIZES)))


def attacked(attack: Transform, updates: Sequence[Update]) -> list[Update]:
    """Return what is sent in place of the updates of round 1."""
    answers = attack.collude(updates, Broadcast(1, START, BUFFERS, {}), RoundInfo(1, 0, SIZES))
    return [answer for answer in answers if isinstance(answer, Update)]


def flat(state: State) -> torch.Tensor:
    """Return all numbers of a state as one vector."""
    return torch.cat([tensor.flatten().double() for tensor in state.values()])
