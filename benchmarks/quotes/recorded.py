"""The table of all recorded comparisons."""

from __future__ import annotations

from benchmarks.quotes.records import ROOT, table
from feddecorr.core.text import markdown
from feddecorr.results.checklist import ChecklistRow, checklist_of_runs
from feddecorr.results.sample import Sample
from feddecorr.results.summary import read_summaries

FILES = sorted([*ROOT.glob("results/*.jsonl"), *ROOT.glob("results/contributed/*.jsonl")])


def comparisons() -> str:
    """Return a row for each arm with a regularizer that is paired, by file."""
    rows = []
    for file in FILES:
        name = file.relative_to(ROOT / "results").as_posix()
        found = checklist_of_runs(read_summaries([file]))
        paired = [row for row in found if row.base and row.differences["last"].values]
        rows += [[f"[{name}](../results/{name})", *_cells(row)] for row in paired]
    return table(["file", "what", "seeds", "accuracy (%)", "gain", "effective rank"], rows, words=2)


def _cells(row: ChecklistRow) -> list[str]:
    gain = row.differences["last"].times(100)
    interval = f" [{gain.low:+.1f}, {gain.high:+.1f}]" if len(gain) > 1 else ""
    accuracy = _change(row.samples["last"].times(100), gain)
    rank = _change(row.samples["effective_rank"], row.differences["effective_rank"])
    return [markdown(row.cell.name()), str(len(gain)), accuracy, f"{gain.mean:+.1f}{interval}", rank]


def _change(after: Sample, difference: Sample) -> str:
    """Return the means before and after, over the seeds that both arms have."""
    if not difference.values:
        return "–"
    mean = Sample({seed: after.values[seed] for seed in difference.values}).mean
    return f"{mean - difference.mean:.1f} → {mean:.1f}"
