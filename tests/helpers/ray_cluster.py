"""A cluster of Ray on this machine, `python ray_cluster.py`: it prints its addresses, and obeys lines.

`kill` ends its second node as a power cut would, `add` gives it one with older vectors, `drop` ends that one, and any
other line nothing; the answer is how many cores no task has.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import tempfile
from pathlib import Path

import psutil


def say(answer: object) -> None:
    """Print an answer, marked among what Ray prints."""
    sys.stdout.write(f"answer {answer}\n")
    sys.stdout.flush()


def main() -> None:
    """Serve until the standard input is closed."""
    folder = tempfile.mkdtemp(prefix="r")  # short, for Ray's sockets
    os.environ |= {
        "RAY_AUTH_MODE": "token",
        "RAY_TMPDIR": folder,
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
        "RAY_worker_niceness": "0",  # others may have the processors
    }
    import ray  # noqa: PLC0415 - after its environment
    from ray.cluster_utils import Cluster  # noqa: PLC0415

    cluster = Cluster(
        initialize_head=True,
        head_node_args={"num_cpus": 1, "include_dashboard": False},
    )
    second = cluster.add_node(num_cpus=1)
    ray.init(address=cluster.address, log_to_driver=False)
    say(cluster.address)
    for line in sys.stdin:
        if line == "kill\n":
            cluster.remove_node(second, allow_graceful=False)  # type: ignore[no-untyped-call]
        elif line == "add\n":
            other = cluster.add_node(num_cpus=1, env_vars={"ATEN_CPU_CAPABILITY": "default"})
        elif line == "drop\n":
            cluster.remove_node(other, allow_graceful=False)  # type: ignore[no-untyped-call]
        free: dict[str, float] = ray.available_resources()  # type: ignore[no-untyped-call]
        say(free.get("CPU", 0.0))
    for process in psutil.Process().children(recursive=True):
        process.send_signal(signal.SIGKILL)
    shutil.rmtree(Path(folder), ignore_errors=True)
    os._exit(0)  # Ray would wait for what was just killed


if __name__ == "__main__":
    main()
