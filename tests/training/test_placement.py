"""Precision and memory format."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from small import simulate, small
from torch import nn

from feddecorr.collapse.representation import capture_representations
from feddecorr.config.training import Training
from feddecorr.core.randomness import seeded
from feddecorr.models import ConvNet, MobileNetV2, Model, ResNet20
from feddecorr.runs.pipeline import run
from feddecorr.training.placement import prepare

IMAGES = torch.randn(4, 3, 16, 16, generator=torch.Generator().manual_seed(1))


def build(model: Model, **training: Any) -> nn.Module:
    with seeded(0, "test"):
        return prepare(model.build((3, 16, 16), 5), Training(**training), "cpu")


def fails(_module: nn.Module, _inputs: object) -> None:
    raise ZeroDivisionError


@pytest.mark.parametrize("model", [ConvNet(), ResNet20(norm="group"), MobileNetV2(projection=8)], ids=str)
def test_half_precision_is_inside_only(model: Model) -> None:
    """Under bf16, weights, logits, representations and gradients are float32, and near those of fp32."""
    full, half = build(model), build(model, precision="bf16")
    found = []
    for network in (full, half):
        with capture_representations(network) as seen:
            logits = network(IMAGES)
        gradients = torch.autograd.grad(logits.square().sum(), list(network.parameters()))
        found.append((logits.detach(), seen.z.detach()))
        kept = {value.dtype for value in network.state_dict().values() if value.is_floating_point()}
        assert {value.dtype for value in (logits, seen.z, *gradients)} | kept == {torch.float32}
    for exact, near in zip(*found, strict=True):
        assert not torch.equal(exact, near)
        assert float((exact - near).norm() / exact.norm()) < 0.2


def test_half_precision_ends_with_the_forward_pass() -> None:
    """After a pass, and after one that fails, PyTorch computes as before."""
    model = build(ConvNet(), precision="bf16")
    model(IMAGES)
    assert not torch.is_autocast_enabled("cpu")
    handle = model.get_submodule("classifier").register_forward_pre_hook(fails)
    with pytest.raises(ZeroDivisionError):
        model(IMAGES)
    assert not torch.is_autocast_enabled("cpu")
    handle.remove()
    assert model(IMAGES).dtype == torch.float32


def test_a_copy_computes_with_its_own_weights() -> None:
    """Methods copy the network for reference; whatever it runs in, the copy follows its own weights."""
    for training in ({"precision": "bf16"}, {"memory_format": "contiguous"}):
        model = build(ConvNet(), **training)
        other = copy.deepcopy(model)
        with torch.no_grad():
            for parameter in other.get_submodule("classifier").parameters():
                parameter.zero_()
        assert not other(IMAGES).any()
        assert model(IMAGES).all()


@pytest.mark.parametrize("memory_format", ["channels_last", "contiguous"])
def test_every_convolution_sees_the_chosen_memory_format(memory_format: str) -> None:
    """Images and weights lie in memory as the experiment says, all the way through the network."""
    model = build(ConvNet(), memory_format=memory_format)
    wanted = torch.channels_last if memory_format == "channels_last" else torch.contiguous_format
    seen: list[bool] = []
    for layer in model.modules():
        if isinstance(layer, nn.Conv2d):
            assert layer.weight.is_contiguous(memory_format=wanted)
            layer.register_forward_pre_hook(lambda _layer, x: seen.append(x[0].is_contiguous(memory_format=wanted)))
    model(IMAGES.permute(0, 2, 3, 1).contiguous().permute(0, 3, 1, 2))
    assert seen == [True] * 4


def test_the_memory_format_changes_rounding_only() -> None:
    """The same pass in both formats gives the same numbers, up to float32's precision."""
    last, first = build(ResNet20()), build(ResNet20(), memory_format="contiguous")
    torch.testing.assert_close(last(IMAGES), first(IMAGES), rtol=1e-4, atol=1e-4)


def test_precision_is_part_of_the_experiment() -> None:
    """Every model that a simulation builds runs as its experiment says, and a run with bf16 has a result of its own."""
    simulation = simulate("training.precision=bf16")
    assert {value.dtype for value in simulation.federation.start().weights.values()} == {torch.float32}
    losses = [[record.loss for record in run(*small(f"training.precision={name}"))] for name in ("fp32", "bf16")]
    assert losses[0] != losses[1]
    assert losses[0] == pytest.approx(losses[1], rel=0.1)
