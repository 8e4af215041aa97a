import pytest
import torch
from torch import Tensor, nn

from feddecorr.collapse.representation import capture_feature_maps, capture_representations
from feddecorr.core.randomness import seeded
from feddecorr.models import MODELS

CHANNELS = {
    "convnet": [32, 64, 128],
    "mlp": [],
    "lenet": [6, 16],
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


def levels_of(model: nn.Module, size: int = 32) -> list[Tensor]:
    with capture_representations(model) as seen, capture_feature_maps(model) as maps:
        model(images(size))
    return maps.levels(seen.z)


@pytest.mark.parametrize("name", CHANNELS)
def test_levels_are_the_ends_of_the_stages(name: str) -> None:
    """One for each resolution, but for a last one that is pooled to the representation; without maps there are none."""
    assert [level.shape for level in levels_of(build(name))] == [(2, channels) for channels in CHANNELS[name]]


@pytest.mark.parametrize(("name", "size"), [("convnet", 16), ("convnet", 8), ("resnet18", 8), ("mobilenetv2", 8)])
def test_no_level_is_lost_where_the_last_maps_are_single_pixels(name: str, size: int) -> None:
    """The last map is the representation whatever its size: there is one level less than there are resolutions."""
    found = levels_of(build(name), size)
    resolutions = {"convnet": {16: 4, 8: 3}, "resnet18": {8: 4}, "mobilenetv2": {8: 4}}[name][size]
    assert [level.shape[1] for level in found] == CHANNELS[name][: resolutions - 1]


def test_maps_that_are_flattened_are_levels_too() -> None:
    """Their average is not the representation."""
    model = nn.Sequential(nn.Conv2d(3, 4, 3, stride=2), nn.Flatten(), nn.Linear(900, 2))
    assert [level.shape for level in levels_of(model)] == [(2, 4)]


def test_every_network_of_the_table_is_tested_here() -> None:
    published = {name for name, kind in MODELS.table.items() if kind.argument}
    assert {*CHANNELS, "custom", *published} == set(MODELS.table)


def test_a_level_is_the_mean_of_the_last_map_of_its_resolution() -> None:
    """After the activation, in the convnet."""
    model = build("convnet")
    first = nn.Sequential(*list(model.get_submodule("features").children())[:3])(images())
    torch.testing.assert_close(levels_of(model)[0], first.mean((2, 3)))


def test_levels_are_of_the_latest_pass_and_the_model_stays_as_it_was() -> None:
    """No hook is left after the block, and what was seen last stays readable."""
    model = build("convnet")
    with capture_representations(model) as seen, capture_feature_maps(model) as maps:
        model(images())
        model(images()[:1])
    assert [len(level) for level in maps.levels(seen.z)] == [1, 1, 1]
    model(images())
    assert [len(level) for level in maps.levels(seen.z)] == [1, 1, 1]
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())
