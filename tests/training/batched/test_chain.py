from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from feddecorr.training.batched.chain import multiplications, obstacle


class Doubled(nn.Linear):
    """Not the linear layer that it looks like."""

    def forward(self, x: Tensor) -> Tensor:
        """Return twice as much."""
        return 2 * super().forward(x)


def chain(*layers: nn.Module, flatten: nn.Module | None = None) -> nn.Sequential:
    return nn.Sequential(flatten or nn.Flatten(), *layers)


def images(layer: nn.Module) -> nn.Sequential:
    return nn.Sequential(layer, nn.Flatten(), nn.Linear(8, 2))


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
        (lambda: images(nn.Conv1d(1, 2, 1)), "'0' is of the kind Conv1d"),
        (lambda: images(nn.Dropout2d()), "'0' is of the kind Dropout2d"),
        (lambda: images(nn.Conv2d(1, 2, 3, padding=1, padding_mode="reflect")), r"'0' has a margin that is not zero"),
        (lambda: images(nn.BatchNorm2d(1, track_running_stats=False)), "'0' keeps no running statistics"),
        (lambda: images(nn.BatchNorm2d(1, momentum=None)), "'0' keeps no running statistics with momentum"),
        (lambda: chain(nn.GroupNorm(1, 4), nn.Linear(4, 2)), "layers for maps after those were flattened"),
        (lambda: chain(nn.Linear(4, 3), nn.BatchNorm1d(3), nn.Linear(3, 2)), "'2' is of the kind BatchNorm1d"),
        (lambda: chain(nn.Sequential(nn.Dropout(), nn.Linear(4, 2))), "'1.0' is of the kind Dropout"),
        (lambda: chain(Doubled(4, 2)), "'1' is of the kind Doubled"),
        (lambda: nn.Linear(4, 2), "linear layer for images or maps that are not flattened"),
        (
            lambda: nn.Sequential(nn.Linear(2, 2), nn.Flatten(), nn.Linear(4, 2)),
            "linear layer for images or maps that are not flattened",
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


def test_multiplications_are_counted_by_hand() -> None:
    """Of a convolution: outputs times the weights of one; of a linear layer: its weights."""
    layers = nn.Conv2d(2, 6, 3, stride=2, padding=1, groups=2), nn.BatchNorm2d(6), nn.AdaptiveAvgPool2d(1)
    model = nn.Sequential(*layers, nn.Flatten(), nn.Linear(6, 5))
    assert multiplications(model, (2, 8, 8)) == 6 * 4 * 4 * (1 * 3 * 3) + 6 * 5
