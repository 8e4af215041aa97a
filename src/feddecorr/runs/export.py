"""A run's model for other programs: safetensors, TorchScript and ONNX, each checked by running it."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from feddecorr.config.experiment import Experiment
from feddecorr.core.files import save_tensors, write_bytes
from feddecorr.core.states import load_into
from feddecorr.core.temporary import temporary_folder
from feddecorr.core.trust import STRANGER, Trust
from feddecorr.errors import RunError, UserError
from feddecorr.models.partial import Adapter, whole_state
from feddecorr.models.weights import load_weights, set_weights
from feddecorr.runs.directory import RunDirectory
from feddecorr.settings.flat import to_settings
from feddecorr.settings.options import RunOptions
from feddecorr.training.task import Task

CHECKED = 32
"""Test images on which an exported model has to give the same logits."""

TOLERANCE = 1e-4
"""By how much logits may differ, relative to the largest: other programs add up in another order."""


class Portable(nn.Module):
    """The network with what standardizes its inputs: (n, channels, height, width) pixels, 0 to 255, in; logits out."""

    mean: Tensor
    std: Tensor

    def __init__(self, task: Task, network: nn.Module) -> None:
        super().__init__()
        self.network = network
        for name, constant in zip(("mean", "std"), task.constants, strict=True):
            self.register_buffer(name, torch.tensor(constant).view(1, -1, 1, 1))

    def forward(self, pixels: Tensor) -> Tensor:
        """Return the logits of each class."""
        logits: Tensor = self.network((pixels - self.mean) / self.std)
        return logits


@dataclass(frozen=True)
class Exported:
    """A model that is to be written, with images to try it on."""

    model: Portable
    task: Task
    experiment: Experiment
    round: int
    pixels: Tensor
    options: RunOptions

    @classmethod
    def of(cls, run: RunDirectory, trust: Trust) -> Exported:
        """Take the newest global model of a run; its data are needed for what standardizes them, and to try it."""
        done = run.require_rounds()
        experiment, options = run.settings(trust)
        training = experiment.training.model_copy(update={"precision": "fp32", "memory_format": "channels_last"})
        experiment = experiment.model_copy(update={"training": training})
        dataset = experiment.data.load()
        task = Task.of(experiment, dataset)
        network = task.build_model()
        set_weights(network, run.weights(), str(run.path))
        if experiment.training.is_partial:
            task, network = _merge(task, network)
        pixels = dataset.test.pixels[:CHECKED].permute(0, 3, 1, 2).float().contiguous()
        return cls(Portable(task, network).eval(), task, experiment, done, pixels, options)

    @torch.no_grad()
    def logits(self) -> Tensor:
        """Return what the model says of the images to try it on."""
        found: Tensor = self.model(self.pixels)
        return found

    def note(self) -> dict[str, str]:
        """Return what a reader of the file has to know."""
        mean, std = self.task.constants
        described = {"classes": self.task.classes, "shape": self.task.shape, "mean": mean, "std": std}
        known = {name: json.dumps(value) for name, value in described.items()}
        settings = to_settings(self.experiment, self.options)
        return {**known, "experiment": json.dumps(settings), "round": str(self.round)}


def _merge(task: Task, network: nn.Module) -> tuple[Task, nn.Module]:
    """Return the task and the network in which all weights are ordinary ones, adapters merged."""
    training = task.experiment.training.model_copy(update={"trainable": (), "adapter": Adapter()})
    task = replace(task, experiment=task.experiment.model_copy(update={"training": training}))
    whole = task.build_model()
    load_into(whole, whole_state(network, whole))
    return task, whole


def export_model(run: RunDirectory, to: str, path: Path, *, trust: Trust = STRANGER) -> None:
    """Write the run's model, once what is to be written was read and run: it has to give the same logits."""
    given = Exported.of(run, trust)
    path.parent.mkdir(parents=True, exist_ok=True)
    with temporary_folder() as folder:
        file = folder / f"model.{to}"
        found, expected = FORMATS[to](given, file), given.logits()
        gap = float((found - expected).abs().max() / expected.abs().max().clamp(min=1e-12))
        if found.shape != expected.shape or not gap <= TOLERANCE:
            raise RunError(f"the exported model gave other logits, by {gap:.1e} of the largest: nothing was written")
        write_bytes(path, file.read_bytes())


def _to_safetensors(given: Exported, path: Path) -> Tensor:
    """Write the network's weights and buffers as its own `load_state_dict` takes them, and `model.weights=FILE`.

    Tied weights are there under each of their names: a file holds no tensor twice, but equal ones.
    """
    state = {name: tensor.clone() for name, tensor in given.model.network.state_dict().items()}
    save_tensors(path, state, given.note())
    again = given.task.build_model()
    load_weights(again, path)
    with torch.no_grad():
        found: Tensor = Portable(given.task, again).eval()(given.pixels)
    return found


def _to_torchscript(given: Exported, path: Path) -> Tensor:
    """Write a program that PyTorch runs without this package; any number of images at once."""
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # PyTorch advises torch.export for new code
        traced = torch.jit.trace(given.model, given.pixels[:2])
        traced.save(str(path))
        found: Tensor = torch.jit.load(str(path))(given.pixels)
    return found


def _to_onnx(given: Exported, path: Path) -> Tensor:
    """Write a graph for any runtime of ONNX, and run it by onnxruntime."""
    try:
        import onnxruntime  # noqa: PLC0415 - an extra, loaded when it is needed
        import onnxscript  # noqa: F401, PLC0415 - what PyTorch's exporter needs
    except ImportError as error:
        raise UserError(f"ONNX needs more ({error}): pip install 'feddecorr[onnx]'") from error
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the exporter's own use of what is about to go
        program: Any = torch.onnx.export(
            given.model,
            (given.pixels[:2],),
            input_names=["pixels"],
            output_names=["logits"],
            dynamic_shapes={"pixels": {0: torch.export.Dim("images")}},
            dynamo=True,
            verbose=False,
        )
    write_bytes(path, program.model_proto.SerializeToString())
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    (found,) = session.run(None, {"pixels": given.pixels.numpy()})
    return torch.from_numpy(np.asarray(found))


FORMATS: dict[str, Callable[[Exported, Path], Tensor]] = {
    "safetensors": _to_safetensors,
    "torchscript": _to_torchscript,
    "onnx": _to_onnx,
}
"""How a model is written; each returns the logits that the written model gives."""
