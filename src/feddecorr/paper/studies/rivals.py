"""All methods and heads side by side, each without and with FedDecorr: accuracy, ranks, neural collapse, time."""

from __future__ import annotations

from functools import partial

from feddecorr.methods import METHODS
from feddecorr.paper.grid import Grid, Seen
from feddecorr.paper.studies.accuracy import BOTH
from feddecorr.paper.studies.computation import ratio_to, seconds
from feddecorr.paper.tables import gains
from feddecorr.report import figures
from feddecorr.results.cells import Cell, split_by
from feddecorr.results.curves import Band
from feddecorr.results.local_models import local_ranks
from feddecorr.results.study import Figure, Finding, Labels, Table
from feddecorr.results.summary import STATISTICS

NEURAL_COLLAPSE = {
    "NC1": "nc1_variability",
    "NC2 norms": "nc2_norm_variation",
    "NC2 angles": "nc2_cosine_gap",
    "NC3": "nc3_duality_gap",
    "NC4": "nc4_disagreement",
}
HEADS = ("linear", "normalized", "layer_norm", "etf")
OF_A_SIMPLEX = ("feddr",)
"""Methods whose classifier is a fixed simplex."""


def belong_together(labels: Labels) -> bool:
    """Tell that all heads go with FedAvg, and every other method with the head of its paper."""
    own = "etf" if labels["method"] in OF_A_SIMPLEX else "linear"
    return labels["method"] == "fedavg" or labels["head"] == own


def side_by_side(seen: Seen) -> list[Finding]:
    """Make one table of everything that is asked of a method."""
    plain = {cell.labels["data"]: seconds(cell) for cell in seen.cells if _is_plain(cell.labels)}
    rows = [
        [
            *map(str, cell.labels.values()),
            cell.count,
            *(cell.text(cell.sample(statistic), factor=100) for statistic in STATISTICS),
            cell.text(cell.sample("last", "effective_rank"), 1),
            cell.text(local_ranks(cell), 1),
            *(cell.text(cell.sample("last", measure), 3) for measure in NEURAL_COLLAPSE.values()),
            cell.text(ratio_to(plain[cell.labels["data"]], cell)),
        ]
        for cell in seen.cells
    ]
    headings = [
        *(seen.cells[0].labels if seen.cells else ()),
        "seeds",
        *(f"accuracy (%), {name}" for name in STATISTICS.values()),
        "effective rank",
        "of local models",
        *NEURAL_COLLAPSE,
        "time of a round",
    ]
    note = (
        "Ranks and NC1 to NC4 are of the last round, on the test images (docs/diagnosis.md defines them); local models "
        "before they were averaged, mean over clients. Time on the clock relative to FedAvg, with evaluation, as the "
        "runs took it, perhaps beside others: 'python -m benchmarks.methods_cost' measures more finely. Methods have "
        f"the paper's options, if it names any, else their defaults; FedDr+ has the head of its paper. {seen.note}"
    )
    return [Table("All rivals", headings, rows, note)]


def rank_and_accuracy(seen: Seen) -> list[Finding]:
    """Make figures with a point for each rival, to see whether who uses more dimensions classifies better."""
    found: list[Finding] = []
    for title, cells in split_by(seen.cells, ("data", "alpha", "regularizer")):
        points = {cell.name(("method", "head")): _point(cell) for cell in cells}
        known = {name: point for name, point in points.items() if point[0]}
        draw = partial(figures.bands, known, "effective rank of the global model", "accuracy, mean of the last ten")
        absent = [name for name in points if name not in known]
        note = f"Missing, or with too few rounds: {', '.join(absent)}." if absent else "Means over seeds."
        found.append(Figure(f"Rank and accuracy: {title}", draw, note))
    return found


def _point(cell: Cell) -> Band:
    rank, right = cell.sample("last", "effective_rank"), cell.sample("last_ten")
    return ([rank.mean], [right.mean], [0.0]) if rank.values and right.values else ([], [], [])


def _is_plain(labels: Labels) -> bool:
    return (labels["method"], labels["head"], labels["regularizer"]) == ("fedavg", "linear", "none")


RIVALS = Grid(
    name="rivals",
    shows="all methods and heads without and with FedDecorr: accuracy, ranks, neural collapse, time",
    place="beyond the paper",
    settings="evaluation.clients=last",
    axes={
        "data": ("cifar10",),
        "method": tuple(METHODS.table),
        "head": HEADS,
        "regularizer": BOTH,
        "alpha": (0.1,),
    },
    makes=(side_by_side, gains(), rank_and_accuracy),
    wants=belong_together,
)
"""What the field after the paper proposes, on the same splits and seeds."""
