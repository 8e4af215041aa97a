"""What was reached: by the scales of the loss, and by the methods."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from statistics import mean

from benchmarks.loss_scale import LAST, cell
from benchmarks.quotes.records import record, table


def loss_scale() -> str:
    """Return ranks and accuracies on both data sets, of those scales that the page speaks of."""
    head = ("", "CIFAR-10: effective rank", "accuracy (%)", "digits: effective rank", "accuracy (%)")
    scales = [("none", 0.0), ("paper", 0.1), ("paper", 6.2), ("released", 0.01), ("released", 0.1), ("released", 1.0)]
    records = [record(f"results/{name}.json")["runs"] for name in ("loss_scale", "loss_scale_digits")]
    rows = []
    for scale in scales:
        row = ["without" if scale[0] == "none" else f"`{scale[0]}`, {scale[1]:g}"]
        for runs in records:
            mine = [run for run in runs if (run["normalization"], run["beta"]) == scale]
            row.append(cell([mean(run["effective_rank"][-LAST:]) for run in mine]))
            row.append(cell([100 * mean(run["accuracy"][-LAST:]) for run in mine]))
        rows.append(row)
    return table(head, rows)


def _ends() -> dict[str, dict[int, Mapping[str, float]]]:
    """Return each contestant's mean accuracies of the last rounds in percent, by seed."""
    found: dict[str, dict[int, Mapping[str, float]]] = {}
    for command, curves in record("results/methods_accuracy.json")["accuracy after each round"].items():
        _, _, *settings = command.split()
        words = dict(setting.split("=", 1) for setting in settings)
        seed, _ = int(words.pop("seed")), words.pop("rounds")
        name = ",".join([words.pop("method"), *(f"{key.removeprefix('method.')}={words[key]}" for key in words)])
        found.setdefault(name, {})[seed] = {curve: 100 * mean(values[-LAST:]) for curve, values in curves.items()}
    return found


def methods_accuracy() -> str:
    """Return what every method reaches, by seed."""
    ends = _ends()
    seeds = sorted(next(iter(ends.values())))
    rows = []
    for name, by_seed in ends.items():
        two = ", ".join(f"{by_seed[seed]['mean of last two models']:.1f}" for seed in seeds)
        rows.append([name, *(f"{by_seed[seed]['last model']:.1f}" for seed in seeds), two])
    return table(("method", *(f"seed {seed}" for seed in seeds), "mean of the last two models, by seed"), rows)


def accuracies(name: str) -> Callable[[], str]:
    """Return what writes a contestant's accuracies in a sentence."""

    def write() -> str:
        by_seed = _ends()[name]
        return ", ".join(f"{by_seed[seed]['last model']:.1f}" for seed in sorted(by_seed)) + " %"

    return write
