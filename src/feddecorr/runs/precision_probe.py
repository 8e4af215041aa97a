"""What `training.precision=auto` is here: a short trial when a run begins, and then for the whole run."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Literal

import torch
from torch import Tensor

from feddecorr.config.schedules import Constant
from feddecorr.core.messages import Broadcast
from feddecorr.errors import RunError
from feddecorr.server.federation import Simulation
from feddecorr.training.client import Client
from feddecorr.training.shards import Shard
from feddecorr.training.task import Task

SECONDS = 10.0
"""So long may trials take; a first one, to warm up, and another are done in any case."""

MOST_TRIALS = 30
STEPS = 3
"""Local steps of a trial."""

FASTER = 1.05
"""At least so many times as fast must bfloat16 be."""

LEAST_OF_NOISE = 0.25
"""At most so much of what another order of the batches changes may bfloat16 change: a sixteenth of its variance."""


@dataclass(frozen=True)
class Trial:
    """The same local steps in both precisions: how many times as fast bfloat16 is, and what it changes.

    `drift` is how far apart both trained models are, over how far apart float32 gets with other batches.
    """

    speed: float
    drift: float


@dataclass(frozen=True)
class Choice:
    """What was picked and why, with the median speed and the largest drift of the trials, if there were any."""

    precision: Literal["fp32", "bf16"]
    reason: str
    speed: float | None = None
    drift: float | None = None


def choose(simulation: Simulation) -> Choice:
    """Return the precision for a run on this machine: bfloat16 only where it is faster and disappears in the noise."""
    device = simulation.task.experiment.training.device
    if not has_bfloat16(device):
        return Choice("fp32", f"{device} has no instructions for bfloat16")
    try:
        return judge(try_out(simulation))
    except RunError as error:
        return Choice("fp32", f"the trial broke off: {error}")


def has_bfloat16(device: str) -> bool:
    """Tell whether the device computes bfloat16 itself; elsewhere it is emulated, which is slower."""
    kind = torch.device(device).type
    if kind == "cuda":
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    return kind == "cpu" and any(has for name, has in torch.cpu.get_capabilities().items() if "bf16" in name)


def judge(trials: Sequence[Trial]) -> Choice:
    """Return what follows from trials."""
    speed, drift = median(trial.speed for trial in trials), max(trial.drift for trial in trials)
    if not speed >= FASTER:
        return Choice("fp32", f"bfloat16 is not {FASTER:g} times as fast", speed, drift)
    if not drift <= LEAST_OF_NOISE:
        reason = f"bfloat16 changes the model by more than {LEAST_OF_NOISE:g} of what other batches do"
        return Choice("fp32", reason, speed, drift)
    return Choice("bf16", "bfloat16 is faster and changes the model far less than other batches do", speed, drift)


def try_out(simulation: Simulation, seconds: float = SECONDS) -> list[Trial]:
    """Let the largest client take its first steps again and again, each time in both precisions and once otherwise."""
    plain, half = (simulation.settled(precision).task for precision in ("fp32", "bf16"))
    other = replace(plain, experiment=plain.experiment.model_copy(update={"seed": plain.experiment.seed + 1}))
    clients = [Client(_briefly(task)) for task in (plain, half, other)]
    shard = simulation.shards[int(simulation.shards.sizes.argmax())]
    federation = replace(simulation.federation, task=plain)
    server, method = federation.start(), plain.experiment.method
    trials: list[Trial] = []
    started = time.perf_counter()
    while len(trials) < 2 or (len(trials) < MOST_TRIALS and time.perf_counter() < started + seconds):
        sent = method.broadcast(len(trials) + 1, server)  # another round has other batches
        (first, at_first), (second, at_second), (third, _) = (_play(client, sent, shard) for client in clients)
        drift = float((second - first).norm() / (third - first).norm())
        trials.append(Trial(speed=at_first / at_second, drift=drift))
    return trials[1:]


def _briefly(task: Task) -> Task:
    """Return the task with few steps, all at one learning rate."""
    changes = {"steps": STEPS, "schedule": Constant()}
    training = task.experiment.training.model_copy(update=changes)
    return replace(task, experiment=task.experiment.model_copy(update={"training": training}))


def _play(client: Client, sent: Broadcast, shard: Shard) -> tuple[Tensor, float]:
    """Return the trained weights, one after another, and the seconds that it took."""
    started = time.perf_counter()
    update, _ = client(sent, shard, {})
    seconds = time.perf_counter() - started
    return torch.cat([weight.flatten().double() for weight in update.weights.values()]), seconds
