import re
import subprocess
import sys
from collections.abc import Callable

import pytest
import torch
from beside_networks import Counting
from outside import Half, Tied
from torch import Tensor, nn
from torch.nn.functional import conv2d, max_pool2d

from feddecorr.training.batched.grouping import mixes_rows, multiplications, obstacle

SHAPE = (1, 4, 4)


def network(*layers: nn.Module) -> nn.Sequential:
    return nn.Sequential(*layers, nn.Flatten(), nn.LazyLinear(2))


def built(model: nn.Module) -> nn.Module:
    """Return the network with the shapes of lazy layers."""
    model.eval()(torch.zeros(2, *SHAPE))
    return model


class Branching(nn.Linear):
    """Does one thing or another, as the images say."""

    def forward(self, x: Tensor) -> Tensor:
        """Return twice as much of bright images."""
        return super().forward(x) * (2 if x.sum() > 0 else 1)


class Reading(nn.Linear):
    """Makes a Python number of an image."""

    def forward(self, x: Tensor) -> Tensor:
        """Scale by it."""
        return super().forward(x) * (x.mean().item() + 1)


class Ruleless(nn.Linear):
    """Calls what vmap has no rule for."""

    def forward(self, x: Tensor) -> Tensor:
        """Add what a histogram counts."""
        return super().forward(x) + torch.histc(x.detach(), 4).sum()


class Unsteady(nn.Linear):
    """Gives something else with every call."""

    calls = 0

    def forward(self, x: Tensor) -> Tensor:
        """Count in Python, which nobody sends or restores."""
        self.calls += 1
        return super().forward(x) * self.calls


def hooked(register: str) -> nn.Module:
    model = network(nn.Flatten(), nn.Linear(16, 3))
    getattr(model[1], register)(lambda *_: None)
    return model


def hooked_parameter() -> nn.Module:
    model = network(nn.Flatten(), nn.Linear(16, 3))
    model.get_parameter("1.weight").register_hook(lambda slope: 2 * slope)
    return model


@pytest.mark.parametrize(
    ("build", "reason"),
    [
        (lambda: network(nn.Flatten(), nn.Sequential(nn.Dropout(), nn.Linear(16, 3))), r"layer '1.0' draws random"),
        (lambda: network(nn.Dropout2d()), r"layer '0' draws random numbers, which .* each client's own stream"),
        (lambda: network(nn.Flatten(), Branching(16, 3)), r"layer '1' lets its course depend on values"),
        (lambda: network(nn.Flatten(), Reading(16, 3)), r"layer '1' lets its course depend on values"),
        (lambda: network(nn.BatchNorm2d(1, momentum=None)), r"layer '0' lets its course depend on values"),
        (lambda: network(nn.Flatten(), Ruleless(16, 3)), r"layer '1' calls an operation that vmap has no rule for"),
        (lambda: network(nn.Flatten(), Unsteady(16, 3)), "does not give what it gives one by one"),
        (lambda: hooked("register_forward_hook"), "layer '1' has a hook"),
        (lambda: hooked("register_forward_pre_hook"), "layer '1' has a hook"),
        (lambda: hooked("register_full_backward_hook"), "layer '1' has a hook"),
        (hooked_parameter, "parameter '1.weight' has a hook"),
    ],
)
def test_what_cannot_be_trained_at_once_is_reported_with_its_place(build: Callable[[], nn.Module], reason: str) -> None:
    torch.manual_seed(0)
    found = obstacle(built(build()), SHAPE)
    assert re.search(reason, found)


class Standardized(nn.Conv2d):
    """Makes its weights anew in each pass, and pools something that is the same for everybody."""

    def forward(self, x: Tensor) -> Tensor:
        """Convolve with weights of mean zero."""
        blurred = conv2d(torch.ones_like(self.weight[:1]), torch.ones(1, 1, 2, 2))
        weight = (self.weight.flatten(1).mT - self.weight.flatten(1).mean(1)).mT.view_as(self.weight)
        return conv2d(x, weight, self.bias) + max_pool2d(conv2d(torch.ones(1, 1, 3, 3), blurred), 2).sum()


class Doubled(nn.Linear):
    """Not the linear layer that it looks like."""

    def forward(self, x: Tensor) -> Tensor:
        """Return twice as much."""
        return 2 * super().forward(x)


@pytest.mark.parametrize(
    "build",
    [
        lambda: network(nn.Conv2d(1, 2, 3, padding=1, padding_mode="reflect")),
        lambda: network(nn.Conv2d(1, 8, 3), nn.GroupNorm(2, 8), nn.ReLU(), nn.Conv2d(8, 3, 1), nn.AvgPool2d(2)),
        lambda: network(nn.BatchNorm2d(1, track_running_stats=False)),
        lambda: network(nn.Flatten(), nn.Linear(16, 6), nn.BatchNorm1d(6)),
        lambda: network(nn.Flatten(), nn.Linear(16, 6), nn.LayerNorm(6), nn.Dropout(0.0)),
        lambda: network(nn.Linear(4, 5), nn.PReLU()),
        lambda: network(nn.ConvTranspose2d(1, 2, 2), nn.InstanceNorm2d(2, affine=True), nn.MaxPool2d(2)),
        lambda: network(nn.Flatten(2), nn.Conv1d(1, 3, 3)),
        lambda: network(nn.Flatten(), Doubled(16, 3)),
        lambda: network(Standardized(1, 3, 3)),
        lambda: Counting(2, SHAPE),
        lambda: Half(2, 1),
        lambda: Tied(2, 1),
    ],
)
@pytest.mark.parametrize("memory_format", [torch.contiguous_format, torch.channels_last])
def test_any_other_module_can(build: Callable[[], nn.Module], memory_format: torch.memory_format) -> None:
    torch.manual_seed(0)
    model = built(build())
    model.to(memory_format=memory_format)  # type: ignore[call-overload]  # it can be said alone
    assert obstacle(model, SHAPE) == ""


def test_a_trial_leaves_the_network_and_all_randomness_as_they_were() -> None:
    torch.manual_seed(0)
    model = built(network(nn.Conv2d(1, 8, 3), nn.BatchNorm2d(8), nn.Dropout()))
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    chance = torch.get_rng_state()
    for look in (obstacle, mixes_rows, multiplications):
        look(model, SHAPE)
    assert torch.equal(chance, torch.get_rng_state())
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())


@pytest.mark.parametrize(
    ("build", "mixes"),
    [
        (lambda: network(nn.Conv2d(1, 8, 3), nn.GroupNorm(2, 8)), False),
        (lambda: network(nn.Flatten(), nn.Linear(16, 3), nn.LayerNorm(3)), False),
        (lambda: network(nn.BatchNorm2d(1)), True),
        (lambda: network(nn.BatchNorm2d(1, track_running_stats=False)), True),
        (lambda: network(nn.Softmax(dim=0)), True),
        (lambda: Counting(2, SHAPE), True),  # not the images, but its buffers
    ],
)
def test_networks_whose_images_depend_on_each_other_are_reported(build: Callable[[], nn.Module], mixes: bool) -> None:
    torch.manual_seed(0)
    assert mixes_rows(built(build()), SHAPE) is mixes


def test_multiplications_are_counted_by_hand() -> None:
    """Of a convolution: outputs times the weights of one; of a linear layer: its weights at each position."""
    layers = nn.Conv2d(2, 6, 3, stride=2, padding=1, groups=2), nn.BatchNorm2d(6), nn.AdaptiveAvgPool2d(1)
    model = nn.Sequential(*layers, nn.Flatten(), nn.Linear(6, 5))
    assert multiplications(model, (2, 8, 8)) == [6 * 4 * 4 * (1 * 3 * 3), 6 * 5]
    attention = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    model = nn.Sequential(nn.Flatten(1, 2), nn.Linear(4, 8), attention, nn.Flatten(), nn.Linear(24, 2))
    assert multiplications(model, (1, 3, 4)) == [3 * 32, 3 * 3 * 64, 3 * 64, 3 * 128, 3 * 128, 48]


def test_the_compiler_is_not_loaded() -> None:
    """Anybody's process would pay a second and 75 MB for it."""
    code = (
        "import sys; from torch import nn; from feddecorr.training.batched.grouping import obstacle, mixes_rows\n"
        "model = nn.Sequential(nn.Conv2d(1, 8, 3), nn.GroupNorm(2, 8), nn.Flatten(), nn.Linear(32, 2))\n"
        "assert not obstacle(model, (1, 4, 4)) and not mixes_rows(model, (1, 4, 4))\n"
        "assert 'torch._dynamo' not in sys.modules and 'sympy' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
