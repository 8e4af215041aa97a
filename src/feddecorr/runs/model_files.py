"""A model from its parts: the code that builds it, a file of weights, a data set."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor, nn

from feddecorr.batchnorm import forget_statistics
from feddecorr.collapse.diagnosis import Diagnosis
from feddecorr.errors import UserError
from feddecorr.federation import Task
from feddecorr.files import load_tensors
from feddecorr.runs.evaluation import Evaluator
from feddecorr.runs.looking import REMARKS
from feddecorr.settings.experiment import Experiment
from feddecorr.states import State, copy_into, misfits, state_dict_names
from feddecorr.threads import hands


def diagnose_stored(
    experiment: Experiment,
    weights: Path | None,
    *,
    layer: str | None = None,
    on: str = "test",
    statistics: str = "model",
) -> Diagnosis:
    """Diagnose the experiment's model on its data; without weights, as it is before training.

    BatchNorm's `statistics` are the `model`'s or those of each `batch` of the images.
    """
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
    """Load weights, all of them; say which do not fit.

    Tied weights may come under any of their names; buffers that a `state_dict` leaves out may be there or not.
    """
    names = state_dict_names(model)
    mine: State = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    state = {names.get(name, name): tensor for name, tensor in read_weights(path).items()}
    expected = {name: tensor for name, tensor in mine.items() if name in state or name in names.values()}
    if problems := misfits(state, expected):
        raise UserError(f"{path} does not fit the model ({'; '.join(problems)})")
    copy_into((mine[name] for name in state), state.values())


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
    except UserError:
        raise
    except Exception as error:  # a broken pickle can raise anything at all
        reason = (str(error) or type(error).__name__).splitlines()[0]
        raise UserError(f"{path} holds no weights that can be read: {reason}") from error
    if isinstance(found, Mapping) and isinstance(found.get("state_dict"), Mapping):
        found = found["state_dict"]
    if not isinstance(found, Mapping) or not all(isinstance(tensor, Tensor) for tensor in found.values()):
        raise UserError(f"{path} holds no table of tensors by name: save model.state_dict()")
    return dict(found)
