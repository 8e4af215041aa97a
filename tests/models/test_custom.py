"""Networks of the user's own."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
import torch
from small import digest, result, small
from torch import nn

from feddecorr.collapse.representation import capture_representations, find_classifier
from feddecorr.config.experiment import Experiment
from feddecorr.errors import UserError
from feddecorr.models import MODELS, Custom
from feddecorr.runs.pipeline import run

SOURCE = """
import torch
from torch import nn

def build(classes, channels, width=12):
    return nn.Sequential(nn.Flatten(), nn.LazyLinear(width), nn.ReLU(), nn.Linear(width, classes))

def torch_style(num_classes, in_channels):
    return nn.Sequential(nn.Conv2d(in_channels, 5, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(5, num_classes))

class TwoHeads(nn.Module):
    def __init__(self, shape, classes):
        super().__init__()
        self.body = nn.Linear(shape[0] * shape[1] * shape[2], 6)
        self.head = nn.Linear(6, classes)
        self.auxiliary = nn.Linear(6, classes)

    def forward(self, x):
        return self.head(self.body(x.flatten(1)))

def convolutional(classes, channels):
    return nn.Sequential(nn.Conv2d(channels, 7, 8), nn.ReLU(), nn.Conv2d(7, classes, 1), nn.Flatten())

built = nn.Linear(3, 2)
number = 5

def nothing(classes):
    return None

def wrong(channels):
    return nn.Sequential(nn.Flatten(), nn.LazyLinear(3))

def broken(classes):
    return nn.Sequential(nn.Linear(1000, classes))
"""


@pytest.fixture(autouse=True)
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Write a user's module into the working directory, under a name of its own for each test."""
    name = f"own_{abs(hash(tmp_path))}"
    (tmp_path / f"{name}.py").write_text(SOURCE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", sys.path.copy())
    return name


def build(source: str, **options: object) -> nn.Module:
    return MODELS.parse({"name": source, **options}).build((1, 8, 8), 4)


def test_a_function_of_the_working_directory_is_found(module: str) -> None:
    """`model=module:function` builds the network by the arguments that the function has."""
    model = build(f"{module}:build")
    with capture_representations(model) as seen:
        logits = model(torch.zeros(3, 1, 8, 8))
    assert logits.shape == (3, 4)
    assert seen.z.shape == (3, 12)


def test_options_reach_the_function(module: str) -> None:
    """`model.options.NAME` is passed on."""
    assert find_classifier(build(f"{module}:build", options={"width": 5})).in_features == 5


def test_other_common_names_of_arguments_are_known(module: str) -> None:
    """`num_classes` and `in_channels` do as well as `classes` and `channels`."""
    assert build(f"{module}:torch_style")(torch.zeros(2, 1, 8, 8)).shape == (2, 4)


def test_a_named_layer_is_the_classifier(module: str) -> None:
    """Where several layers could be the classifier, `model.layer` says which, wherever representations are caught."""
    model = build(f"{module}:TwoHeads", layer="head")
    assert find_classifier(model) is model.get_submodule("head")
    with pytest.raises(UserError, match="several layers could be the classifier"):
        build(f"{module}:TwoHeads")
    with pytest.raises(UserError, match=r"does not use its classifier: name another by model\.layer"):
        build(f"{module}:TwoHeads", layer="auxiliary")
    with pytest.raises(UserError, match="no layer 'haed': did you mean 'head'"):
        build(f"{module}:TwoHeads", layer="haed")


def test_a_convolution_can_be_the_classifier(module: str) -> None:
    """Its input is flattened into the representation."""
    model = build(f"{module}:convolutional")
    with capture_representations(model) as seen:
        model(torch.zeros(2, 1, 8, 8))
    assert seen.z.shape == (2, 7)


def test_a_projection_head_takes_the_classifier_s_place(module: str) -> None:
    """The representation is then the projected one, and what comes before the head stays."""
    model = build(f"{module}:TwoHeads", layer="head", projection=9)
    with capture_representations(model) as seen:
        logits = model(torch.zeros(2, 1, 8, 8))
    assert seen.z.shape == (2, 9)
    assert torch.equal(find_classifier(model)(seen.z), logits)
    assert [*dict(model.named_children())] == ["body", "head", "auxiliary"]


@pytest.mark.parametrize("head", ["normalized", "layer_norm", "etf"])
def test_any_head_takes_the_classifier_s_place(module: str, head: str) -> None:
    """With and without a projection head; the network itself stays as it was."""
    for options, width in (({}, 6), ({"projection": 9}, 9)):
        model = build(f"{module}:TwoHeads", layer="head", head=head, **options)
        with capture_representations(model) as seen:
            logits = model(torch.ones(2, 1, 8, 8))
        assert seen.z.shape == (2, width)
        assert torch.equal(find_classifier(model)(seen.z), logits)
        assert [*dict(model.named_children())] == ["body", "head", "auxiliary"]


def test_only_a_linear_layer_gives_way_to_another_head(module: str) -> None:
    """Of another classifier, the head would not know the width."""
    with pytest.raises(UserError, match="replaces a linear layer"):
        build(f"{module}:convolutional", projection=9)
    with pytest.raises(UserError, match="replaces a linear layer"):
        build(f"{module}:convolutional", head="etf")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("built", "is Linear, not a function or class that builds a network"),
        ("number", "is int, not a function or class"),
        ("nothing", "returned NoneType, not an nn.Module"),
        ("wrong", r"gives shape \(2, 3\) for 2 images, not logits of shape \(2, 4\)"),
        ("broken", r"fails on images of shape \(1, 8, 8\)"),
    ],
)
def test_what_is_no_network_for_the_data_is_refused(module: str, name: str, message: str) -> None:
    """The message says what came instead of logits for each class."""
    with pytest.raises(UserError, match=message):
        build(f"{module}:{name}")


def test_unknown_arguments_are_refused(module: str) -> None:
    """The message names the argument and how arguments are given."""
    with pytest.raises(UserError, match=r"depth.*model\.options\.NAME=VALUE"):
        build(f"{module}:build", options={"depth": 3})


@pytest.mark.parametrize("source", ["no_such_module:build", "os:no_such_name"])
def test_what_cannot_be_imported_is_refused_at_the_door(source: str) -> None:
    """An experiment with such a model is not even made; named by its option, it is refused when it is built."""
    with pytest.raises(UserError, match=f"model: model '{source}' cannot be imported"):
        Experiment.parse({"model": source})
    with pytest.raises(UserError, match=f"'{source}' cannot be imported"):
        Custom(source=source).build((1, 8, 8), 4)


def test_an_experiment_with_such_a_model_survives_json(module: str) -> None:
    """The source, the layer and the options are part of the resolved experiment."""
    experiment = small(f"model={module}:build", "model.options.width=6", "model.layer=3").experiment
    text = json.dumps(experiment.to_dict())
    assert Experiment.parse(json.loads(text)) == experiment
    assert experiment.to_dict()["model"]["source"] == f"{module}:build"


def test_every_engine_trains_such_a_model(module: str) -> None:
    """Worker processes find the module, too, and give the same bits."""
    words = [f"model={module}:build", "regularizers=feddecorr", "rounds=2"]
    alone, pooled = (result(run(*small(*words, engine))) for engine in ("engine=serial", "engine=pool"))
    assert alone == pooled


def test_lazy_layers_are_drawn_from_the_seed(module: str) -> None:
    """The first weights of a layer that learns its shape from the data are those of the experiment's seed."""
    words = [f"model={module}:build", "rounds=1", "training.lr=1e-30"]

    states = [next(run(*small(*words, f"seed={seed}"))).state for seed in (0, 0, 1)]
    assert digest(states[0]) == digest(states[1]) != digest(states[2])
