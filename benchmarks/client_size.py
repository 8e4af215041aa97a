"""What a client takes of its host and of the network: memory while it trains, and bytes of a round, for three networks.

    python -m benchmarks.client_size [--record results/client_size.json]

Each network trains two steps of one client in a process of its own, on images of 32×32 in batches of 64. Its memory is
the most that the process ever had, and of that `before` is what it has with everything loaded and nothing trained.
Bytes are those of a broadcast and of an update. docs/scale.md says what follows.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from benchmarks.recording import write_record
from feddecorr.config.overrides import read_overrides
from feddecorr.core.messages import to_bytes
from feddecorr.engines.processes import context
from feddecorr.runs.pipeline import simulate
from feddecorr.settings.flat import parse_settings
from feddecorr.sweeps.status import peak_memory
from feddecorr.training.client import Client

NETWORKS = ("convnet", "mobilenetv2", "resnet18")
WORDS = [
    "data=synthetic", "data.train=640", "data.test=64", "data.size=32", "clients=2", "training.steps=2",
    "training.batch=64",
]  # fmt: skip


def measure(network: str, words: list[str]) -> dict[str, Any]:
    """Return what a client with that network takes."""
    ours, theirs = context().Pipe()
    process = context().Process(target=_train, args=(theirs, [*WORDS, *words, f"model={network}"]))
    process.start()
    found: dict[str, Any] = ours.recv()
    process.join()
    return found


def _train(connection: Connection, words: list[str]) -> None:
    experiment, options = parse_settings(read_overrides(words))
    simulation = simulate(experiment, options)
    start = simulation.federation.start()
    before = peak_memory()
    broadcast = replace(experiment.method.broadcast(1, start), round=1)
    update, _ = Client(simulation.task)(broadcast, simulation.shards[0], {})
    connection.send(
        {
            "parameters": sum(tensor.numel() for tensor in start.weights.values()),
            "megabytes down": round(len(to_bytes(broadcast)) / 1e6, 3),
            "megabytes up": round(len(to_bytes(update)) / 1e6, 3),
            "megabytes before": round(before / 1e6),
            "megabytes of memory": round(peak_memory() / 1e6),
        }
    )


def main() -> None:
    """Measure, print and record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("words", nargs="*", metavar="KEY=VALUE", help="settings of all three")
    parser.add_argument("--record", type=Path, help="JSON file to write")
    chosen = parser.parse_intermixed_args()
    found = {network: measure(network, chosen.words) for network in NETWORKS}
    for network, sizes in found.items():
        print(f"{network}: {', '.join(f'{name} {value}' for name, value in sizes.items())}")
    if chosen.record:
        write_record(chosen.record, {"settings": [*WORDS, *chosen.words], "networks": found})


if __name__ == "__main__":
    main()
