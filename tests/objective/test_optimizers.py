from typing import Any

import pytest
import torch
from small import small

from feddecorr.config.experiment import Experiment
from feddecorr.config.overrides import read_overrides
from feddecorr.errors import UserError
from feddecorr.objective.optimizers import FusedSGD, clip, clip_each
from feddecorr.runs.pipeline import run
from feddecorr.settings.flat import overrides_of


@pytest.mark.parametrize("name", ["sgd", "adamw"])
@pytest.mark.parametrize("momentum", [0.0, 0.9])
@pytest.mark.parametrize("weight_decay", [0.0, 1e-2])
def test_steps_are_those_of_torchs_fused_kernel_bit_for_bit(name: str, momentum: float, weight_decay: float) -> None:
    torch.manual_seed(0)
    start = [torch.randn(5, 3), torch.randn(7)]
    gradients = [[torch.randn_like(tensor) for tensor in start] for _ in range(4)]
    ours = [tensor.clone() for tensor in start]
    theirs = [tensor.clone().requires_grad_() for tensor in start]
    words = [f"training.optimizer={name}", f"training.momentum={momentum}", f"training.weight_decay={weight_decay}"]
    training = small(*words, f"training.betas=[{momentum},0.99]").experiment.training
    optimizer = training.optimizer.stepper(ours, training, 0.1)
    oracle: Any = (
        torch.optim.SGD(theirs, lr=0.1, momentum=momentum, weight_decay=weight_decay, fused=True)
        if name == "sgd"
        else torch.optim.AdamW(theirs, lr=0.1, betas=(momentum, 0.99), weight_decay=weight_decay, fused=True)
    )
    for step in gradients:
        optimizer.step(step)
        for tensor, gradient in zip(theirs, step, strict=True):
            tensor.grad = gradient.clone()
        oracle.step()
    for mine, reference in zip(ours, theirs, strict=True):
        assert torch.equal(mine, reference.detach())


@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_the_memory_format_of_a_gradient_does_not_matter(momentum: float) -> None:
    """Not of gradients that are expanded from fewer numbers, either."""
    torch.manual_seed(0)
    start, gradient = torch.randn(4, 3, 5, 5), torch.randn(4, 3, 5, 5)
    found = []
    for shape in (torch.contiguous_format, torch.channels_last):
        weights = [start.clone().to(memory_format=shape), torch.ones(7, 2)]
        optimizer = FusedSGD(weights, lr=0.1, momentum=momentum, weight_decay=0.1)
        for _ in range(3):
            optimizer.step([gradient, torch.tensor(2.0).expand(7, 2)])
        found.append(weights)
    assert torch.equal(found[0][0], found[1][0])
    assert len(found[0][1].unique()) == 1


def test_gradients_are_left_as_they_are() -> None:
    gradient = torch.ones(3)
    optimizer = FusedSGD([torch.zeros(3)], lr=0.1, momentum=0.9, weight_decay=0.1)
    optimizer.step([gradient])
    optimizer.step([gradient])
    assert torch.equal(gradient, torch.ones(3))


@pytest.mark.parametrize("momentum", [0.0, 0.5, 0.9])
def test_the_amount_is_the_drift_of_a_constant_gradient(momentum: float) -> None:
    """On a constant gradient g, all steps together move by amount·g: the learning rate is counted in."""
    weight = torch.zeros(1, dtype=torch.float64)
    optimizer = FusedSGD([weight], lr=0.1, momentum=momentum, weight_decay=0.0)
    for _ in range(10):
        optimizer.step([torch.full((1,), 2.0, dtype=torch.float64)])
    assert float(weight) == pytest.approx(-optimizer.amount * 2.0, rel=1e-12)


@pytest.mark.parametrize("longest", [0.1, 1e9])
def test_clipping_is_that_of_torch(longest: float) -> None:
    """Shorter gradients stay as they are, to the last bit."""
    gradients = [torch.randn(5, 3), torch.randn(7)]
    parameters = [torch.zeros_like(gradient).requires_grad_() for gradient in gradients]
    for parameter, gradient in zip(parameters, gradients, strict=True):
        parameter.grad = gradient.clone()
    torch.nn.utils.clip_grad_norm_(parameters, longest)
    for mine, parameter in zip(clip(gradients, longest), parameters, strict=True):
        assert parameter.grad is not None
        torch.testing.assert_close(mine, parameter.grad)
    assert longest < 1 or all(torch.equal(*pair) for pair in zip(clip(gradients, longest), gradients, strict=True))


def test_of_several_clients_each_is_clipped_by_itself() -> None:
    gradients = [torch.randn(3, 5, 2, dtype=torch.float64), torch.randn(3, 7, dtype=torch.float64)]
    gradients[0][1] /= 100
    gradients[1][1] /= 100  # the one whose gradient is short
    clipped = clip_each(gradients, 0.5)
    for client in range(3):
        expected = clip([gradient[client] for gradient in gradients], 0.5)
        for mine, theirs in zip(clipped, expected, strict=True):
            torch.testing.assert_close(mine[client], theirs, rtol=1e-12, atol=0)


@pytest.mark.parametrize("name", ["sgd", "adamw"])
def test_clients_that_are_done_stay_where_they_are(name: str) -> None:
    """And the others go on with their own momentum, as if they had been alone."""
    torch.manual_seed(0)
    stacked = [torch.randn(3, 4)]
    alone = [stacked[0][:1].clone()]
    training = small(f"training.optimizer={name}", "training.momentum=0.9").experiment.training
    together, single = (training.optimizer.stepper(weights, training, 0.1) for weights in (stacked, alone))
    for clients in (3, 3, 2, 1, 1):
        gradient, before = torch.randn(clients, 4), stacked[0].clone()
        together.step([gradient])
        single.step([gradient[:1]])
        assert torch.equal(stacked[0][clients:], before[clients:])
        assert not torch.equal(stacked[0][:clients], before[:clients])
        torch.testing.assert_close(stacked[0][:1], alone[0])


def test_your_own_optimizer_trains_with_everything_else() -> None:
    """Written in plain PyTorch it is SGD, but for rounding, and its options are part of the experiment."""
    settings = small("training.optimizer=outside:Plain", "training.optimizer.momentum=0.8")
    ours = settings.experiment
    assert Experiment.parse(ours.to_dict()) == ours
    assert ours.digest() != small("training.optimizer=outside:Plain").experiment.digest()
    assert Experiment.parse(read_overrides(overrides_of(ours))) == ours
    for mine, other in zip(run(*settings), run(*small("training.momentum=0.8")), strict=True):
        for name, tensor in mine.state.items():
            torch.testing.assert_close(tensor, other.state[name], rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("name", ["Plain", "Normed"])
def test_clients_that_train_at_once_take_their_own_steps_with_any_optimizer(name: str) -> None:
    """Also where the step of a parameter depends on all of its numbers, and where some are done before others."""
    words = [f"training.optimizer=outside:{name}", "model=mlp", "training.lr=0.01"]
    alone, together = (list(run(*small(*words, f"training.clients_per_batch={count}")))[-1] for count in (1, 4))
    for key, tensor in alone.state.items():
        torch.testing.assert_close(tensor, together.state[key], rtol=1e-3, atol=1e-5)


def test_methods_that_assume_sgd_refuse_your_own_by_name() -> None:
    with pytest.raises(
        UserError, match=r"scaffold assumes SGD updates: it needs training\.optimizer=sgd, not outside:P"
    ):
        small("method=scaffold", "training.optimizer=outside:Plain")


def test_an_unknown_optimizer_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(UserError, match="unknown optimizer 'adam'"):
        small("training.optimizer=adam")
