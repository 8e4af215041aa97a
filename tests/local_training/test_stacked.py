from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from feddecorr.local_training.stacked import Stacked, obstacle
from feddecorr.representation import capture_representations


class Doubled(nn.Linear):
    """Not the linear layer that it looks like."""

    def forward(self, x: Tensor) -> Tensor:
        """Return twice as much."""
        return 2 * super().forward(x)


def chain(*layers: nn.Module, flatten: nn.Module | None = None) -> nn.Sequential:
    return nn.Sequential(flatten or nn.Flatten(), *layers)


def hooked() -> nn.Module:
    model = chain(nn.Linear(4, 3), nn.Linear(3, 2))
    model[1].register_forward_hook(lambda _module, _inputs, output: 2 * output)
    return model


def buffered() -> nn.Module:
    model = chain(nn.Linear(4, 2))
    model.register_buffer("scale", torch.ones(()))
    return model


def seen_elsewhere() -> nn.Module:
    model = chain(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2))
    model.representation_layer = "2"  # type: ignore[assignment]  # modules take any attribute
    return model


@pytest.mark.parametrize(
    ("build", "reason"),
    [
        (lambda: nn.Sequential(nn.Conv2d(1, 2, 1), nn.Flatten(), nn.Linear(8, 2)), "'0' is of the kind Conv2d"),
        (lambda: chain(nn.Linear(4, 3), nn.BatchNorm1d(3), nn.Linear(3, 2)), "'2' is of the kind BatchNorm1d"),
        (lambda: chain(nn.Sequential(nn.Dropout(), nn.Linear(4, 2))), "'1.0' is of the kind Dropout"),
        (lambda: chain(Doubled(4, 2)), "'1' is of the kind Doubled"),
        (lambda: nn.Linear(4, 2), "first layer takes images that are not flattened"),
        (
            lambda: nn.Sequential(nn.Linear(2, 2), nn.Flatten(), nn.Linear(4, 2)),
            "first layer takes images that are not",
        ),
        (lambda: chain(nn.Linear(4, 2), flatten=nn.Flatten(2)), "'0' flattens some dimensions only"),
        (hooked, "'1' has a hook"),
        (buffered, "buffer 'scale' belongs to no layer"),
        (seen_elsewhere, "representation is not a linear one"),
    ],
)
def test_what_cannot_be_stacked_is_named(build: Callable[[], nn.Module], reason: str) -> None:
    found = obstacle(build())
    assert found is not None
    assert reason in found


@pytest.mark.parametrize("bias", [True, False])
def test_stacked_networks_and_their_gradients_are_those_of_each(bias: bool) -> None:
    torch.manual_seed(0)
    model = chain(nn.Linear(4, 5, bias=bias), nn.SiLU(), nn.Linear(5, 3), nn.Tanh(), nn.Linear(3, 2)).double()
    assert obstacle(model) is None
    stacked = Stacked(model, model.state_dict(), 3)
    with torch.no_grad():
        for weight in stacked.trainable:
            weight.add_(torch.randn_like(weight))
    x = torch.randn(3, 6, 1, 2, 2).double()
    z, logits = stacked(x)
    slopes = torch.autograd.grad(logits.square().sum() + z.sum(), stacked.trainable)
    for client in range(3):
        model.load_state_dict(stacked.of(client))
        with capture_representations(model) as seen:
            expected = model(x[client])
        assert torch.allclose(logits[client], expected)
        assert torch.allclose(z[client], seen.z)
        gradients = torch.autograd.grad(expected.square().sum() + seen.z.sum(), list(model.parameters()))
        for mine, theirs in zip(slopes, gradients, strict=True):
            assert torch.allclose(mine[client], theirs)


def test_those_who_leave_keep_what_they_have() -> None:
    model = chain(nn.Linear(4, 2))
    stacked = Stacked(model, model.state_dict(), 3)
    stacked.narrow(1)
    with torch.no_grad():
        for weight in stacked.trainable:
            assert len(weight) == 1
            weight.zero_()
    assert not any(weight.any() for weight in stacked.of(0).values())
    for client in (1, 2):
        assert all(torch.equal(weight, model.state_dict()[name]) for name, weight in stacked.of(client).items())
