"""Experiment trackers by name; your own joins as `trackers=my_module:MyTracker`."""

from feddecorr.core.registry import Registry
from feddecorr.trackers.mlflow import MLflow
from feddecorr.trackers.tensorboard import TensorBoard
from feddecorr.trackers.tracker import Tracker, TrackerEntry, TrackerLog
from feddecorr.trackers.wandb import WeightsAndBiases

TRACKERS = Registry("tracker", Tracker, {"tensorboard": TensorBoard, "wandb": WeightsAndBiases, "mlflow": MLflow})

__all__ = ["TRACKERS", "Tracker", "TrackerEntry", "TrackerLog"]
