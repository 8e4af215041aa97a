"""The networks of the table: sizes as published, shapes, and the representation."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from feddecorr.collapse.representation import capture_representations, find_classifier
from feddecorr.core.randomness import seeded
from feddecorr.errors import UserError
from feddecorr.models import MODELS, LeNet, MobileNetV2, Model, ResNet18, ResNet20, ResNet32, Transformer
from feddecorr.models.model import ConvolutionalModel, StandardizedConv2d
from feddecorr.models.networks import PaddedShortcut, Patches

CIFAR = (3, 32, 32)
SMALL = (3, 8, 8)
WIDTHS = {
    "convnet": 512,
    "mlp": 256,
    "lenet": 84,
    "mobilenetv2": 1280,
    "resnet18": 512,
    "resnet20": 64,
    "resnet32": 64,
    "transformer": 64,
}
NORMALIZED = [name for name in WIDTHS if issubclass(MODELS.find(name), ConvolutionalModel)]


def make(name: str, **options: Any) -> Model:
    return MODELS.parse({"name": name, **options})


def build(model: Model, shape: tuple[int, int, int] = CIFAR, classes: int = 10) -> nn.Module:
    with seeded(0, "test"):
        return model.build(shape, classes)


def images(count: int, shape: tuple[int, int, int] = CIFAR) -> Tensor:
    return torch.randn(count, *shape, generator=torch.Generator().manual_seed(1))


def parameters(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


def conv(before: int, after: int, size: int = 3) -> int:
    """Weights of a convolution without bias, and scale and shift of the normalization after it."""
    return before * after * size**2 + 2 * after


def narrow(depth: int) -> int:
    """Count what He et al. (2016, section 4.2) describe: 6n + 2 layers, n blocks in each of three stages."""
    blocks = (depth - 2) // 6
    same = [(2 * blocks - (width > 16)) * conv(width, width) for width in (16, 32, 64)]
    return conv(3, 16) + sum(same) + conv(16, 32) + conv(32, 64) + 64 * 10 + 10


def last_map(model: nn.Module, x: Tensor) -> tuple[int, ...]:
    """Return height and width of the map that is averaged out."""
    pooling = next(layer for layer in model.modules() if isinstance(layer, nn.AdaptiveAvgPool2d))
    maps: list[tuple[int, ...]] = []
    pooling.register_forward_pre_hook(lambda _layer, inputs: maps.append(tuple(inputs[0].shape[2:])))
    model(x)
    return maps[0]


def test_every_network_of_the_table_is_tested_here() -> None:
    """A new network joins these laws."""
    published = {name for name, kind in MODELS.table.items() if kind.argument}  # tests/models/test_pretrained.py
    assert {*WIDTHS, "custom", *published} == set(MODELS.table)


@pytest.mark.parametrize(("model", "depth", "millions"), [(ResNet20(), 20, 0.27), (ResNet32(), 32, 0.46)])
def test_narrow_residual_networks_have_the_published_size(model: Model, depth: int, millions: float) -> None:
    """ResNet20 and ResNet32 have the 0.27 and 0.46 million parameters of He et al. (2016, table 6), exactly counted."""
    count = parameters(build(model))
    assert count == narrow(depth)
    assert round(count / 1e6, 2) == millions


def test_resnet18_has_the_published_size() -> None:
    """But for the 3×3 stem in place of 7×7, ResNet18 has the 11,689,512 parameters known for 1000 classes."""
    assert parameters(build(ResNet18(), classes=1000)) == 11_689_512 - 3 * 64 * (7**2 - 3**2)


def test_mobilenet_has_the_published_size() -> None:
    """As published, MobileNetV2 has the 3,504,872 parameters known for 1000 classes; the stem changes strides only."""
    assert parameters(build(MobileNetV2(variant="original"), classes=1000)) == 3_504_872


def test_released_mobilenet_adds_what_its_authors_added() -> None:
    """The released form has four 1×1 shortcuts and one expanding layer more, and so 2,296,922 for ten classes."""
    shortcuts = conv(32, 16, 1) + conv(16, 24, 1) + conv(64, 96, 1) + conv(160, 320, 1)
    original = 3_504_872 - 990 * (1280 + 1)
    count = parameters(build(MobileNetV2()))
    assert count == original + shortcuts + conv(32, 32, 1) == 2_296_922


@pytest.mark.parametrize(("width", "published"), [(0.5, 1_968_680), (1.0, 3_504_872)])
def test_thin_mobilenets_have_the_published_sizes(width: float, published: int) -> None:
    """MobileNetV2 at half width, too, has the parameters known for 1000 classes, and d = 1280."""
    model = build(MobileNetV2(variant="original", width=width), classes=1000)
    assert parameters(model) == published
    assert find_classifier(model).weight.shape == (1000, 1280)


def test_a_network_of_half_the_width_has_half_the_channels() -> None:
    """ResNet18 at half width is the network counted by hand with 32, 64, 128 and 256 channels, and d = 256."""
    widths = (32, 64, 128, 256)
    same = sum((4 - (width > 32)) * conv(width, width) for width in widths)
    steps = sum(conv(width, 2 * width) + conv(width, 2 * width, 1) for width in widths[:-1])
    model = build(ResNet18(width=0.5))
    assert parameters(model) == conv(3, 32) + same + steps + 256 * 10 + 10


def test_channels_are_multiples_of_eight_and_lose_a_tenth_at_most() -> None:
    """Sandler et al. (2018): no layer is thinner than eight channels, nor than nine tenths of what was asked for."""
    for width in (0.1, 0.25, 0.35, 0.5, 0.75, 1.0, 1.4):
        for published in (16, 24, 32, 64, 96, 160, 320):
            found = MobileNetV2(width=width).channels(published)
            assert found % 8 == 0
            assert found >= max(8, 0.9 * width * published)
            assert found <= max(8, width * published + 8)


def test_fewer_blocks_leave_the_first_of_each_stage() -> None:
    """With one block a stage MobileNetV2 has seven, and its map is as small as before."""
    whole, short = build(MobileNetV2()), build(MobileNetV2(blocks=1))
    depthwise = [
        sum(isinstance(layer, nn.Conv2d) and layer.groups > 1 for layer in each.modules()) for each in (whole, short)
    ]
    assert depthwise == [17, 7]
    assert last_map(short, images(2)) == last_map(whole, images(2))


@pytest.mark.parametrize("name", ["mobilenetv2", "resnet18", "resnet20", "resnet32"])
def test_a_stem_of_stride_two_halves_every_map(name: str) -> None:
    """It changes no parameter: an image of twice the size ends on the same map."""
    fine, coarse = build(make(name), SMALL), build(make(name, stem=2), SMALL)
    assert [each.shape for each in fine.parameters()] == [each.shape for each in coarse.parameters()]
    assert last_map(coarse, images(2, (3, 64, 64))) == last_map(fine, images(2, (3, 32, 32)))


def test_lenet_has_the_size_of_lenet_5() -> None:
    """Two convolutions and three linear layers, counted by hand for handwritten digits: 61,706."""
    count = (25 + 1) * 6 + (6 * 25 + 1) * 16 + (400 + 1) * 120 + (120 + 1) * 84 + (84 + 1) * 10
    assert parameters(build(LeNet(), (1, 28, 28))) == count == 61_706


def test_a_perceptron_without_hidden_layers_is_logistic_regression() -> None:
    """The classifier takes the pixels: 7850 parameters for handwritten digits, and logits linear in the image."""
    model = build(make("mlp", widths=[]), (1, 28, 28))
    x = images(2, (1, 28, 28))
    with capture_representations(model) as seen:
        logits = model(x)
    assert parameters(model) == 7850
    assert torch.equal(seen.z, x.flatten(1))
    zero = model(torch.zeros_like(x))
    torch.testing.assert_close(model(3 * x) - zero, 3 * (logits - zero), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("norm", "more"), [("none", 0), ("layer", 2 * 40), ("batch", 2 * 40)])
def test_a_perceptron_may_normalize_before_each_relu(norm: str, more: int) -> None:
    """A scale and a shift for each hidden feature; the representation is not negative unless it is left linear."""
    bent, straight = (build(make("mlp", widths=[24, 16], norm=norm, final_relu=relu), SMALL) for relu in (True, False))
    assert parameters(bent) == parameters(straight) == (192 + 1) * 24 + (24 + 1) * 16 + (16 + 1) * 10 + more
    for model, least in ((bent, 0.0), (straight, -torch.inf)):
        with capture_representations(model) as seen:
            model(images(8, SMALL))
        assert (seen.z.min() >= 0) == (least == 0)


def test_a_transformer_knows_where_a_patch_is_and_refuses_heads_that_do_not_fit() -> None:
    """Patches in another order are another image; without positions they would be the same."""
    model = build(make("transformer", patch=4), SMALL).eval()
    x = images(2, SMALL)
    turned = torch.cat([x[..., 4:], x[..., :4]], dim=-1)
    assert not torch.allclose(model(x), model(turned))
    next(each for each in model.modules() if isinstance(each, Patches)).positions.data.zero_()
    torch.testing.assert_close(model(x), model(turned))
    with pytest.raises(UserError, match="3 heads do not divide a width of 64"):
        Transformer.parse({"heads": 3})


@pytest.mark.parametrize(
    ("name", "size"), [("mobilenetv2", 4), ("resnet18", 4), ("resnet20", 8), ("resnet32", 8), ("convnet", 2)]
)
def test_strides_are_those_for_small_images(name: str, size: int) -> None:
    """A 32×32 image is averaged over a map of the published size."""
    assert last_map(build(make(name)), images(2)) == (size, size)


@pytest.mark.parametrize("shape", [(1, 8, 8), (1, 28, 28), (3, 32, 32), (3, 64, 64)])
@pytest.mark.parametrize("name", WIDTHS)
def test_every_network_takes_every_image(name: str, shape: tuple[int, int, int]) -> None:
    """For each size of image, the logits are the classifier's output of the one representation that was caught."""
    model = build(make(name), shape, classes=7)
    with capture_representations(model) as seen:
        logits = model(images(2, shape))
    classifier = find_classifier(model)
    assert seen.z.shape == (2, WIDTHS[name])
    assert logits.shape == (2, 7)
    assert torch.equal(classifier(seen.z), logits)


@pytest.mark.parametrize("options", [{}, {"projection": 16}], ids=str)
@pytest.mark.parametrize("name", WIDTHS)
def test_every_parameter_is_trained(name: str, options: dict[str, Any]) -> None:
    """The loss has a gradient that is not zero for each parameter tensor."""
    model = build(make(name, **options), SMALL)
    loss = nn.functional.cross_entropy(model(images(4, SMALL)), torch.tensor([0, 1, 2, 3]))
    gradients = torch.autograd.grad(loss, list(model.parameters()))
    for (key, _), gradient in zip(model.named_parameters(), gradients, strict=True):
        assert torch.isfinite(gradient).all(), key
        assert gradient.any(), key


@pytest.mark.parametrize("name", WIDTHS)
def test_a_projection_head_stands_before_the_classifier(name: str) -> None:
    """With a head of width w, the representation has w dimensions; the features before it are those without a head."""
    plain, headed = build(make(name), SMALL), build(make(name, projection=24), SMALL)
    with capture_representations(headed) as seen:
        headed(images(2, SMALL))
    width = WIDTHS[name]
    assert seen.z.shape == (2, 24)
    assert parameters(headed) - parameters(plain) == width**2 + width + (width + 1) * 24 + (24 - width) * 10
    features = dict(plain.get_submodule("features").named_parameters())
    for key, value in headed.get_submodule("features").named_parameters():
        assert torch.equal(value, features[key]), key


@pytest.mark.parametrize("name", NORMALIZED)
def test_group_norm_knows_no_batch(name: str) -> None:
    """With GroupNorm there are no statistics, and an example's logits do not depend on its batch."""
    model = build(make(name, norm="group"), SMALL)
    batch = images(3, SMALL)
    assert not list(model.buffers())
    torch.testing.assert_close(model(batch)[:1], model(batch[:1]), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", NORMALIZED)
def test_batch_norm_and_group_norm_have_the_same_parameters(name: str) -> None:
    """GroupNorm takes BatchNorm's place, with a scale and a shift for each channel."""
    shapes = [
        {key: value.shape for key, value in build(make(name, norm=norm)).named_parameters()}
        for norm in ("batch", "group")
    ]
    assert shapes[0] == shapes[1]


@pytest.mark.parametrize("name", NORMALIZED)
def test_standardized_filters_have_mean_0_and_length_1(name: str) -> None:
    """Against a network of plain convolutions that holds such filters; shifting or scaling its own changes nothing."""
    options = {"norm": "group", "weight_standardization": True}
    network, plain = build(make(name, **options), SMALL), build(make(name, norm="group"), SMALL)
    state = {key: value.clone() for key, value in network.state_dict().items()}
    for key, weight in state.items():
        if weight.ndim == 4:
            filters = weight.flatten(1).double()
            spread = (filters - filters.mean(1, keepdim=True)) / filters.std(1, correction=0, keepdim=True)
            state[key] = (spread / filters.shape[1] ** 0.5).view_as(weight).float()
    plain.load_state_dict(state)
    x = images(3, SMALL)
    torch.testing.assert_close(network(x), plain(x), rtol=1e-2, atol=1e-2)
    with torch.no_grad():
        before = network(x)
        for layer in network.modules():
            if isinstance(layer, StandardizedConv2d):
                layer.weight.mul_(3).add_(0.5)
        torch.testing.assert_close(network(x), before, rtol=1e-2, atol=1e-2)


def test_the_gradient_of_a_standardized_filter_is_orthogonal_to_its_shift_and_its_scale() -> None:
    """Up to ε, which is small before a deviation of 1."""
    layer = StandardizedConv2d(3, 4, 3, bias=False).double()
    with torch.no_grad():
        layer.weight.normal_(generator=torch.Generator().manual_seed(0))
    layer(images(2, SMALL).double()).square().sum().backward()
    assert layer.weight.grad is not None
    slope, weight = layer.weight.grad.flatten(1), layer.weight.detach().flatten(1)
    assert float(slope.norm()) > 0.1
    assert float(slope.sum(1).abs().max()) < 1e-9 * float(slope.norm())
    assert float((slope * weight).sum(1).abs().max()) < 1e-4 * float(slope.norm())


@pytest.mark.parametrize("name", WIDTHS)
def test_the_same_seed_gives_the_same_first_weights(name: str) -> None:
    """First weights are drawn from the seed and from nothing else."""
    torch.manual_seed(5)
    first = build(make(name)).state_dict()
    torch.manual_seed(6)
    second = build(make(name)).state_dict()
    assert all(torch.equal(first[key], second[key]) for key in first)


@pytest.mark.parametrize("model", [ResNet20(), ResNet32()])
def test_first_weights_follow_he(model: Model) -> None:
    """The first weights of each convolution have mean 0 and variance 2 / fan-in (He et al., 2015)."""
    for layer in build(model).modules():
        if isinstance(layer, nn.Conv2d):
            fan = layer.in_channels * 9
            scores = layer.weight.detach() / (2 / fan) ** 0.5
            count = scores.numel()
            assert abs(float(scores.mean())) < 5 / count**0.5
            assert abs(float(scores.var()) - 1) < 5 * (2 / count) ** 0.5


def test_a_shortcut_without_parameters_takes_every_second_pixel() -> None:
    """Option A halves the image and adds channels of zeros, half of them before and half after."""
    x = images(2, (4, 5, 5))
    y = PaddedShortcut(4)(x)
    assert torch.equal(y[:, 2:6], x[:, :, ::2, ::2])
    assert not y[:, :2].any()
    assert not y[:, 6:].any()


def test_small_images_get_a_margin_in_lenet() -> None:
    """A digit of 28×28 gives the same as the digit in the middle of a blank 32×32 image."""
    x = images(2, (1, 28, 28))
    small, large = build(LeNet(), (1, 28, 28)), build(LeNet(), (1, 32, 32))
    assert torch.equal(small(x), large(nn.functional.pad(x, (2, 2, 2, 2))))
