"""What is still to be done for some arms, and how long it will take on this machine."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from feddecorr.config.experiment import Experiment
from feddecorr.results.study import Arm
from feddecorr.sweeps.costs import Costs
from feddecorr.sweeps.jobs import Job, plan
from feddecorr.sweeps.probing import measure
from feddecorr.sweeps.time_left import time_left

SECONDS = 10.0
"""How long the machine is measured."""


def measured_costs(experiments: Iterable[Experiment], tell: Callable[[int, int], None]) -> Costs:
    """Measure for about ten seconds what these experiments cost; longer if the networks are many and large."""
    return Costs(measure(experiments, SECONDS, tell))


@dataclass(frozen=True)
class Estimate:
    """The runs of some arms, how far they are, and what is left of each in seconds; None where data are missing."""

    jobs: Sequence[Job]
    seconds: Sequence[float | None]
    cores: int

    @classmethod
    def of(cls, arms: Sequence[Arm], costs: Costs, cores: int, store: Path | None = None) -> Estimate:
        """Foresee the arms; with a store, only what is not done there."""
        jobs = plan(arms, store or Path())
        if store:
            for job in jobs:
                job.look()
        rounds = [costs.of_round(job.experiment) for job in jobs]
        return cls(jobs, [each and each * job.left for each, job in zip(rounds, jobs, strict=True)], cores)

    @property
    def total(self) -> float | None:
        """Seconds until all are done; None if that of any of them is not known."""
        known = [seconds for seconds in self.seconds if seconds is not None]
        return time_left([], known, self.cores) if len(known) == len(self.seconds) else None
