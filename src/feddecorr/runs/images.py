"""The images of a data set as a loader gives them."""

from __future__ import annotations

from collections.abc import Iterator

from torch import Tensor

from feddecorr.data import Dataset
from feddecorr.settings.experiment import Experiment


def batches(dataset: Dataset, part: str, experiment: Experiment) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield standardized test or training images with their labels, in the experiment's batches of evaluation."""
    images = dataset.test if part == "test" else dataset.train
    size = experiment.evaluation.batch
    for pixels, labels in zip(images.pixels.split(size), images.labels.split(size), strict=True):
        yield dataset.normalize(pixels.to(experiment.training.device)), labels
