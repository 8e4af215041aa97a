"""A metric in two processes, each of which sees its own samples."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import torch
from torch import Tensor, distributed

from feddecorr.collapse.monitor import ValidationDiagnosis
from feddecorr.collapse.representation import capture_representations

SIZES = (30, 50)


def samples() -> tuple[Tensor, Tensor]:
    """Return what both processes see, together."""
    stream = torch.Generator().manual_seed(0)
    return torch.randn(sum(SIZES), 5, generator=stream) + 1, torch.arange(sum(SIZES)) % 3


def measure(rank: int, folder: Path) -> None:
    """Be one of the processes, with torchmetrics and then as if it were not installed."""
    _meet(rank, folder)
    found = []
    for plain in (False, True):
        if plain:
            sys.modules["torchmetrics"] = None  # type: ignore[assignment]  # as if it were not installed
        sys.modules.pop("feddecorr.collapse.metric", None)
        home = importlib.import_module("feddecorr.collapse.metric")
        assert issubclass(home.CollapseMetric, home.SummedStates) == plain
        metric = home.CollapseMetric(5, 3)
        z, y = samples()
        mine = (z.split(SIZES)[rank], y.split(SIZES)[rank])
        found.append(metric(*mine))
        found.append(metric.compute())
    torch.save(found, folder / f"{rank}.pt")
    distributed.destroy_process_group()


def _meet(rank: int, folder: Path) -> None:
    torch.set_num_threads(1)
    meeting = f"file://{folder / 'meeting'}"
    distributed.init_process_group("gloo", init_method=meeting, rank=rank, world_size=len(SIZES))


def constant_first(z: Tensor) -> Tensor:
    """Return features of which the first never varies, at a value that sums round."""
    return torch.cat([torch.full_like(z[:, :1], 0.1), z[:, 1:]], 1)


def validate(rank: int, folder: Path) -> None:
    """Be one of the processes of a trainer that validates."""
    _meet(rank, folder)
    z, y = (each.split(SIZES)[rank] for each in samples())
    running, head = ValidationDiagnosis(), torch.nn.Linear(5, 3)
    with capture_representations(head) as seen:
        for some, labels in zip(constant_first(z).split(20), y.split(20), strict=True):
            head(some)
            running.see(seen, labels)
    found = running.diagnose("z")
    assert found is not None
    names = ("samples", "effective_rank", "dead_features", "nc1_variability", "singular_values")
    torch.save({name: getattr(found, name) for name in names}, folder / f"{rank}.pt")
    distributed.destroy_process_group()
