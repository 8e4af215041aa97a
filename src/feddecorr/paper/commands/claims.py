"""The command that answers the paper's claims."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from feddecorr.cli.console import JsonOption, print_json, print_table, say
from feddecorr.errors import UserError

if TYPE_CHECKING:
    from feddecorr.paper.claims.claim import Claim
    from feddecorr.paper.claims.evidence import Plan


CONDITIONS = {"data": "data", "images": "images", "size": "size", "network": "network", "accuracy": "accuracy (%)"}
"""What stands next to every verdict, with its heading."""

HEADINGS = ["claim", "verdict", "what is claimed", "found", *CONDITIONS.values(), "seeds", "setting"]


def claims(
    records: Annotated[
        list[Path] | None,
        typer.Argument(help="Folders of runs, files of records (.jsonl), or folders with them and recorded costs."),
    ] = None,
    forest: Annotated[
        Path | None, typer.Option(help="Draw a forest plot of every part of every claim: .svg, .pdf or .png.")
    ] = None,
    gains: Annotated[
        Path | None, typer.Option(help="Draw the paired gains by round, with 95 % bands: .svg, .pdf or .png.")
    ] = None,
    json: JsonOption = False,
) -> None:
    """Judge the paper's 17 claims, and a finding of ours, by records: holds, partly, does not hold, not measured.

    A plan.toml next to the records declares the seeds of each question. The theory's claims (16 and 17) are computed
    on the spot and need no records.

    For example:

        feddecorr claims results
        feddecorr claims results --forest forest.svg --gains gains.svg
    """
    paths = records or []
    for path in paths:
        if not path.exists():
            raise UserError(f"{path} does not exist: name folders of runs, or files that 'feddecorr records' wrote")
    drawn = [path for path in (forest, gains) if path]
    if drawn:
        from feddecorr.report.printed import refuse_unprintable  # noqa: PLC0415 - see below

        for path in drawn:
            refuse_unprintable(path)
    from feddecorr.paper.claims import judge  # noqa: PLC0415 - PyTorch is loaded when it is needed
    from feddecorr.results.summary import read_summaries  # noqa: PLC0415

    say("checking the theory on the spot, which takes a few seconds …")
    found = judge(read_summaries(_record_files(paths)), _recorded_costs(paths), _declared(paths))
    _draw(found, forest, gains)
    if json:
        print_json([claim.to_dict() for claim in found])
        return
    print_table(HEADINGS, map_rows(found))
    for path in drawn:
        say(f"figure: {path.resolve()}")
    for claim in found:
        counts = Counter(other["verdict"] for other in claim.elsewhere)
        if counts:
            said = ", ".join(f"{verdict} in {count}" for verdict, count in counts.items())
            say(f"claim {claim.number} in other settings: {said} (--json lists them)")


def map_rows(found: list[Claim]) -> list[list[str]]:
    """Return a row for each claim."""
    return [
        [
            claim.number,
            claim.verdict,
            claim.sentence,
            claim.says,
            *(claim.conditions.get(name, "–") for name in CONDITIONS),
            _seeds(claim),
            claim.setting or claim.commands[0],
        ]
        for claim in found
    ]


def _draw(found: list[Claim], forest_file: Path | None, gains_file: Path | None) -> None:
    from feddecorr.paper.claims.figures import forest, gains_by_round  # noqa: PLC0415 - PyTorch is loaded when needed
    from feddecorr.report.printed import save  # noqa: PLC0415

    for file, picture in ((forest_file, forest), (gains_file, gains_by_round)):
        if file:
            save(picture(found), file)


def _seeds(claim: Claim) -> str:
    return f"{claim.seeds}, {claim.needed} needed" if claim.needed and claim.verdict == "not measured" else claim.seeds


def _declared(paths: list[Path]) -> Plan | None:
    """Return the plan in a folder of records, if there is one."""
    from feddecorr.paper.claims.evidence import PLAN, read_plan  # noqa: PLC0415 - PyTorch is loaded when it is needed

    files = [path / PLAN for path in paths if (path / PLAN).is_file()]
    if len(files) > 1:
        raise UserError(f"two plans, {files[0]} and {files[1]}: judge their folders one by one")
    return read_plan(files[0]) if files else None


def _record_files(paths: list[Path]) -> list[Path]:
    """Return what may hold runs: the paths themselves, and files of records in the folders among them."""
    inside = [file for path in paths if path.is_dir() for file in sorted(path.rglob("*.jsonl"))]
    files = [file for file in inside if file.name != "rounds.jsonl"]  # that is a run's own
    return [path for path in paths if path.suffix != ".json"] + files


def _recorded_costs(paths: list[Path]) -> list[dict[str, Any]]:
    """Return the documents of benchmarks: the given JSON files, and those in the given folders."""
    files = [path for path in paths if path.suffix == ".json"]
    files += [file for path in paths if path.is_dir() for file in sorted(path.glob("*.json"))]
    return [document for file in files if isinstance(document := _read_costs(file), dict)]


def _read_costs(file: Path) -> Any:
    from feddecorr.core.files import read_json, reading  # noqa: PLC0415 - PyTorch is loaded when it is needed
    from feddecorr.paper.claims.others import check_costs  # noqa: PLC0415

    document = read_json(file)
    with reading(file):
        check_costs(document)
    return document
