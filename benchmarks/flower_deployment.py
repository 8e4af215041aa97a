"""What a round of a deployed federation takes, and where it goes: two nodes on the loopback, LeNet on digits.

    python -m benchmarks.flower_deployment [--rounds 4] [--record results/flower_deployment.json]

Flower starts a process for every message. `cold` is an app whose process loads PyTorch itself, `warm` is ours, which
hands the message on to a process of the node that has it loaded. Both run on nodes that look for work every second,
which is Flower's default, and ten times a second. Seconds are those of the quickest round but the first; what imports
take is the processor's time.
"""

from __future__ import annotations

import argparse
import os
import resource
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from flwr.app import Context, Message
from flwr.clientapp import ClientApp

from benchmarks.recording import write_record
from feddecorr.flower.client_app import MAX_BYTES
from feddecorr.flower.payload import pack, to_arrays, unpack
from feddecorr.runs.directory import RunDirectory

PROGRAMS = Path(sys.executable).parent
WORDS = ["data=digits", "clients=2", "model=lenet", "regularizers=feddecorr", "training.epochs=1"]
IMPORTS = {"Flower": "flwr.clientapp", "PyTorch": "torch", "all that trains": "feddecorr.flower.node"}
APPS = {"cold": "benchmarks.flower_deployment:cold", "warm": "feddecorr.flower.client_app:app"}

cold = ClientApp()


@cold.query()
def query(message: Message, context: Context) -> Message:
    """Answer in this process."""
    return _answer("query", message, context)


@cold.train()
def train(message: Message, context: Context) -> Message:
    """Answer in this process."""
    return _answer("train", message, context)


def _answer(question: str, message: Message, context: Context) -> Message:
    from feddecorr.flower.node import handle  # noqa: PLC0415 - that is what is measured

    kind, content = handle(question, unpack(message.content, MAX_BYTES), context.node_config)
    return Message(pack(to_arrays(content), {"kind": kind}), reply_to=message)


def import_seconds(module: str) -> float:
    """Return the processor's seconds that a new process needs to import a module."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", f"import {module}"], check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return round(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, 2)


def free_port() -> int:
    """Return a port that nobody uses."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


@contextmanager
def federation(folder: Path, poll: float) -> Iterator[dict[str, str]]:
    """Start a SuperLink and two nodes; give the environment for commands."""
    port = free_port()
    environment = {
        **os.environ,
        "PATH": os.pathsep.join([str(PROGRAMS), os.environ.get("PATH", "")]),
        "PYTHONPATH": str(Path(__file__).parents[1]),
        "FLWR_HOME": str(folder / "flwr"),
        "FLWR_TELEMETRY_ENABLED": "0",
        "FLWR_DISABLE_UPDATE_CHECK": "1",
        "FLWR_SUPEREXEC_TASK_POLL_INTERVAL": str(poll),
    }
    (folder / "flwr").mkdir()
    config = f'[superlink]\ndefault = "lab"\n\n[superlink.lab]\naddress = "127.0.0.1:{port}"\ninsecure = true\n'
    (folder / "flwr" / "config.toml").write_text(config)
    link = ["flower-superlink", "--insecure", "--port", str(port), "--disable-runtime-dependency-installation"]
    node = ["flower-supernode", "--insecure", "--superlink", f"127.0.0.1:{port}"]
    own = (["--node-config", f"client={client} memory='{folder}/memory'"] for client in range(2))
    nodes = [[*node, "--port", str(free_port()), *words] for words in own]
    with ExitStack() as stack, (folder / "log.txt").open("wb") as log:
        for command in (link, *nodes):
            started = subprocess.Popen(
                [PROGRAMS / command[0], *command[1:]], env=environment, cwd=folder, stdout=log, stderr=log
            )
            stack.callback(started.wait)
            stack.callback(started.terminate)
            while command is link and not _answers(port):
                time.sleep(0.1)
        yield environment


def _answers(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/health") as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def round_seconds(folder: Path, environment: dict[str, str], name: str, rounds: int) -> float:
    """Run an app, and return the seconds of its quickest round but the first."""
    command, app, out = [sys.executable, "-m", "feddecorr", "flower"], folder / name, folder / f"run-{name}"
    options = ["--out", str(out), "--test", "digits"]
    words = [*WORDS, f"rounds={rounds}", "evaluation.every=1000"]
    subprocess.run([*command, "app", str(app), *words, *options], check=True, env=environment, capture_output=True)
    file = app / "pyproject.toml"
    file.write_text(file.read_text().replace(APPS["warm"], APPS[name]))
    subprocess.run([*command, "run", str(app), "lab"], check=True, env=environment, cwd=folder, capture_output=True)
    return round(min(record.seconds for record in RunDirectory.open(out).rounds()[1:]), 2)


def main() -> None:
    """Measure, print and record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=4, help="of each run; at least 2")
    parser.add_argument("--record", type=Path, help="JSON file to write")
    chosen = parser.parse_args()
    load = round(os.getloadavg()[0], 1)
    imports = {name: import_seconds(module) for name, module in IMPORTS.items()}
    print("imports: " + ", ".join(f"{name} {seconds} s" for name, seconds in imports.items()))
    found: dict[str, dict[str, float]] = {}
    for poll in (1.0, 0.1):
        with tempfile.TemporaryDirectory() as folder, federation(Path(folder), poll) as environment:
            row = {name: round_seconds(Path(folder), environment, name, chosen.rounds) for name in APPS}
        found[f"nodes look every {poll:g} s"] = row
        print(f"nodes look every {poll:g} s: " + ", ".join(f"{name} {seconds} s" for name, seconds in row.items()))
    if chosen.record:
        write_record(chosen.record, {"load average before": load, "imports": imports, "seconds of a round": found})


if __name__ == "__main__":
    main()
