"""Runs on Ray: a cluster that is there, or one of this machine's cores that comes and goes with the sweep.

Ray itself is driven in a process of its own (`ray_driver`), under a supervisor: whatever becomes of this process, no
process of Ray, no shared memory and no session of it is left behind.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from importlib.util import find_spec

from pydantic import Field, NonNegativeFloat, PositiveInt

from feddecorr.core.trust import own_search_path
from feddecorr.engines.supervised import supervised
from feddecorr.errors import RunError, UserError
from feddecorr.sweeps.executor import Executor
from feddecorr.sweeps.jobs import Job
from feddecorr.sweeps.status import FailedRun, Status, Tell

DRIVER = "feddecorr.sweeps.ray_driver"

NEEDED = ("ray", "psutil")

GRACE = 20.0
"""Seconds that the driver has to cancel all runs after an interrupt, before its processes are killed."""


@dataclass(frozen=True)
class Note:
    """What the user should know of the cluster."""

    text: str


class OnRay(Executor):
    """Every run is a task of Ray; a task whose node dies continues on another one."""

    address: str = Field("", description="ray://HOST:PORT, HOST:PORT or auto; without one, a local Ray is started")
    jobs: PositiveInt | None = Field(None, description="cores to use at once; all by default")
    memory: PositiveInt | None = Field(None, description="bytes that a run needs")
    gpus: NonNegativeFloat | None = Field(None, description="cards that a run needs, such as 0.25")
    interval: NonNegativeFloat = Field(1.0, description="least seconds between two times that a run sends its rounds")

    def check(self) -> None:
        """Raise if Ray is not installed."""
        if missing := [name for name in NEEDED if find_spec(name) is None]:
            raise UserError(f"--on ray needs {', '.join(missing)}: pip install 'feddecorr[ray]'")

    def run(self, jobs: Sequence[Job], tell: Tell) -> dict[str, FailedRun]:
        """Let the driver do the runs."""
        with supervised(DRIVER, cluster=bool(self.address)) as driver:
            absolute = [replace(job, path=job.path.absolute()) for job in jobs]
            driver.connection.send((self, absolute, own_search_path()))
            driver.start()
            try:
                while True:
                    match driver.connection.recv():
                        case Status() as status:
                            tell(status)
                        case Note(text):
                            warnings.warn(text, stacklevel=2)
                        case Exception() as error:
                            raise error
                        case failures:
                            return dict(failures)
            except (EOFError, ConnectionError) as error:
                raise RunError("Ray ended before the runs did; the same command continues") from RuntimeError(
                    f"Ray's log ends with:\n{driver.logs()}\n{error!r}"
                )
            except KeyboardInterrupt:
                with suppress(OSError, EOFError):
                    driver.connection.send("cancel")
                    while driver.connection.poll(GRACE):  # until it closes the connection
                        driver.connection.recv()
                raise
