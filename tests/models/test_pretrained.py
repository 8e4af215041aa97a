"""Published networks: their weights without their last layer, and what their configuration says of images."""

from __future__ import annotations

import json
import subprocess
import sys
from operator import attrgetter
from pathlib import Path

import pytest
import torch
from each import each
from pages import ROOT
from small import digest, simulate, small
from torch.nn.functional import interpolate
from transformers import AutoModelForImageClassification, ViTConfig, ViTForImageClassification

from feddecorr.collapse.representation import capture_representations
from feddecorr.core.states import load_into
from feddecorr.errors import UserError
from feddecorr.runs.pipeline import resume, run
from feddecorr.training.task import Task

MEAN, STD = (0.5, 0.4, 0.3), (0.25, 0.2, 0.3)
TINY = ViTConfig(
    num_hidden_layers=1, hidden_size=8, num_attention_heads=2, intermediate_size=8, image_size=16, patch_size=8
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder as `save_pretrained` and an image processor write it, of a network for nine classes."""
    torch.manual_seed(0)
    TINY.num_labels = 9
    ViTForImageClassification(TINY).save_pretrained(tmp_path / "vit")
    processor = {"image_mean": MEAN, "image_std": STD, "size": {"height": 16, "width": 16}}
    (tmp_path / "vit" / "preprocessor_config.json").write_text(json.dumps(processor))
    return tmp_path / "vit"


def test_a_run_begins_with_the_published_weights_and_a_new_head(folder: Path) -> None:
    """In four classes, and with every name as it was."""
    published = dict(AutoModelForImageClassification.from_pretrained(folder).named_parameters())
    simulation = simulate(f"model=hf:{folder}")
    weights = simulation.federation.start().weights
    assert weights["network.classifier.weight"].shape == (4, 8)
    same = {name for name, each in published.items() if torch.equal(weights[f"network.{name}"], each.detach())}
    assert same == published.keys() - {"classifier.weight", "classifier.bias"}


def test_images_come_as_the_processor_makes_them(folder: Path) -> None:
    """Grey pixels of 8×8 are repeated, resized to 16×16, and standardized by its constants, not the data's."""
    simulation = simulate(f"model=hf:{folder}")
    task, server = simulation.task, simulation.federation.start()
    model = task.build_model().eval()
    load_into(model, {**server.weights, **server.buffers})
    pixels = simulation.dataset.test.pixels[:3]
    with torch.no_grad(), capture_representations(model) as seen:
        model(task.normalize(pixels))
    x = interpolate(pixels.permute(0, 3, 1, 2).float() / 255, (16, 16), mode="bilinear", antialias=True)
    x = (x.expand(-1, 3, -1, -1) - torch.tensor(MEAN).view(3, 1, 1)) / torch.tensor(STD).view(3, 1, 1)
    published = AutoModelForImageClassification.from_pretrained(folder).eval()
    with torch.no_grad():
        expected = published.vit(x).last_hidden_state[:, 0]
    torch.testing.assert_close(seen.z, expected, rtol=1e-4, atol=1e-5)


@each("way", ["training.trainable=network.classifier.*", "training.adapter=lora"])
def test_what_is_frozen_is_the_published_network_wherever_it_is_built(folder: Path, way: str) -> None:
    """Whoever receives the task reads the same file, and knows it by its digest."""
    task = simulate(f"model=hf:{folder}", way).task
    assert len(task.experiment.model.sha256) == 64
    again = Task.from_dict(json.loads(json.dumps(task.to_dict()))).build_model()
    published = AutoModelForImageClassification.from_pretrained(folder)
    query = published.vit.layers[0].mlp.fc1
    assert torch.equal(attrgetter("network.vit.layers.0.mlp.fc1.weight")(again), query.weight)  # B begins at zero
    assert not [name for name, _ in again.named_parameters() if "fc1.weight" in name]


def test_weights_that_changed_are_refused(folder: Path, tmp_path: Path) -> None:
    """A run is known by the weights that it began with."""
    words = (f"model=hf:{folder}", "training.trainable=network.classifier.*")
    list(run(*small(*words, "rounds=1"), tmp_path / "run"))
    torch.manual_seed(1)
    ViTForImageClassification(TINY).save_pretrained(folder)
    with pytest.raises(UserError, match="has changed"):
        list(resume(tmp_path / "run", options=small("rounds=2").options))


def test_a_file_gives_the_weights_of_a_network_of_any_number_of_classes(folder: Path, tmp_path: Path) -> None:
    """And one that lacks some is refused by their names."""
    state = AutoModelForImageClassification.from_pretrained(folder).state_dict()
    for lost in ((), ("classifier.weight", "classifier.bias")):
        torch.save({name: each for name, each in state.items() if name not in lost}, tmp_path / "file.pt")
        weights = simulate(f"model=hf:{folder}", f"model.weights={tmp_path}/file.pt").federation.start().weights
        assert torch.equal(weights["network.vit.layernorm.weight"], state["vit.layernorm.weight"])
    state.pop("vit.layernorm.weight")
    torch.save(state, tmp_path / "file.pt")
    with pytest.raises(UserError, match=r"lacks vit\.layernorm\.weight"):
        simulate(f"model=hf:{folder}", f"model.weights={tmp_path}/file.pt").federation.start()


def test_any_head_and_method_go_with_it(folder: Path) -> None:
    """Also a convolutional network of random weights, by the name of its type."""
    (record,) = run(*small(f"model=hf:{folder}", "model.head=normalized", "method=moon", "rounds=1"))
    assert record.state["network.classifier.classifier.weight"].shape == (4, 8)
    tiny = ("model.options.embedding_size=8", "model.options.hidden_sizes=[8,16]", "model.options.depths=[1,1]")
    words = (
        "model=hf:resnet",
        "model.pretrained=false",
        *tiny,
        "method=scaffold",
        "regularizers=feddecorr",
        "rounds=1",
    )
    first, again = (list(run(*small(*words)))[-1] for _ in range(2))
    assert digest(first.state) == digest(again.state)


@each(
    "words, message",
    [
        (["model=hf:google/vit-base-patch16-224"], "hf download google/vit-base-patch16-224"),
        (["model=hf:vit"], "model.pretrained=false"),
        (["model=hf:gpt2", "model.pretrained=false"], "is no image classifier"),
        (["model=hf:vit", "model.pretrained=false", "data.channels=2"], "takes images of 3 channels, not of 2"),
        (["model=hf:vit", "model.pretrained=false", "model.options.patch_size=x"], "model=hf:vit"),
    ],
)
def test_what_cannot_be_is_refused_with_what_helps(words: list[str], message: str) -> None:
    with pytest.raises(UserError, match=message):
        simulate(*words).federation.start()


TIMM = ROOT / ".venv" / "timm"
"""Where `make install` puts timm: its torchvision may be of another build than PyTorch."""

IN_TIMM = """
import importlib.util, json, sys, torch
if torch.version.cuda is None and sys.platform == "linux":  # torchvision's kernels cannot be loaded: it needs two names
    library = torch.library.Library("torchvision", "DEF")
    for name in ("nms", "qnms"):
        library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
import timm
from small import simulate
from feddecorr.errors import UserError

def refused(*words):
    try:
        simulate(*words).federation.start()
    except UserError as error:
        return str(error)

torch.manual_seed(0)
published = timm.create_model("test_vit", num_classes=1000)
torch.save(published.state_dict(), sys.argv[1])
words = ("model=timm:test_vit", f"model.weights={sys.argv[1]}")
task = simulate(*words).task
begun = simulate(*words).federation.start().weights
frozen = simulate(*words, "training.trainable=network.head.*").task.build_model()
print(json.dumps({
    "other": [name for name, each in published.named_parameters() if begun[f"network.{name}"].shape != each.shape
              or not torch.equal(begun[f"network.{name}"], each)],
    "classes": len(begun["network.head.weight"]),
    "trained": [name for name, _ in frozen.named_parameters()],
    "same": torch.equal(frozen.network.blocks[0].attn.qkv.weight, published.blocks[0].attn.qkv.weight),
    "seen": [task.normalize(torch.full((1, 8, 8, 1), 255)).max().item(), list(frozen._inputs.size)],
    "constants": frozen._inputs.constants,
    "refused": [refused("model=timm:test_vit"), refused("model=timm:test_vitt"),
                refused("model=timm:test_resnet", f"model.weights={sys.argv[1]}")],
}))
"""


def test_networks_of_timm(tmp_path: Path) -> None:
    """In a process of its own: the same laws with timm's smallest network, whose own configuration says 160×160."""
    paths = (TIMM, ROOT / "src", ROOT / "tests" / "helpers")
    environment = {"PYTHONPATH": ":".join(map(str, paths)), "HF_HOME": str(tmp_path), "HF_HUB_OFFLINE": "1"}
    command = [sys.executable, "-c", IN_TIMM, str(tmp_path / "file.pt")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["other"] == ["head.weight", "head.bias"]
    assert found["classes"] == 4
    assert found["trained"] == ["network.head.weight", "network.head.bias"]
    assert found["same"]
    assert found["seen"] == [1, [160, 160]]
    assert found["constants"] == [[0.5, 0.5, 0.5], [0.5, 0.5, 0.5]]
    absent, unknown, other = found["refused"]
    assert "hf download timm/test_vit.r160_in1k" in absent
    assert "did you mean 'test_vit'?" in unknown
    assert "does not fit 'test_resnet'" in other
