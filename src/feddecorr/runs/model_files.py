"""A model from its parts: the code that builds it, a file of weights, a data set."""

from __future__ import annotations

from pathlib import Path

from feddecorr.collapse.diagnosis import Diagnosis
from feddecorr.config.experiment import Experiment
from feddecorr.core.threads import parallel_jobs
from feddecorr.models.model import use_batch_statistics
from feddecorr.models.weights import load_weights
from feddecorr.runs.evaluation import Evaluator
from feddecorr.runs.evaluator_inputs import REMARKS
from feddecorr.settings.options import RunOptions
from feddecorr.training.task import Task


def diagnose_stored(
    experiment: Experiment,
    options: RunOptions,
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
    known = (dataset.shape, dataset.classes, dataset.mean, dataset.std)
    task = Task(experiment, *known, options.device, options.evaluation)
    model = task.build_model()
    if weights is not None:
        load_weights(model, weights)
    images = dataset.test if on == "test" else dataset.train
    name = ("model" if weights is None else str(weights)) + REMARKS[statistics]
    if statistics == "batch":
        use_batch_statistics(model, len(images), options.evaluation.batch)
    return Evaluator(task, images, parallel_jobs(experiment.training.threads)).diagnose(model, name=name, layer=layer)
