"""Speed, memory and start-up of the engines, as ratios to a bare PyTorch loop measured in the same run.

    python -m benchmarks.speed [--turns 10] [--record results/speed.json]

The contestants are processes that live side by side and take turns, a round each, while the others sleep; the best
turn of each counts, after one to warm up. The bare loop does the same local steps, each client from the global
weights and without momentum of the client before, and nothing else, not even the average: one thread, tensors
normalized in memory beforehand, channels-last, torch.optim.SGD(fused=True), its fastest.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

import psutil
import torch
from torch.nn.functional import cross_entropy

from benchmarks.recording import write_record
from feddecorr.federation import Simulation
from feddecorr.rounds import draw_clients
from feddecorr.runs.pipeline import run
from feddecorr.settings.experiment import Experiment
from feddecorr.settings.words import read_words

SETTINGS: dict[str, list[str]] = {
    "10 clients, Dirichlet 0.5, 10 000 images, batch 64": [
        "data=synthetic", "data.train=10000", "data.test=500", "clients=10", "partition=dirichlet",
        "partition.alpha=0.5", "training.batch=64", "training.epochs=1",
    ],
    "1000 clients x 50 images, cohort 50, batch 10": [
        "data=synthetic", "data.train=50000", "data.test=500", "clients=1000", "partition=homogeneous",
        "participation=0.05", "training.batch=10", "training.epochs=1",
    ],
}  # fmt: skip
MODEL = ["model=convnet", "model.widths=[32,64,128,512]", "evaluation.every=1000"]
CONTESTANTS: dict[str, list[str]] = {
    "bare": [],
    "serial": ["engine=serial"],
    "pool": ["engine=pool", "engine.workers=2"],
}
REPEATS = 5
"""Starts of which the fastest counts."""


def bare(words: list[str]) -> Iterator[int]:
    """Train the same clients' batches in a bare loop; yield the number of images after each round."""
    torch.set_num_threads(1)
    experiment = Experiment.parse(read_words(words))
    simulation = Simulation(experiment)
    images = simulation.dataset.normalize(simulation.dataset.train.pixels).contiguous(memory_format=torch.channels_last)
    labels = simulation.dataset.train.labels
    model = simulation.task.build_model().train()
    training = experiment.training
    optimizer = torch.optim.SGD(
        model.parameters(),
        lr=training.lr,
        momentum=training.momentum,
        weight_decay=training.weight_decay,
        fused=True,
    )
    parameters: list[torch.Tensor] = list(model.parameters())
    sent = [parameter.detach().clone() for parameter in parameters]
    parts = [torch.from_numpy(part) for part in simulation.shards.parts]
    for number in range(1, experiment.rounds + 1):
        count = 0
        for client in draw_clients(simulation.federation, number):
            with torch.no_grad():
                torch._foreach_copy_(parameters, sent)
            optimizer.state.clear()
            indices = parts[client]
            for batch in indices[torch.randperm(len(indices))].split(training.batch):
                optimizer.zero_grad()
                cross_entropy(model(images[batch]), labels[batch]).backward()
                optimizer.step()
                count += len(batch)
        yield count


def ours(words: list[str]) -> Iterator[int]:
    """Run the experiment; yield the number of images after each round."""
    experiment = Experiment.parse(read_words(words))
    sizes = Simulation(experiment).shards.sizes
    for record in run(experiment):
        yield int(sum(sizes[client] for client in record.clients))


def take_part(contestant: str, words: list[str]) -> None:
    """Do a round for every line on standard input, and print the images per second of it."""
    rounds = bare(words) if contestant == "bare" else ours(words)
    for _ in sys.stdin:
        started = time.perf_counter()
        images = next(rounds)
        print(images / (time.perf_counter() - started), flush=True)


class Contestant:
    """A process that does a round when it is asked to."""

    def __init__(self, name: str, words: list[str]) -> None:
        command = [sys.executable, "-m", "benchmarks.speed", "--one", name, *words, *MODEL, *CONTESTANTS[name]]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def turn(self) -> float:
        """Return the images per second of one more round."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        print(file=self.process.stdin, flush=True)
        return float(self.process.stdout.readline())

    def end(self) -> None:
        """Let it go."""
        self.process.communicate()


def contest(words: list[str], turns: int) -> tuple[dict[str, list[float]], dict[str, float]]:
    """Return the images per second of every turn of all contestants, and the pool's peak memory in MB."""
    contestants = {name: Contestant(name, [*words, f"rounds={turns + 2}"]) for name in CONTESTANTS}
    speeds: dict[str, list[float]] = {name: [] for name in CONTESTANTS}
    peak = {"rss": 0.0, "pss": 0.0}
    threading.Thread(target=watch_memory, args=(contestants["pool"].process.pid, peak), daemon=True).start()
    for turn in range(turns + 1):  # of the rounds, the last, which is evaluated, is never done
        now = {name: contestant.turn() for name, contestant in contestants.items()}
        print(f"turn {turn} of {turns}:", *(f"{name} {speed:.0f}" for name, speed in now.items()), file=sys.stderr)
        if turn:  # the one before is to warm up
            for name, speed in now.items():
                speeds[name].append(speed)
    for contestant in contestants.values():
        contestant.end()
    return speeds, peak


def watch_memory(pid: int, peak: dict[str, float]) -> None:
    """Keep the peak of all processes together: resident memory, and with shared pages counted once."""
    try:
        process = psutil.Process(pid)
        while process.is_running():
            infos = []
            for each in (process, *process.children(recursive=True)):
                try:
                    infos.append(each.memory_full_info())
                except psutil.Error:
                    continue
            peak["rss"] = max(peak["rss"], sum(info.rss for info in infos) / 1e6)
            peak["pss"] = max(peak["pss"], sum(info.pss for info in infos) / 1e6)
            time.sleep(1.0)  # to look at shared pages disturbs those who use them
    except psutil.Error:
        return


def start_up(repeats: int) -> dict[str, float]:
    """Return the time of a whole command of one tiny round, over that of `import torch`."""
    tiny = ["data=digits", "model=mlp", "training.epochs=1", "rounds=1"]
    best: dict[str, float] = {}
    for _ in range(repeats):
        for name in ("import torch", "serial", "pool"):
            with tempfile.TemporaryDirectory() as folder:
                command = ["-m", "feddecorr", "run", *tiny, f"engine={name}", "--out", f"{folder}/run"]
                if name == "import torch":
                    command = ["-c", "import torch"]
                started = time.perf_counter()
                subprocess.run([sys.executable, *command], check=True, capture_output=True)
                best[name] = min(best.get(name, float("inf")), time.perf_counter() - started)
    return {name: best[name] / best["import torch"] for name in ("serial", "pool")}


def main() -> None:
    """Measure, print, and record if asked to."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=10)
    parser.add_argument("--record", type=Path)
    parser.add_argument("--one", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        contestant, *words = arguments.one
        take_part(contestant, words)
        return
    found: dict[str, Any] = {"turns": arguments.turns}
    for title, words in SETTINGS.items():
        speeds, memory = contest(words, arguments.turns)
        best = {name: max(values) for name, values in speeds.items()}
        ratios = {name: best[name] / best["bare"] for name in ("serial", "pool")}
        typical = {name: median(speeds[name]) / median(speeds["bare"]) for name in ("serial", "pool")}
        found[title] = {
            "images per second": speeds,
            "ratio to bare": ratios,
            "ratio of medians": typical,
            "pool's peak memory in MB": memory,
        }
        print(f"{title}\n  images per second: " + ", ".join(f"{name} {speed:.0f}" for name, speed in best.items()))
        print(f"  ratio to the bare loop: serial {ratios['serial']:.3f}, pool of 2 {ratios['pool']:.3f}")
        print(f"  ratio of medians: serial {typical['serial']:.3f}, pool of 2 {typical['pool']:.3f}")
        print(f"  pool's peak memory: {memory['rss']:.0f} MB resident, {memory['pss']:.0f} MB with shared pages once")
    found["start-up over import torch"] = started = start_up(REPEATS)
    print("a whole command of one tiny round over `import torch`: ", end="")
    print(", ".join(f"{name} {ratio:.2f}" for name, ratio in started.items()))
    if arguments.record:
        write_record(arguments.record, found)


if __name__ == "__main__":
    main()
