"""Experiment trackers by name; your own joins as `trackers=my_module:MyTracker`."""

from feddecorr.core.registry import Registry
from feddecorr.trackers.libraries import MLflow, TensorBoard, WeightsAndBiases
from feddecorr.trackers.tracker import Tracker, TrackerEntry, TrackerLog

TRACKERS = Registry("tracker", Tracker, {"tensorboard": TensorBoard, "wandb": WeightsAndBiases, "mlflow": MLflow})

__all__ = ["TRACKERS", "Tracker", "TrackerEntry", "TrackerLog"]
