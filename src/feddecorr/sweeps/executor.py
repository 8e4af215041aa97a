"""Where many runs are done: the interface that this machine, Ray and Slurm share."""

from __future__ import annotations

from collections.abc import Sequence

from feddecorr.core.registry import Config
from feddecorr.sweeps.jobs import Job
from feddecorr.sweeps.status import FailedRun, Tell


class Executor(Config):
    """Does planned runs, each in its own directory; what they give does not depend on it."""

    def check(self) -> None:
        """Raise if something is missing that it needs."""

    def script(self, jobs: Sequence[Job]) -> str:  # noqa: ARG002 - for those that submit one
        """Return what it would submit for these runs; nothing if it does them itself."""
        return ""

    def run(self, jobs: Sequence[Job], tell: Tell) -> dict[str, FailedRun]:
        """Do the runs until none is left, and tell how far they are; return those that failed, by digest."""
        raise NotImplementedError
