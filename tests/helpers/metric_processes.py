"""A metric in two processes, each of which sees its own samples."""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from torch import Tensor, distributed

SIZES = (30, 50)


def samples() -> tuple[Tensor, Tensor]:
    """Return what both processes see, together."""
    stream = torch.Generator().manual_seed(0)
    return torch.randn(sum(SIZES), 5, generator=stream) + 1, torch.arange(sum(SIZES)) % 3


def measure(rank: int, folder: Path, plain: bool) -> None:
    """Be one of the processes, with or without torchmetrics."""
    if plain:
        sys.modules["torchmetrics"] = None  # type: ignore[assignment]  # as if it were not installed
    from feddecorr.collapse.metric import CollapseMetric, SummedStates  # noqa: PLC0415

    assert issubclass(CollapseMetric, SummedStates) == plain
    torch.set_num_threads(1)
    meeting = f"file://{folder / 'meeting'}"
    distributed.init_process_group("gloo", init_method=meeting, rank=rank, world_size=len(SIZES))
    metric = CollapseMetric(5, 3)
    z, y = samples()
    metric.update(z.split(SIZES)[rank], y.split(SIZES)[rank])
    torch.save(metric.compute(), folder / f"{rank}.pt")
    distributed.destroy_process_group()
