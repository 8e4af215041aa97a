"""The demonstration: the collapse and its cure on embedded data."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from feddecorr.cli.completing import complete, prepare
from feddecorr.cli.console import JsonOption, number, print_json, print_table, print_text, say

if TYPE_CHECKING:
    from feddecorr.config.experiment import Experiment
    from feddecorr.settings.options import RunOptions

SETTINGS: dict[str, Any] = {
    "data": "digits",
    "clients": 10,
    "partition": {"name": "dirichlet", "alpha": 0.05},
    "model": "convnet",
    "training": {"epochs": 10, "lr": 0.01},
    "rounds": 20,
    "engine": "pool",
    "seed": 0,
}
RUNS: dict[str, dict[str, Any]] = {
    "fedavg": {},
    "fedavg+feddecorr": {"regularizers": {"feddecorr": {"beta": 0.1}}},
}


def demo(
    out: Annotated[Path, typer.Option(help="Directory for the two runs and the report.")] = Path("feddecorr-demo"),
    json: JsonOption = False,
) -> None:
    """Train on handwritten digits without and with FedDecorr, and compare: about a minute.

    Ten clients with very different labels (Dirichlet, alpha 0.05) train the same network from the same start.
    An interrupted demo goes on where it was.

    Example:  feddecorr demo --out my-demo
    """
    settings = {name: prepare({**SETTINGS, **extra}) for name, extra in RUNS.items()}
    for name, (experiment, options) in settings.items():
        _train(experiment, options, out / name, title=name)
    from feddecorr.report.runs_page import write_report  # noqa: PLC0415
    from feddecorr.runs.directory import RunDirectory  # noqa: PLC0415 - PyTorch is loaded when it is needed

    page = out / "report.html"
    write_report([out / name for name in RUNS], page)
    last = {name: RunDirectory.open(out / name).rounds()[-1] for name in RUNS}
    if json:
        keys = ("round", "accuracy", "effective_rank", "significant_singular_values")
        results = {name: {key: getattr(record, key) for key in keys} for name, record in last.items()}
        print_json({"runs": results, "report": str(page.resolve())})
        return
    rows = [
        [
            name,
            number(record.accuracy, 3),
            f"{number(record.effective_rank, 1)} of {len(record.singular_values or [])}",
            number(record.significant_singular_values),
        ]
        for name, record in last.items()
    ]
    print_table(["run", "accuracy", "effective rank", "significant singular values"], rows)
    print_text(f"report: {page.resolve()}")


def _train(experiment: Experiment, options: RunOptions, directory: Path, *, title: str) -> None:
    from feddecorr.runs.directory import RunDirectory  # noqa: PLC0415 - PyTorch is loaded when it is needed
    from feddecorr.runs.pipeline import ensure  # noqa: PLC0415

    held = RunDirectory(directory)
    if held.is_done(experiment, options):
        say(f"{title}: already trained; remove {directory} to train it again")
    records = ensure(experiment, options, directory)
    complete(records, directory, title=title, done=held.finished_rounds(), rounds=options.rounds)
