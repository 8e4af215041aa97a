"""Runs on Slurm: a job array on a shared folder, each of whose tasks does a part of them."""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from pydantic import Field, PositiveInt

from feddecorr.errors import RunError, UserError
from feddecorr.runs.directory import RunDirectory
from feddecorr.sweeps.executor import Executor
from feddecorr.sweeps.jobs import Job, RunShard
from feddecorr.sweeps.status import FailedRun, Running, Status, Tell

FOLDER = "slurm"
"""The folder of the script and of the tasks' logs, next to the runs."""

SCRIPT, ARRAY = "array.sh", "array"

LOOK = 2.0
"""Seconds between two looks at the array."""

MOST_TASKS = 1000
"""Tasks of an array: by default, Slurm allows no number above 1000."""


class OnSlurm(Executor):
    """Every task of a job array is this command with `--shard`; a task that is requeued continues its runs."""

    command: tuple[str, ...] = Field((), description="the command whose parts the tasks are, without --on")
    out: Path = Field(Path(), description="the directory of the runs, which all nodes share")
    time: str | None = Field(None, description="the limit of a task, such as 4:00:00")
    gres: str | None = Field(None, description="what a task needs besides, such as gpu:1")
    partition: str | None = Field(None, description="the partition")
    account: str | None = Field(None, description="the account that is charged")
    memory: PositiveInt | None = Field(None, description="bytes that a task needs")
    tasks: PositiveInt | None = Field(None, description="into how many parts to divide the runs; one for each run")

    def check(self) -> None:
        """Raise if jobs cannot be submitted here."""
        if shutil.which("sbatch") is None:
            raise UserError("--on slurm needs sbatch: run this on a machine from which jobs are submitted")

    def script(self, jobs: Sequence[Job]) -> str:
        """Return the job array for runs that are left to do."""
        count = min(self.tasks or max(1, len(jobs)), MOST_TASKS)
        parts = [number for number in range(1, count + 1) if any(job.digest in RunShard(number, count) for job in jobs)]
        cores = max((job.experiment.training.threads * _workers(job) for job in jobs), default=1)
        asked = {
            "job-name": "feddecorr",
            "array": ",".join(_ranges(parts)),
            "cpus-per-task": str(cores),
            "mem": self.memory and f"{-(-self.memory // (1 << 20))}M",
            "time": self.time,
            "gres": self.gres,
            "partition": self.partition,
            "account": self.account,
            "chdir": str(Path.cwd()),
            "output": str((self.out / FOLDER / "%A_%a.log").absolute()),
            "open-mode": "append",
        }
        lines = [f"#SBATCH --{name}={value}" for name, value in asked.items() if value]
        task = shlex.join([*self.command, f"--jobs={cores}"])
        return "\n".join(
            [
                "#!/bin/sh",
                *lines,
                "#SBATCH --requeue",
                f"exec {task} --shard $SLURM_ARRAY_TASK_ID/{count}",
                "",
            ]
        )

    def run(self, jobs: Sequence[Job], tell: Tell) -> dict[str, FailedRun]:
        """Submit the array, unless it is there already, and look at the runs until it is over."""
        left = [job for job in jobs if not job.look()]
        array = self._array() or (self._submit(left) if left else None)
        while True:
            over = array is None or not _is_queued(array)  # before the look at the runs
            unfinished = [job for job in jobs if not job.look()]
            tell(_status(jobs, unfinished))
            if over or not unfinished:
                break
            time.sleep(LOOK)
        logs = self.out / FOLDER
        return {job.digest: FailedRun(job.name, f"array {array} ended without it: see {logs}") for job in unfinished}

    def _submit(self, jobs: Sequence[Job]) -> str:
        folder = self.out / FOLDER
        folder.mkdir(parents=True, exist_ok=True)
        (folder / SCRIPT).write_text(self.script(jobs))
        array = _ask("sbatch", "--parsable", str(folder / SCRIPT)).partition(";")[0]
        (folder / ARRAY).write_text(f"{array}\n")
        return array

    def _array(self) -> str | None:
        """Return the array that was submitted for this directory before, if any of its tasks is still to come."""
        file = self.out / FOLDER / ARRAY
        array = file.read_text().strip() if file.exists() else ""
        return array if array.isdecimal() and _is_queued(array) else None


OWN = {"--on", "--memory", "--time", "--gres", "--partition", "--account", "--tasks", "--jobs"}
"""Options, each with a value, that are not for the tasks."""


def command_of_tasks(words: Sequence[str]) -> tuple[str, ...]:
    """Return the command of a task: that of these words without what is for the array."""
    kept, rest = [], iter(words)
    for word in rest:
        option, equals, _ = word.partition("=")
        if option not in OWN:
            kept.append(word)
        elif not equals:
            next(rest, None)
    return sys.executable, "-m", "feddecorr", *(word for word in kept if word not in ("--dry-run", "--json"))


def _workers(job: Job) -> int:
    return job.options.engine.parallel_jobs(job.experiment.training.threads)


def _ranges(numbers: Sequence[int]) -> Iterator[str]:
    """Yield whole numbers as Slurm writes them: 1-3, 5."""
    start = before = None
    for number in [*numbers, None]:
        if start is not None and before is not None and number != before + 1:
            yield str(start) if start == before else f"{start}-{before}"
            start = None
        start, before = (number if start is None else start), number


def _is_queued(array: str) -> bool:
    """Tell whether tasks of an array wait or run."""
    return bool(_ask("squeue", "--noheader", "--format=%i", f"--jobs={array}", missing=""))


def _status(jobs: Sequence[Job], unfinished: Sequence[Job]) -> Status:
    held = [job for job in unfinished if RunDirectory(job.path).is_held()]
    running = [Running(job.name, min(job.finished + 1, job.options.rounds), job.options.rounds) for job in held]
    return Status(len(jobs), len(jobs) - len(unfinished), 0, running, elsewhere=0, left=None)


def _ask(*words: str, missing: str | None = None) -> str:
    """Return what a command of Slurm says; `missing` where it knows no such job any more."""
    done = subprocess.run(words, capture_output=True, text=True, check=False)  # noqa: S603 - Slurm's own
    if done.returncode == 0:
        return done.stdout.strip()
    if missing is not None and "Invalid job id" in done.stderr:
        return missing
    raise RunError(f"{words[0]} refused: {done.stderr.strip() or done.stdout.strip()}")
