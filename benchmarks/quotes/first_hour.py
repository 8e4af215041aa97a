"""What the tutorial and the README show of the first runs: their output, a table over seeds, and a picture."""

from __future__ import annotations

import json
from collections.abc import Sequence
from statistics import fmean

from benchmarks.quotes.records import ROOT, table
from feddecorr.report.picture import SPECTRUM, THRESHOLD, LineStyle, Panel, Picture, line_styles, mean_series
from feddecorr.results import curves
from feddecorr.results.names import name_arm
from feddecorr.results.study import Labels
from feddecorr.results.summary import Summary, read_summaries

RECORDS = ROOT / "docs" / "tutorial" / "runs.jsonl"
LABELS: dict[str, Labels] = {
    "even": {"method": "fedavg", "regularizers": "none", "partition.alpha": "inf"},
    "skewed": {"method": "fedavg", "regularizers": "none", "partition.alpha": 0.05},
    "cured": {"method": "fedavg", "regularizers": "feddecorr", "partition.alpha": 0.05},
}
ARMS = {name: name_arm(LABELS[name]) for name in ("skewed", "cured", "even")}
"""The arms as a report of them has them, and in its order: so their lines look alike."""

MEASURES = ("accuracy", "effective_rank", "significant_singular_values")
DIAGNOSIS = RECORDS.with_name("diagnosis.json")
"""What `feddecorr diagnose runs/skewed runs/even --json` printed."""


def first_runs() -> dict[str, list[Summary]]:
    """Return the recorded runs by their names in the tutorial, each with all of its seeds in order."""
    found: dict[str, list[Summary]] = {"even": [], "skewed": [], "cured": []}
    for run in sorted(read_summaries([RECORDS]), key=lambda run: run.experiment["seed"]):
        skewed = run.experiment["partition"]["alpha"] == 0.05
        found["cured" if run.experiment["regularizers"] else "skewed" if skewed else "even"].append(run)
    return found


def _last(runs: Sequence[Summary], measure: str) -> list[float]:
    return [run.rounds[-1]["model"][measure] for run in runs]


def outputs(*names: str) -> str:
    """Return what the commands of these runs print, with the digits that other processors have, too."""
    runs = first_runs()
    lines = []
    for name in names:
        accuracy, rank, count = (_last(runs[name][:1], measure)[0] for measure in MEASURES)
        said = f"accuracy {100 * accuracy:.0f} %, effective rank {rank:.0f}, significant singular values {count}"
        lines.append(f"runs/{name}: round {len(runs[name][0].rounds)}, {said}")
    return "\n".join(["```text", *lines, "```"])


def demo() -> str:
    """Return the table with which the demonstration ends, with the same digits."""
    rows = [("run", "accuracy", "effective rank", "significant singular values")]
    for name, runs in first_runs().items():
        accuracy, rank, count = (_last(runs[:1], measure)[0] for measure in MEASURES)
        rows.append((name, f"{100 * accuracy:.0f} %", f"{rank:.0f} of 512", str(count)))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return "\n".join(["```text", *lines, "```"])


def diagnosis() -> str:
    """Return the answers in words."""
    first = json.loads(DIAGNOSIS.read_text())
    lines = [line for each in (first, *first["others"]) for line in each["answer"]]
    return "\n".join(["```text", *lines, "```"])


def over_seeds() -> str:
    """Return the least and the greatest of all seeds."""
    rows = []
    for name, runs in first_runs().items():
        accuracy, rank, count = (_last(runs, measure) for measure in MEASURES)
        found = ([100 * share for share in accuracy], rank, count)
        shown = [f"{min(values):.0f} to {max(values):.0f}" for values in found]
        rows.append([f"`{name}`", str(len(runs)), *shown])
    return table(("run", "seeds", "accuracy (%)", "effective rank of 512", "significant singular values"), rows)


def gain() -> str:
    """Return how much accuracy FedDecorr brings here, in points, paired by seed."""
    runs = first_runs()
    pairs = zip(_last(runs["skewed"], "accuracy"), _last(runs["cured"], "accuracy"), strict=True)
    differences = [100 * (cured - skewed) for skewed, cured in pairs]
    return f"{fmean(differences):+.0f} points on average, from {min(differences):+.0f} to {max(differences):+.0f}"


def spectra() -> Picture:
    """Return the spectra after the last round, the mean of all seeds with a band of one standard deviation."""
    return Picture("spectra", "spectra", "", SPECTRUM, [_panel(curves.spectrum)], threshold=THRESHOLD)


def accuracy() -> Picture:
    """Return the accuracy by round."""
    return Picture("accuracy", "accuracy", "", ("round", "accuracy (%)"), [_panel(curves.per_round("accuracy", 100))])


def _panel(curve: curves.Curve) -> Panel:
    runs = first_runs()
    groups = {arm.whole: [curve(run) for run in runs[name]] for name, arm in ARMS.items()}
    return Panel("", mean_series(groups, styles()))


def styles() -> dict[str, LineStyle]:
    """Return how the lines of the runs look."""
    return line_styles({arm.whole: arm for arm in ARMS.values()})
