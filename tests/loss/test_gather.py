"""The loss in several processes is that of one with the whole batch."""

from pathlib import Path

import pytest
import torch
from two_processes import SIZES, examples, in_two_processes, network, work

from feddecorr.errors import UserError
from feddecorr.loss.module import FedDecorrLoss


def test_two_processes_have_the_loss_and_gradient_of_one_with_the_whole_batch(tmp_path: Path) -> None:
    in_two_processes(work, tmp_path)
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
    assert repr(FedDecorrLoss(gather=True)) == "FedDecorrLoss(normalization='released', dying='ignored', gather=True)"
    assert repr(FedDecorrLoss()) == "FedDecorrLoss(normalization='released', dying='ignored')"
