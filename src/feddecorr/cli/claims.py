"""The command that answers the paper's claims."""

from __future__ import annotations

import json as json_files
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from feddecorr.cli.console import JsonOption, print_json, print_table, say
from feddecorr.errors import UserError

if TYPE_CHECKING:
    from feddecorr.studies.claims.claim import Claim


def claims(
    records: Annotated[
        list[Path] | None,
        typer.Argument(help="Folders of runs, files of records (.jsonl), or folders with them and recorded costs."),
    ] = None,
    json: JsonOption = False,
) -> None:
    """Answer the paper's 18 claims from records: holds, does not hold, or not measured.

    The theory's claims (16 and 17) are computed on the spot and need no records.

    Example:  feddecorr claims results
    """
    paths = records or []
    for path in paths:
        if not path.exists():
            raise UserError(f"{path} does not exist: name folders of runs, or files that 'feddecorr records' wrote")
    from feddecorr.studies.claims import judge  # noqa: PLC0415 - PyTorch is loaded when it is needed
    from feddecorr.studies.summary import read_summaries  # noqa: PLC0415

    say("checking the theory on the spot, which takes a few seconds …")
    found = judge(read_summaries(_record_files(paths)), _recorded_costs(paths))
    if json:
        print_json([claim.to_dict() for claim in found])
        return
    print_table(["claim", "verdict", "what is claimed", "found", "seeds", "95 % interval", "command"], map_rows(found))
    for claim in found:
        counts = Counter(other["verdict"] for other in claim.elsewhere)
        if counts:
            said = ", ".join(f"{verdict} in {count}" for verdict, count in counts.items())
            say(f"claim {claim.number} in other settings: {said} (--json lists them)")


def map_rows(found: list[Claim]) -> list[list[str]]:
    """Return a row for each claim."""
    return [
        [
            str(claim.number),
            claim.verdict,
            claim.sentence,
            f"{claim.found} ({claim.setting})" if claim.setting else claim.found,
            _seeds(claim),
            _interval(claim.interval),
            claim.commands[0] + (f" (and {len(claim.commands) - 1} more)" if len(claim.commands) > 1 else ""),
        ]
        for claim in found
    ]


def _seeds(claim: Claim) -> str:
    if claim.needed:
        return f"{claim.seeds}, {claim.needed} needed"
    if claim.verdict == "not measured" and claim.seeds:
        return f"{claim.seeds}, more than 1000 needed"
    return str(claim.seeds or "–")


def _interval(ends: tuple[float | None, float | None] | None) -> str:
    if ends is None or None in ends:
        return "–"
    return f"[{ends[0]:+.2f}, {ends[1]:+.2f}]"


def _record_files(paths: list[Path]) -> list[Path]:
    """Return what may hold runs: the paths themselves, and files of records in the folders among them."""
    inside = [file for path in paths if path.is_dir() for file in sorted(path.rglob("*.jsonl"))]
    files = [file for file in inside if file.name != "rounds.jsonl"]  # that is a run's own
    return [path for path in paths if path.suffix != ".json"] + files


def _recorded_costs(paths: list[Path]) -> list[dict[str, Any]]:
    """Return the documents of benchmarks: JSON files that are named, or that lie in the folders that are."""
    files = [path for path in paths if path.suffix == ".json"]
    files += [file for path in paths if path.is_dir() for file in sorted(path.glob("*.json"))]
    documents = [json_files.loads(file.read_text()) for file in files]
    return [document for document in documents if isinstance(document, dict)]
