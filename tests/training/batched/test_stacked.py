import pytest
import torch
from torch import nn

from feddecorr.collapse.representation import capture_representations
from feddecorr.training.batched.chain import obstacle
from feddecorr.training.batched.stacked import Stacked


@pytest.mark.parametrize("bias", [True, False])
def test_stacked_networks_and_their_gradients_are_those_of_each(bias: bool) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Flatten(), nn.Linear(4, 5, bias=bias), nn.SiLU(), nn.Linear(5, 3), nn.Tanh(), nn.Linear(3, 2)
    ).double()
    assert obstacle(model) is None
    stacked = Stacked(model, model.state_dict(), [dict(model.named_buffers())] * 3)
    with torch.no_grad():
        for weight in stacked.trainable:
            weight.add_(torch.randn_like(weight))
    x = torch.randn(3, 6, 1, 2, 2).double()
    z, logits = stacked(x, [6] * 3)
    slopes = torch.autograd.grad(logits.square().sum() + z.sum(), stacked.trainable)
    for client in range(3):
        model.load_state_dict(stacked.of(client)[0])
        with capture_representations(model) as seen:
            expected = model(x[client])
        assert torch.allclose(logits[client], expected)
        assert torch.allclose(z[client], seen.z)
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
