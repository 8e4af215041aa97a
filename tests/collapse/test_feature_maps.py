import pytest
import torch
from torch import Tensor, nn

from feddecorr.collapse.representation import capture_feature_maps
from feddecorr.core.randomness import seeded
from feddecorr.models import MODELS

CHANNELS = {
    "convnet": [32, 64, 128],
    "mlp": [],
    "lenet": [6, 6, 16],
    "mobilenetv2": [24, 32, 96],
    "resnet18": [64, 128, 256],
    "resnet20": [16, 32],
    "resnet32": [16, 32],
    "transformer": [],
}


def images(size: int = 32) -> Tensor:
    return torch.randn(2, 3, size, size, generator=torch.Generator().manual_seed(0))


def build(name: str) -> nn.Module:
    with seeded(0, "test"):
        return MODELS.parse(name).build((3, 32, 32), 10)


@pytest.mark.parametrize("name", CHANNELS)
def test_levels_are_the_ends_of_the_stages(name: str) -> None:
    """One for each resolution but the last, whose end is the representation; a network without maps has none."""
    model = build(name)
    with capture_feature_maps(model) as levels:
        model(images())
    assert [level.shape for level in levels.pooled] == [(2, channels) for channels in CHANNELS[name]]


def test_every_network_of_the_table_is_tested_here() -> None:
    assert {*CHANNELS, "custom"} == set(MODELS.table)


def test_a_level_is_the_mean_of_the_last_map_of_its_resolution() -> None:
    """After the activation, in the convnet."""
    model = build("convnet")
    with capture_feature_maps(model) as levels:
        model(images())
    first = nn.Sequential(*list(model.get_submodule("features").children())[:3])(images())
    torch.testing.assert_close(levels.pooled[0], first.mean((2, 3)))


def test_levels_are_of_the_latest_pass_and_the_model_stays_as_it_was() -> None:
    """No hook is left after the block, and what was seen last stays readable."""
    model = build("convnet")
    with capture_feature_maps(model) as levels:
        model(images())
        model(images()[:1])
    assert [len(level) for level in levels.pooled] == [1, 1, 1]
    model(images())
    assert [len(level) for level in levels.pooled] == [1, 1, 1]
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())
