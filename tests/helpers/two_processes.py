"""Work in two processes that know of each other; a training, for the loss that gathers what both of them hold."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor, distributed, nn
from torch.multiprocessing.spawn import start_processes
from torch.nn.parallel import DistributedDataParallel

from feddecorr.engines.processes import context
from feddecorr.loss.module import FedDecorrLoss

SIZES = (5, 7)
"""Examples of each process: they need not be the same."""


def in_two_processes(work: Callable[..., None], *arguments: object) -> None:
    """Do the same in two processes, distinguished by their first argument, which are forked with all imports done."""
    start_processes(work, arguments, nprocs=2, start_method=context().get_start_method())


def network() -> nn.Module:
    """Return the network that both processes train."""
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 4))


def examples() -> Tensor:
    """Return what both processes hold, together."""
    return torch.randn(sum(SIZES), 6, generator=torch.Generator().manual_seed(1))


def work(rank: int, folder: Path) -> None:
    """Be one of the processes, which leaves its loss and gradients in a file."""
    torch.set_num_threads(1)
    meeting = f"file://{folder / 'meeting'}"
    distributed.init_process_group("gloo", init_method=meeting, rank=rank, world_size=len(SIZES))
    model = DistributedDataParallel(network())
    loss = FedDecorrLoss(gather=True)(model(examples().split(SIZES)[rank]))
    loss.backward()
    gradients = {name: parameter.grad for name, parameter in model.module.named_parameters()}
    torch.save({"loss": loss.detach(), **gradients}, folder / f"{rank}.pt")
    distributed.destroy_process_group()
