"""Speed and memory of the engines, as ratios to a bare PyTorch loop measured in the same run.

    python -m benchmarks.speed [--turns 10] [--record results/speed.json]

The contestants are processes that live side by side and take turns, a round each, while the others sleep; the best
turn of each counts, after one to warm up. The bare loop does the same local steps, each client from the global
weights and without momentum of the client before, and nothing else, not even the average: one thread, tensors
normalized in memory beforehand, channels-last, torch.optim.SGD(fused=True), its fastest.
"""

from __future__ import annotations

import argparse
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
from benchmarks.turns import Contestant, contest, take_part
from feddecorr.config.overrides import read_overrides
from feddecorr.runs.pipeline import run
from feddecorr.server.federation import Simulation
from feddecorr.server.rounds import sample_clients
from feddecorr.settings.flat import parse_settings

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


def bare(words: list[str]) -> Iterator[int]:
    """Train the same clients' batches in a bare loop; yield the number of images after each round."""
    torch.set_num_threads(1)
    experiment, options = parse_settings(read_overrides(words))
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
    for number in range(1, options.rounds + 1):
        count = 0
        for client in sample_clients(simulation.federation, number):
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
    experiment, options = parse_settings(read_overrides(words))
    sizes = Simulation(experiment).shards.sizes
    for record in run(experiment, options):
        yield int(sum(sizes[client] for client in record.clients))


def measure(words: list[str], turns: int) -> tuple[dict[str, list[float]], dict[str, float]]:
    """Return the images per second of every turn of all contestants, and the pool's peak memory in MB."""
    rounds = f"rounds={turns + 2}"  # of which the last, which is evaluated, is never done
    contestants = {
        name: Contestant("benchmarks.speed", [name, *words, rounds, *MODEL, *settings])
        for name, settings in CONTESTANTS.items()
    }
    peak = {"rss": 0.0, "pss": 0.0}
    (process,) = contestants["pool"].processes
    threading.Thread(target=watch_memory, args=(process.pid, peak), daemon=True).start()
    return {name: [turn.speed for turn in done] for name, done in contest(contestants, turns).items()}, peak


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


def main() -> None:
    """Measure, print, and record if asked to."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=10)
    parser.add_argument("--record", type=Path)
    parser.add_argument("--one", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        contestant, *words = arguments.one
        take_part(bare(words) if contestant == "bare" else ours(words))
        return
    found: dict[str, Any] = {"turns": arguments.turns}
    for title, words in SETTINGS.items():
        measured, memory = measure(words, arguments.turns)
        best = {name: max(values) for name, values in measured.items()}
        ratios = {name: best[name] / best["bare"] for name in ("serial", "pool")}
        typical = {name: median(measured[name]) / median(measured["bare"]) for name in ("serial", "pool")}
        found[title] = {
            "images per second": measured,
            "ratio to bare": ratios,
            "ratio of medians": typical,
            "pool's peak memory in MB": memory,
        }
        print(f"{title}\n  images per second: " + ", ".join(f"{name} {speed:.0f}" for name, speed in best.items()))
        print(f"  ratio to the bare loop: serial {ratios['serial']:.3f}, pool of 2 {ratios['pool']:.3f}")
        print(f"  ratio of medians: serial {typical['serial']:.3f}, pool of 2 {typical['pool']:.3f}")
        print(f"  pool's peak memory: {memory['rss']:.0f} MB resident, {memory['pss']:.0f} MB with shared pages once")
    if arguments.record:
        write_record(arguments.record, found)


if __name__ == "__main__":
    main()
