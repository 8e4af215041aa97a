"""Which scale of the FedDecorr loss makes beta = 0.1 do what the paper claims? Both, at several beta, on real images.

    python -m benchmarks.loss_scale [--seeds 2] [--record results/loss_scale] [key=value …]

Trains FedAvg on strongly skewed clients (Dirichlet 0.05) without the loss and with it, and compares the global
model's accuracy and spectrum, averaged over the last rounds and the seeds. `key=value` words change the
experiment. `--record` writes NAME.json with all rounds and NAME.md with the table.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from benchmarks.recording import command, write_record
from feddecorr.config.overrides import read_overrides
from feddecorr.engines.processes import keep_freed_memory
from feddecorr.runs.pipeline import run
from feddecorr.settings.flat import parse_settings

SETTINGS = [
    "data=cifar10", "data.train=4000", "data.test=1500", "clients=10", "partition=dirichlet", "partition.alpha=0.05",
    "model=convnet", "model.widths=[16,32,64,512]", "training.batch=64", "training.epochs=1", "rounds=30",
]  # fmt: skip
LAST = 5
"""Rounds averaged: under strong skew, the global model's accuracy swings from one to the next."""

Scale = tuple[str, float]
"""A normalization (or "none") and its beta."""


def runs(settings: dict[str, Any], scales: list[Scale], seeds: int) -> Iterator[dict[str, Any]]:
    """Yield the rounds of every scale and seed, one seed after another."""
    for seed in range(seeds):
        for normalization, beta in scales:
            terms = {} if normalization == "none" else {"feddecorr": {"beta": beta, "normalization": normalization}}
            experiment, options = parse_settings({**settings, "regularizers": terms, "seed": seed})
            records = [replace(record, state={}) for record in run(experiment, options)]
            spectrum = [float(f"{value:.5g}") for value in (records[-1].singular_values or [])[:100]]
            columns = ("accuracy", "effective_rank", "significant_singular_values", "terms")
            rounds = {name: [getattr(record, name) for record in records] for name in columns}
            yield {"normalization": normalization, "beta": beta, "seed": seed, **rounds, "singular_values": spectrum}


def table(found: list[dict[str, Any]], scales: list[Scale]) -> str:
    """Return the means over the last rounds and the seeds, in Markdown; after ±, the deviation between seeds."""
    lines = [
        "| normalization | beta | accuracy (%) | effective rank | singular values above e⁻² |",
        "| --- | ---: | ---: | ---: | ---: |",
    ]
    for normalization, beta in scales:
        mine = [each for each in found if (each["normalization"], each["beta"]) == (normalization, beta)]
        cells = [
            cell([100 * mean(each["accuracy"][-LAST:]) for each in mine]),
            cell([mean(each["effective_rank"][-LAST:]) for each in mine]),
            cell([mean(each["significant_singular_values"][-LAST:]) for each in mine]),
        ]
        lines.append(f"| {normalization} | {f'{beta:g}' if beta else ''} | {' | '.join(cells)} |")
    return "\n".join(lines)


def cell(values: list[float]) -> str:
    """Return a mean over seeds, after ± the deviation between them."""
    return f"{mean(values):.1f} ± {stdev(values):.1f}" if len(values) > 1 else f"{mean(values):.1f}"


def main() -> None:
    """Run, print, and record if asked to."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("words", nargs="*", metavar="key=value", help="settings of the experiment")
    parser.add_argument("--paper", nargs="*", type=float, default=[0.1, 1, 6.2], help="beta of the paper's formula")
    parser.add_argument("--released", nargs="*", type=float, default=[0.01, 0.1, 0.3, 1], help="beta of the code's")
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--record", type=Path, help="NAME of the files NAME.json and NAME.md")
    arguments = parser.parse_intermixed_args()
    keep_freed_memory()
    settings = read_overrides([*SETTINGS, *arguments.words])
    # In full batches of 64, `paper` with beta = 6.2 is `released` with beta = 0.1: only the scale differs.
    scales = [("none", 0.0), *(("paper", beta) for beta in arguments.paper)]
    scales += [("released", beta) for beta in arguments.released]
    found: list[dict[str, Any]] = []
    for each in runs(settings, scales, arguments.seeds):
        found.append(each)
        result = f"accuracy {each['accuracy'][-1]:.3f}, effective rank {each['effective_rank'][-1]:.1f}"
        print(f"{each['normalization']} {each['beta']:g}, seed {each['seed']}: {result}", flush=True)
    print(table(found, scales))
    if arguments.record:
        means = f"Means of the last {LAST} rounds over {arguments.seeds} seeds, ± the deviation between seeds."
        write_record(arguments.record.with_suffix(".json"), {"settings": settings, "runs": found})
        arguments.record.with_suffix(".md").write_text(
            f"# {arguments.record.name}\n\n    {command()}\n\n{means}\n\n{table(found, scales)}\n"
        )


if __name__ == "__main__":
    main()
