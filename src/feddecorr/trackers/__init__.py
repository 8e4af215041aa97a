"""Experiment trackers: thin readers of a run's records, while it goes on or afterwards."""

from typing import Literal

TrackerName = Literal["tensorboard", "wandb", "mlflow"]
"""Those that there are; `follower.py` says where each is found."""
