"""Whether Assumption 2 holds in training: a linear network on real images by SGD, as in the paper's figure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from feddecorr.config.experiment import Experiment
from feddecorr.core.randomness import frozen_stream
from feddecorr.data.dataset import Images
from feddecorr.paper.theory.measurement import imbalance_of_layers
from feddecorr.paper.theory.network import (
    Array,
    ProgressCallback,
    Weights,
    gradients,
    loss,
    no_progress,
    one_hot,
    product,
)
from feddecorr.paper.theory.singular_values import alignment, alignment_score
from feddecorr.paper.theory.start import random_weights
from feddecorr.paper.theory_settings import Alignment
from feddecorr.report.picture import Panel, Picture, StudyContent


def study_alignment(settings: Alignment, progress: ProgressCallback = no_progress) -> StudyContent:
    """Train and compare the singular vectors after each of the chosen epochs."""
    dataset = Experiment.parse({"data": settings.data}).data.load()
    scale = float(dataset.train.pixels.max())
    x, targets = _rows(dataset.train, scale), one_hot(dataset.train.labels.numpy(), len(dataset.classes))
    test, truth = _rows(dataset.test, scale).T.astype(np.float64), one_hot(dataset.test.labels.numpy(), len(targets))
    found: list[dict[str, Any]] = []
    for epoch, weights in enumerate(train(settings, x, targets, progress), start=1):
        if epoch in settings.epochs:
            matrix = alignment(product(weights[:-1]), weights[-1])
            found.append(
                {
                    "epoch": epoch,
                    "score": alignment_score(matrix),
                    "score_of_learned": alignment_score(matrix[: len(dataset.classes) - 1]),
                    "diagonal": np.diag(matrix).tolist(),
                    "matrix": matrix.tolist(),
                    "imbalance_of_layers": float(imbalance_of_layers(weights[:-1])),
                    "test_loss": loss(weights, test, truth) / len(dataset.test),
                    "test_accuracy": float(((product(weights) @ test).argmax(0) == truth.argmax(0)).mean()),
                }
            )
    picture = Picture(
        "alignment",
        "Singular vectors of the classifier and of the product",
        "Row k' from above, column k: |u_kᵀ v_{L+1,k'}|, from 0 (light) to 1 (dark). Under Assumption 2 the diagonal "
        "is one and all else is zero.",
        ("k", "k'"),
        [Panel(f"epoch {each['epoch']}", matrix=np.array(each["matrix"])) for each in found],
    )
    return StudyContent(
        f"Alignment on {settings.data}",
        f"A linear network of {settings.layers + 1} layers, {settings.dim} dimensions wide, by SGD with learning rate "
        f"{settings.lr:g}, momentum {settings.momentum:g}, batches of {settings.batch}.",
        {"settings": settings.model_dump(mode="json"), "epochs": found},
        [
            "epoch",
            "alignment",
            f"of the first {len(dataset.classes) - 1}",
            "layers' imbalance",
            "test loss",
            "test accuracy",
        ],
        [
            [
                str(each["epoch"]),
                f"{each['score']:.3f}",
                f"{each['score_of_learned']:.3f}",
                f"{each['imbalance_of_layers']:.2f}",
                f"{each['test_loss']:.4f}",
                f"{each['test_accuracy']:.3f}",
            ]
            for each in found
        ],
        [picture],
        {f"epoch_{each['epoch']}": np.array(each["matrix"]) for each in found},
    )


def train(
    settings: Alignment, rows: NDArray[np.float32], targets: Array, progress: ProgressCallback = no_progress
) -> Iterator[Weights]:
    """Yield the weights after every epoch of SGD on the mean cross-entropy; samples are rows, targets columns.

    An epoch is as many passes as come nearest to `epoch_samples`. The progress hears of every step.
    """
    stream = frozen_stream(settings.seed, "theory/alignment")
    weights = random_weights([rows.shape[1], *[settings.dim] * settings.layers, len(targets)], stream)
    speeds = tuple(np.zeros_like(matrix) for matrix in weights)
    passes = max(1, round(settings.epoch_samples / len(rows)))
    epochs = max(settings.epochs)
    for epoch in range(epochs):
        order = np.concatenate([stream.permutation(len(rows)) for _ in range(passes)])
        for start in range(0, len(order), settings.batch):
            chosen = order[start : start + settings.batch]
            slopes = gradients(weights, rows[chosen].T.astype(np.float64), targets[:, chosen])
            speeds = tuple(
                settings.momentum * speed + slope / len(chosen) + settings.weight_decay * matrix
                for speed, slope, matrix in zip(speeds, slopes, weights, strict=True)
            )
            weights = tuple(matrix - settings.lr * speed for matrix, speed in zip(weights, speeds, strict=True))
            progress((epoch + (start + len(chosen)) / len(order)) / epochs)
        yield weights


def _rows(images: Images, scale: float) -> NDArray[np.float32]:
    """Return images as rows of pixels from 0 to 1."""
    return np.asarray(images.pixels.reshape(len(images), -1).numpy() / np.float32(scale), dtype=np.float32)
