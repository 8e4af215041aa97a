"""Short runs that tell what an image costs on this machine."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import islice

from feddecorr.config.experiment import Experiment
from feddecorr.engines.serial import Serial
from feddecorr.errors import RunError, UserError
from feddecorr.loss.dying import DyingFeatures
from feddecorr.methods import FedAvg
from feddecorr.partition import Homogeneous
from feddecorr.runs.eval_schedule import FORWARD
from feddecorr.runs.pipeline import run
from feddecorr.sweeps.costs import Cost, Kind, kind, network, objective, sizes

PLAIN = "fedavg"
"""The objective that all others are measured against."""

ROUNDS = 4
FEW = 16
MOST_BATCHES = 4
LEAST_SECONDS = 1.0
"""Time for every network, however many there are: a small one takes whole batches in it, which cost less an image."""


def measure(
    experiments: Iterable[Experiment], seconds: float, tell: Callable[[int, int], None] | None = None
) -> dict[Kind, Cost]:
    """Return the cost of each kind among the experiments, from a measurement of about that many seconds.

    Every network is measured with FedAvg, and every objective on the cheapest of the networks: their product is
    taken for the cost of both together. What cannot be measured, because its data are not there, is left out.
    `tell` is told how many of these measurements are done, and how many there are.
    """
    kinds = {kind(experiment): experiment for experiment in experiments}
    networks = {network(experiment): experiment for experiment in kinds.values()}
    objectives = {objective(experiment): experiment for experiment in kinds.values()}
    objectives.pop(PLAIN, None)
    clock = _Clock(seconds, len(networks) + len(objectives), tell or (lambda *_: None))
    probes: dict[str, Probe] = {}
    for name, experiment in networks.items():
        plain = experiment.model_copy(update={"method": FedAvg(), "regularizers": {}})
        if probe := Probe.within(plain, clock.share()):
            probes[name] = probe
    if not probes:
        return {}
    cheapest = min(probes.values(), key=lambda probe: probe.cost.image)
    factors = {PLAIN: 1.0}
    for name, experiment in objectives.items():
        clock.share()
        factors[name] = cheapest.factor(experiment)
    return {
        found: Cost(probes[own].cost.image * factors[objective(experiment)], probes[own].cost.evaluation)
        for found, experiment in kinds.items()
        if (own := network(experiment)) in probes
    }


class _Clock:
    """Divides the time among all that is measured; each has at least what it cannot do without."""

    def __init__(self, seconds: float, total: int, tell: Callable[[int, int], None]) -> None:
        self._end = time.monotonic() + seconds
        self._done = 0
        self._total = total
        self._tell = tell

    def share(self) -> float:
        """Return the seconds that the next one has."""
        self._tell(self._done, self._total)
        self._done += 1
        return (self._end - time.monotonic()) / (self._total - self._done + 1)


@dataclass(frozen=True)
class Probe:
    """What was measured of an experiment, with how many images."""

    experiment: Experiment
    train: int
    test: int
    cost: Cost

    @classmethod
    def within(cls, experiment: Experiment, seconds: float) -> Probe | None:
        """Measure with a few images, and then with as many as there is time for; None if it cannot be done."""
        try:
            train, test = sizes(experiment.data)
            few = cls.of(experiment, min(train, FEW), min(test, FEW))
            allowed = max(seconds, LEAST_SECONDS) / ROUNDS / few.cost.image
            images = min(int(allowed), MOST_BATCHES * experiment.training.batch, train)
            return few if images < 2 * FEW else cls.of(experiment, images, min(test, images))
        except (UserError, RunError):
            return None

    @classmethod
    def of(cls, experiment: Experiment, train: int, test: int) -> Probe:
        """Measure with so many images."""
        return cls(experiment, train, test, _measure(experiment, train, test))

    def factor(self, other: Experiment) -> float:
        """Return what another method and its regularizers cost in relation to the plain one; 1 if they cannot run."""
        chosen = {"method": other.method, "regularizers": other.regularizers}
        try:
            cost = _measure(self.experiment.model_copy(update=chosen), self.train, self.test)
        except (UserError, RunError):
            return 1.0
        return cost.image / self.cost.image


def _measure(experiment: Experiment, train: int, test: int) -> Cost:
    """Run four rounds of one client: the first two warm up, without and with an evaluation."""
    small = {
        "data": experiment.data.model_copy(update={"train": train, "test": test}),
        "clients": 1,
        "partition": Homogeneous(minimum=1),
        "participation": 1.0,
        "rounds": ROUNDS + 1,  # in the last round, which is not waited for, more is measured
        "training": experiment.training.model_copy(update={"epochs": 1, "steps": None}),
        "evaluation": experiment.evaluation.model_copy(
            update={"every": 2, "final": 1, "clients": False, "epochs": False}
        ),
        "transforms": {},  # they may need more clients than one
        "engine": Serial(),
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DyingFeatures)  # of a few images that are thrown away
        *_, trained, evaluated = [record.seconds for record in islice(run(experiment.model_copy(update=small)), ROUNDS)]
    image = trained / train
    return Cost(image, max(0.0, evaluated - trained - test * image / FORWARD))
