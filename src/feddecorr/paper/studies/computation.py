"""What a round takes."""

from __future__ import annotations

from statistics import fmean

from feddecorr.paper.grid import Grid, Seen
from feddecorr.paper.studies.accuracy import ALL_DATA, BOTH, decorrelates_fedavg_alone
from feddecorr.paper.values import named, published
from feddecorr.results.cells import NOT_MEASURED, Cell
from feddecorr.results.sample import Sample
from feddecorr.results.study import Finding, Labels, Table


def seconds(cell: Cell) -> Sample:
    """Return the mean time of a round by seed, without the first, which also starts everything."""
    return Sample(
        {
            seed: fmean(line["seconds"] for line in run.rounds[1:] or run.rounds)
            for seed, run in cell.runs.items()
            if run.rounds
        }
    )


def ratio_to(base: Sample, cell: Cell) -> Sample:
    """Return the times of a cell's rounds in units of others', seed by seed."""
    mine = seconds(cell)
    both = mine.values.keys() & base.values.keys()
    return Sample({seed: mine.values[seed] / base.values[seed] for seed in sorted(both)})


def tabulate(seen: Seen) -> list[Finding]:
    """Make a table of times and of ratios to FedAvg, with the paper's ratios."""
    plain = {cell.labels["data"]: seconds(cell) for cell in seen.cells if _is_plain(cell.labels)}
    rows = []
    for cell in seen.cells:
        cells = [cell.text(seconds(cell)), cell.text(ratio_to(plain[cell.labels["data"]], cell), 3)]
        rows.append([*map(str, cell.labels.values()), cell.count, *cells, _published_ratio(seen, cell.labels)])
    headings = [*(seen.cells[0].labels if seen.cells else ()), "seeds", "seconds a round", "ratio to FedAvg", "paper"]
    note = (
        "Time on the clock with evaluation, as the runs took it, perhaps beside others on the same machine; "
        f"'python -m benchmarks.methods_cost' measures more finely. {seen.note}"
    )
    return [Table("Time of a round", headings, rows, note)]


def _is_plain(labels: Labels) -> bool:
    return labels["method"] == "fedavg" and labels["regularizer"] == "none"


def _published_ratio(seen: Seen, labels: Labels) -> str:
    plain = published("computation", {**labels, "method": "fedavg", "regularizer": "none"}, seen.paper_data)
    base = {value.labels["data"]: value.mean for value in plain}
    found = published("computation", labels, seen.paper_data)
    texts = [named(f"{value.mean / base[value.labels['data']]:.2f}", value, labels) for value in found]
    return ", ".join(texts) or NOT_MEASURED


COMPUTATION = Grid(
    name="computation",
    shows="time of a round of FedAvg, FedProx, MOON and FedDecorr",
    place="table 5",
    axes={"data": ALL_DATA, "method": ("fedavg", "fedprox", "moon"), "regularizer": BOTH, "alpha": (0.5,)},
    makes=(tabulate,),
    wants=decorrelates_fedavg_alone,
)
"""The same runs as in the main tables, so nothing is run for this alone."""
