"""The cost of a round, and a comparison of all methods and heads, each without and with FedDecorr."""

from __future__ import annotations

from dataclasses import replace

from feddecorr.methods import METHODS
from feddecorr.paper.figures import figure
from feddecorr.paper.grid import STANDARDIZED, Grid, GridResults, vary
from feddecorr.paper.studies.accuracy import ALL_DATA, BOTH, decorrelates_fedavg_alone
from feddecorr.paper.tables import Columns, gains, measured, tabulate
from feddecorr.paper.values import named, published
from feddecorr.report.picture import Series, line_styles
from feddecorr.results.checklist import checklist, tables
from feddecorr.results.curves import local_ranks, seconds_per_round
from feddecorr.results.groups import NOT_MEASURED, Cell, sample_runs, split_by
from feddecorr.results.sample import Sample
from feddecorr.results.study import Finding, Labels
from feddecorr.results.summary import STATISTICS


def seconds(cell: Cell) -> Sample:
    """Return the mean time of a round by seed."""
    return sample_runs(cell.runs, seconds_per_round)


def ratio_to(base: Sample, cell: Cell) -> Sample:
    """Return the times of a cell's rounds in units of others', seed by seed."""
    mine = seconds(cell)
    both = mine.values.keys() & base.values.keys()
    return Sample({seed: mine.values[seed] / base.values[seed] for seed in sorted(both)})


def round_times(results: GridResults) -> list[Finding]:
    """Make a table of times and of ratios to FedAvg, with the paper's ratios."""
    plain = {cell.labels["data"]: seconds(cell) for cell in results.cells if _is_fedavg(cell.labels)}
    columns: Columns = {
        "seconds a round": lambda cell: cell.text(seconds(cell)),
        "ratio to FedAvg": lambda cell: cell.text(ratio_to(plain[cell.labels["data"]], cell), 3),
        "paper": lambda cell: _published_ratio(results, cell.labels),
    }
    note = (
        "Wall-clock time with evaluation, perhaps with other runs on the same machine; "
        f"'python -m benchmarks.methods_cost' measures more finely. {results.note}"
    )
    return [tabulate("Time of a round", results.cells, columns, note)]


def _is_fedavg(labels: Labels) -> bool:
    return labels["method"] == "fedavg" and labels["regularizer"] == "none"


def _published_ratio(results: GridResults, labels: Labels) -> str:
    plain = published("computation", {**labels, "method": "fedavg", "regularizer": "none"}, results.paper_data)
    base = {value.labels["data"]: value.mean for value in plain}
    found = published("computation", labels, results.paper_data)
    texts = [named(f"{value.mean / base[value.labels['data']]:.2f}", value, labels) for value in found]
    return ", ".join(texts) or NOT_MEASURED


COMPUTATION = Grid(
    name="computation",
    shows="time of a round of FedAvg, FedProx, MOON and FedDecorr",
    place="table 5",
    axes=vary(*ALL_DATA, method=("fedavg", "fedprox", "moon"), regularizer=BOTH, alpha=(0.5,)),
    makes=(round_times,),
    wants=decorrelates_fedavg_alone,
)
"""The same runs as in the main tables, so nothing is run for this alone."""


NEURAL_COLLAPSE = {
    "NC1": "nc1_variability",
    "NC2 norms": "nc2_norm_variation",
    "NC2 angles": "nc2_cosine_gap",
    "NC3": "nc3_duality_gap",
    "NC4": "nc4_disagreement",
}
ALPHAS = (0.1, 0.3, 0.6)
"""Those of tables since 2024."""

HEADS = ("linear", "normalized", "layer_norm", "etf", "prototypes")
OWN_HEADS = {"feddr": "etf"} | {
    name: method.requires["model.head"] for name, method in METHODS.table.items() if "model.head" in method.requires
}
"""Methods whose paper has another head than a linear one."""


def belong_together(labels: Labels) -> bool:
    """Return whether to run it: all heads with FedAvg, and every other method with the head of its paper."""
    return labels["method"] == "fedavg" or labels["head"] == OWN_HEADS.get(str(labels["method"]), "linear")


def side_by_side(results: GridResults) -> list[Finding]:
    """Make one table of accuracy, ranks, neural collapse and time for every method."""
    plain = {cell.labels["data"]: seconds(cell) for cell in results.cells if _is_plain(cell.labels)}
    columns: Columns = {
        **{f"accuracy (%), {text}": measured(name, factor=100) for name, text in STATISTICS.items()},
        "effective rank": measured("last", "effective_rank", 1),
        "of local models": lambda cell: cell.text(local_ranks(cell), 1),
        **{name: measured("last", measure, 3) for name, measure in NEURAL_COLLAPSE.items()},
        "time of a round": lambda cell: cell.text(ratio_to(plain[cell.labels["data"]], cell)),
    }
    note = (
        "Ranks and NC1 to NC4 are of the last round, on the test images (docs/diagnosis.md defines them); local models "
        "before they were averaged, mean over clients. Wall-clock time relative to FedAvg, with evaluation, perhaps "
        "with other runs on the same machine: 'python -m benchmarks.methods_cost' measures more finely. Methods have "
        f"the paper's options, if it names any, else their defaults; FedDr+ has the head of its paper. {results.note}"
    )
    return [tabulate("All rivals", results.cells, columns, note)]


ARM = ("method", "head", "filters")
"""What distinguishes the points of a figure."""


def rank_and_accuracy(results: GridResults) -> list[Finding]:
    """Make figures with a point for each rival, to see whether methods that use more dimensions classify better."""
    found: list[Finding] = []
    for title, cells in split_by(results.cells, ("data", "alpha", "regularizer")):
        axes = [axis for axis in ARM if axis in cells[0].labels]
        arms = {cell.name(axes): cell.named(axes) for cell in cells}
        look = line_styles(arms)
        points = dict(zip(arms, map(_point, cells), strict=True))
        known = [Series([point[0]], [point[1]], look[name][0], name=name) for name, point in points.items() if point]
        absent = [name for name, point in points.items() if not point]
        note = f"Missing, or with too few rounds: {', '.join(absent)}." if absent else "Means over seeds."
        across = ("effective rank of the global model", "accuracy (%), mean of the last ten")
        found.append(figure(f"Rank and accuracy: {title}", across, known, note))
    return found


def _point(cell: Cell) -> tuple[float, float] | None:
    rank, right = cell.sample("last", "effective_rank"), cell.sample("last_ten")
    return (rank.mean, 100 * right.mean) if rank.values and right.values else None


def _is_plain(labels: Labels) -> bool:
    return (labels["method"], labels["head"], labels["regularizer"]) == ("fedavg", "linear", "none")


RIVALS = Grid(
    name="rivals",
    shows="all methods and heads without and with FedDecorr: accuracy, ranks, neural collapse, time",
    place="beyond the paper",
    settings="evaluation.clients=last",
    axes=vary("cifar10", method=tuple(METHODS.table), head=HEADS, regularizer=BOTH, alpha=(0.1,)),
    makes=(side_by_side, gains(), rank_and_accuracy),
    wants=belong_together,
)
"""What the field after the paper proposes, on the same splits and seeds."""


def one_alpha_but_for_fedavg(labels: Labels) -> bool:
    """Return whether to run it: FedAvg at every alpha, other methods at the smallest."""
    return labels["method"] == "fedavg" or labels["alpha"] == min(ALPHAS) or labels["alpha"] not in ALPHAS


def reviewers_tables(results: GridResults) -> list[Finding]:
    """Make the tables of the checklist, with the paired differences that FedDecorr makes."""
    rows = checklist(results.cells, pair="regularizer", alike=("data", "alpha"))
    return [replace(table, note=f"{table.note} {results.note}") for table in tables(rows)]


CHECKLIST = Grid(
    name="checklist",
    shows="all methods without and with FedDecorr and weight standardisation: accuracy, rounds, collapse, cost",
    place="beyond the paper",
    settings="evaluation.clients=last evaluation.flops=true",
    axes=vary(
        "cifar10",
        method=tuple(METHODS.table),
        filters=("plain filters", STANDARDIZED),
        regularizer=BOTH,
        alpha=ALPHAS,
    ),
    makes=(reviewers_tables, gains(axis="filters", base="plain filters"), rank_and_accuracy),
    wants=one_alpha_but_for_fedavg,
)
"""What a reviewer asks of a comparison, at `protocol` and `protocol-small`."""
