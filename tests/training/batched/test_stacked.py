from collections.abc import Callable

import pytest
import torch
from torch import nn

from feddecorr.collapse.representation import capture_representations
from feddecorr.training.batched.stacked import Stacked


def perceptron(bias: bool) -> nn.Module:
    return nn.Sequential(
        nn.Flatten(), nn.Linear(16, 5, bias=bias), nn.SiLU(), nn.Linear(5, 3), nn.Tanh(), nn.Linear(3, 2)
    )


def convolutions(bias: bool) -> nn.Module:
    """Return a network by both rules of convolutions, with pooling and groups."""
    first, second = nn.Conv2d(1, 8, 3, bias=bias, padding="same"), nn.Conv2d(8, 16, 3, groups=2, bias=bias, padding=1)
    third = nn.Conv2d(16, 3, 1, 2, dilation=2)
    return nn.Sequential(
        first, nn.MaxPool2d(3, 1, padding=1), nn.ReLU(), second, nn.GroupNorm(4, 16), nn.SiLU(),
        third, nn.BatchNorm2d(3), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(3, 2),
    )  # fmt: skip


@pytest.mark.parametrize("memory_format", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("build", [perceptron, convolutions])
def test_stacked_networks_and_their_gradients_are_those_of_each(
    build: Callable[[bool], nn.Module], bias: bool, memory_format: torch.memory_format
) -> None:
    torch.manual_seed(0)
    model = build(bias).double()
    model.to(memory_format=memory_format)  # type: ignore[call-overload]  # it can be said alone
    buffers = {name: buffer.clone() for name, buffer in model.named_buffers()}
    stacked = Stacked(model, dict(model.named_parameters()), [buffers] * 3)
    with torch.no_grad():
        for weight in stacked.trainable:
            weight.add_(torch.randn_like(weight))
    x = torch.randn(3, 6, 1, 4, 4).double()
    with stacked.watching():
        z, logits, _ = stacked(x)
    slopes = torch.autograd.grad(logits.square().sum() + z.sum(), stacked.trainable)
    for client in range(3):
        weights, follow = stacked.of(client)
        assert all(weight.stride() == model.get_parameter(name).stride() for name, weight in weights.items())
        model.load_state_dict({**weights, **buffers})
        with capture_representations(model) as seen:
            expected = model(x[client])
        assert torch.allclose(logits[client], expected)
        assert torch.allclose(z[client], seen.z)
        assert all(torch.allclose(follow[name], buffer) for name, buffer in model.named_buffers())
        gradients = torch.autograd.grad(expected.square().sum() + seen.z.sum(), list(model.parameters()))
        for mine, theirs in zip(slopes, gradients, strict=True):
            assert torch.allclose(mine[client], theirs)


def test_those_who_leave_keep_what_they_have() -> None:
    model = nn.Sequential(nn.Flatten(), nn.Linear(4, 2))
    stacked = Stacked(model, model.state_dict(), [dict(model.named_buffers())] * 3)
    stacked.narrow(1)
    with torch.no_grad():
        for weight in stacked.trainable:
            assert len(weight) == 1
            weight.zero_()
    assert not any(weight.any() for weight in stacked.of(0)[0].values())
    for client in (1, 2):
        assert all(torch.equal(weight, model.state_dict()[name]) for name, weight in stacked.of(client)[0].items())
