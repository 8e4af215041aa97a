"""Probes of stored models, of a run's global model and of features in files."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import torch
from torch import nn

from feddecorr.collapse import spectrum
from feddecorr.collapse.probe import Probed
from feddecorr.collapse.statistics import Batch, Moments, chunks
from feddecorr.config.experiment import Experiment
from feddecorr.core.randomness import parallel_jobs
from feddecorr.core.states import load_into
from feddecorr.core.trust import STRANGER, Trust
from feddecorr.data.dataset import Dataset, Images
from feddecorr.data.features import Features, read_features
from feddecorr.errors import UserError
from feddecorr.models.weights import load_weights
from feddecorr.runs.directory import RunDirectory
from feddecorr.runs.evaluation import Evaluator
from feddecorr.runs.recompute import Say
from feddecorr.server.federation import Simulation
from feddecorr.settings.options import RunOptions
from feddecorr.training.task import Task

PARTS = 5
"""Without samples to test on, every fifth is one."""


def probe_run(directory: RunDirectory, name: str, layer: str | None, say: Say, *, trust: Trust = STRANGER) -> Probed:
    """Probe the newest global model of a run, on the images that its clients and its server have."""
    number = directory.require_rounds()
    experiment, options = directory.settings(trust)
    simulation = Simulation(experiment, device=options.device, evaluation=options.evaluation)
    task = simulation.task.built()
    model = task.build_model()
    load_into(model, directory.weights())
    return _probe(task, simulation.dataset, model, f"{name}, round {number}", layer, say)


def probe_stored(
    experiment: Experiment, options: RunOptions, weights: Path | None, layer: str | None, say: Say
) -> Probed:
    """Probe the experiment's model on its data; without weights, as it is before training."""
    dataset = experiment.data.load()
    task = Task.of(experiment, dataset, options.device, options.evaluation)
    model = task.build_model()
    if weights is not None:
        load_weights(model, weights)
    return _probe(task, dataset, model, "model" if weights is None else str(weights), layer, say)


def _probe(task: Task, dataset: Dataset, model: nn.Module, name: str, layer: str | None, say: Say) -> Probed:
    def look(images: Images, which: str) -> Batch:
        evaluator = Evaluator(task, images, parallel_jobs(task.experiment.training.threads))
        found = evaluator.represent(model, layer)
        say(f"{name}: {len(images)} {which} images are looked at")
        return found

    return _with_rank(look(dataset.train, "training"), look(dataset.test, "test"), name)


def _with_rank(train: Batch, test: Batch, name: str) -> Probed:
    covariance = Moments.of(test.z).covariance
    rank = spectrum.effective_rank(spectrum.singular_values(covariance))
    return replace(Probed.of(name, train, test), effective_rank=rank)


def probe_features(train: tuple[Path, Path | None], test: tuple[Path, Path | None] | None) -> Probed:
    """Probe features in files; without a file to test on, every fifth sample is tested."""
    learned = _read(read_features(*train))
    if test is not None:
        return _with_rank(learned, _read(read_features(*test)), test[0].name)
    if len(learned.z) < PARTS:
        raise UserError(f"{train[0]}: {len(learned.z)} samples are too few to be split: give --test-features")
    tested = torch.arange(len(learned.z)) % PARTS == PARTS - 1
    rest, some = (
        Batch(learned.z[part], None if learned.labels is None else learned.labels[part]) for part in (~tested, tested)
    )
    return _with_rank(rest, some, train[0].name)


def _read(features: Features) -> Batch:
    return next(chunks(features.batches(features.step), len(features.array)))
