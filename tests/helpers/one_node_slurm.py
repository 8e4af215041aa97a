"""A Slurm of one node on the loopback, for as long as it is wanted; needs root and Debian's slurm-wlm and munge."""

from __future__ import annotations

import os
import secrets
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from loopback import free_port

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "squeue", "scontrol")

CONFIGURATION = """
ClusterName=one
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.sock
SlurmctldPort={controller}
SlurmdPort={daemon}
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmdSpoolDir={folder}/spool
StateSaveLocation={folder}/state
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerType=sched/builtin
ReturnToService=2
MinJobAge=60
NodeName={host} NodeAddr=127.0.0.1 CPUs=2 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


def is_installed() -> bool:
    """Tell whether this machine can have one."""
    return os.geteuid() == 0 and all(map(shutil.which, PROGRAMS))


@contextmanager
def slurm() -> Iterator[None]:
    """Let it be what Slurm's commands find."""
    folder = Path(tempfile.mkdtemp(prefix="s"))
    folder.chmod(0o755)
    for name in ("spool", "state"):
        (folder / name).mkdir()
    key, configuration = folder / "munge.key", folder / "slurm.conf"
    key.touch(0o600)
    key.write_bytes(secrets.token_bytes(128))
    ports = {"controller": free_port(), "daemon": free_port()}
    configuration.write_text(CONFIGURATION.format(folder=folder, host=socket.gethostname().split(".")[0], **ports))
    environment = {**os.environ, "SLURM_CONF": str(configuration)}
    munge = ["munged", "--foreground", "--force", f"--key-file={key}", f"--socket={folder}/munge.sock"]
    munge += [f"--{name}-file={folder}/munge.{name}" for name in ("pid", "log", "seed")]
    daemons = []
    try:
        for command in (munge, ["slurmctld", "-D", "-c"], ["slurmd", "-D"]):
            with (folder / f"{command[0]}.out").open("wb") as log:
                daemons.append(subprocess.Popen(command, env=environment, stdout=log, stderr=log))
            if command is munge:
                _wait_for((folder / "munge.sock").exists)
        os.environ["SLURM_CONF"] = str(configuration)
        _wait_for(lambda: ask("sinfo", "--noheader", "--format=%T") == "idle")
        yield
    finally:
        ask("scancel", "--user=root", "--signal=KILL")
        os.environ.pop("SLURM_CONF", None)
        for daemon in reversed(daemons):
            daemon.terminate()
        for daemon in daemons:
            daemon.wait()
        shutil.rmtree(folder, ignore_errors=True)


def ask(*words: str) -> str:
    """Return what one of Slurm's commands says."""
    command = [shutil.which(words[0]) or words[0], *words[1:]]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()


def _wait_for(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 120
    while not condition():
        if time.monotonic() > end:
            raise RuntimeError("Slurm does not start")
        time.sleep(0.1)
