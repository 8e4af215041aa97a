"""The loss in several processes is that of one with the whole batch."""

from pathlib import Path

import pytest
import torch
from torch import Tensor, distributed, nn
from torch.multiprocessing.spawn import spawn
from torch.nn.parallel import DistributedDataParallel

from feddecorr.decorrelation import FedDecorrLoss
from feddecorr.errors import UserError

SIZES = (5, 7)
"""Examples of each process: they need not be the same."""


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 4))


def examples() -> Tensor:
    return torch.randn(sum(SIZES), 6, generator=torch.Generator().manual_seed(1))


def work(rank: int, folder: Path) -> None:
    """Be one of two processes, which leaves its loss and gradients in a file."""
    torch.set_num_threads(1)
    meeting = f"file://{folder / 'meeting'}"
    distributed.init_process_group("gloo", init_method=meeting, rank=rank, world_size=len(SIZES))
    model = DistributedDataParallel(network())
    loss = FedDecorrLoss(gather=True)(model(examples().split(SIZES)[rank]))
    loss.backward()
    gradients = {name: parameter.grad for name, parameter in model.module.named_parameters()}
    torch.save({"loss": loss.detach(), **gradients}, folder / f"{rank}.pt")
    distributed.destroy_process_group()


def test_two_processes_have_the_loss_and_gradient_of_one_with_the_whole_batch(tmp_path: Path) -> None:
    spawn(work, (tmp_path,), nprocs=len(SIZES))  # type: ignore[no-untyped-call]  # torch gives it no types
    model = network()
    loss = FedDecorrLoss()(model(examples()))
    loss.backward()
    for rank in range(len(SIZES)):
        found = torch.load(tmp_path / f"{rank}.pt", weights_only=True)
        torch.testing.assert_close(found.pop("loss"), loss.detach())
        torch.testing.assert_close(found, {name: parameter.grad for name, parameter in model.named_parameters()})


def test_without_processes_it_says_so() -> None:
    with pytest.raises(UserError, match="no processes to gather"):
        FedDecorrLoss(gather=True)(torch.randn(4, 3))


def test_the_option_is_seen() -> None:
    assert repr(FedDecorrLoss(gather=True)) == "FedDecorrLoss(normalization='released', gather=True)"
    assert repr(FedDecorrLoss()) == "FedDecorrLoss(normalization='released')"
