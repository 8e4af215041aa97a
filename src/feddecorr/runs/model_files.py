"""A model from its parts: the code that builds it, a file of weights, a data set."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from torch import Tensor, nn

from feddecorr.batchnorm import forget_statistics
from feddecorr.collapse.diagnosis import Diagnosis
from feddecorr.errors import UserError
from feddecorr.federation import Task
from feddecorr.files import load_tensors
from feddecorr.runs.evaluation import Evaluator
from feddecorr.runs.looking import REMARKS
from feddecorr.settings.experiment import Experiment
from feddecorr.states import State, misfits
from feddecorr.threads import hands


def diagnose_stored(
    settings: Mapping[str, Any],
    weights: Path | None,
    *,
    layer: str | None = None,
    on: str = "test",
    statistics: str = "model",
) -> Diagnosis:
    """Diagnose the settings' model on their data; without weights, as it is before training.

    BatchNorm's `statistics` are the `model`'s or those of each `batch` of the images.
    """
    experiment = Experiment.parse(settings)
    dataset = experiment.data.load()
    task = Task(experiment, dataset.shape, dataset.classes, dataset.mean, dataset.std)
    model = task.build_model()
    if weights is not None:
        fill(model, weights)
    images = dataset.test if on == "test" else dataset.train
    name = ("model" if weights is None else str(weights)) + REMARKS[statistics]
    if statistics == "batch":
        forget_statistics(model, len(images), experiment.evaluation.batch)
    return Evaluator(task, images, hands(experiment.training.threads)).diagnose(model, name=name, layer=layer)


def fill(model: nn.Module, path: Path) -> None:
    """Load weights, all of them; say which do not fit."""
    state = read_weights(path)
    if problems := misfits(state, model.state_dict()):
        raise UserError(f"{path} does not fit the model ({'; '.join(problems)})")
    model.load_state_dict(state)


def read_weights(path: Path) -> State:
    """Return the tensors of a safetensors file or of one that `torch.save` wrote; no code in it is run."""
    if not path.is_file():
        raise UserError(f"there is no file {path}")
    try:
        found = (
            load_tensors(path)
            if path.suffix == ".safetensors"
            else torch.load(path, map_location="cpu", weights_only=True)
        )
    except (OSError, RuntimeError, ValueError, EOFError, pickle.UnpicklingError, SafetensorError) as error:
        raise UserError(f"{path} holds no weights that can be read: {str(error).splitlines()[0]}") from error
    if isinstance(found, Mapping) and isinstance(found.get("state_dict"), Mapping):
        found = found["state_dict"]
    if not isinstance(found, Mapping) or not all(isinstance(tensor, Tensor) for tensor in found.values()):
        raise UserError(f"{path} holds no table of tensors by name: save model.state_dict()")
    return dict(found)
