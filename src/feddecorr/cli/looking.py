"""Commands that look: show, list and report."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from feddecorr.cli.console import JsonOption, number, print_json, print_table, print_text, say
from feddecorr.errors import UserError
from feddecorr.kinds import Family, Kind, nearest


def show(
    directory: Annotated[Path, typer.Argument(help="Directory of a run.")],
    json: JsonOption = False,
) -> None:
    """Print the table of a run, round by round.

    Example:  feddecorr show runs/a
    """
    from feddecorr.record import RunDirectory  # noqa: PLC0415 - PyTorch is loaded when it is needed

    run = RunDirectory.open(directory)
    if json:
        print_json(run.to_dict())
        return
    rounds = run.rounds()
    wanted = run.experiment().rounds
    if not rounds:
        print_text(f"{directory}: no round of {wanted} is finished; 'feddecorr resume {directory}' goes on")
        return
    terms = list(rounds[0]["terms"])
    headings = ["round", "accuracy", "loss", "effective rank", "significant", *terms, "seconds"]
    rows = [
        [
            str(found["round"]),
            number(found["accuracy"]),
            number(found["loss"]),
            number(found["effective_rank"], 1),
            number(found["significant_singular_values"]),
            *(number(found["terms"][term]) for term in terms),
            number(found["seconds"], 2),
        ]
        for found in rounds
    ]
    print_table(headings, rows, title=f"{directory}: {len(rounds)} of {wanted} rounds")
    if len(rounds) < wanted:
        say(f"'feddecorr resume {directory}' goes on.")


def list_kinds(
    family: Annotated[
        str | None,
        typer.Argument(help="data, partition, model, method, regularizers or engine; all without it."),
    ] = None,
    json: JsonOption = False,
) -> None:
    """Show what can be chosen by name, with a line each; for one family, with all options.

    Example:  feddecorr list methods
    """
    from feddecorr.experiment import FAMILIES  # noqa: PLC0415 - PyTorch is loaded when it is needed

    chosen = FAMILIES if family is None else dict([_find_family(family, FAMILIES)])
    if json:
        print_json({setting: _describe(found) for setting, found in chosen.items()})
    elif family is None:
        rows = [[setting, name, cls.line()] for setting, found in chosen.items() for name, cls in found.table.items()]
        print_table(["setting", "name", "what it is"], rows)
        say("'feddecorr list NAME' shows a family's options, e.g. 'feddecorr list partition'.")
    else:
        _print_options(*next(iter(chosen.items())))


def report(
    directories: Annotated[list[Path], typer.Argument(metavar="DIR...", help="Directories of runs to compare.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="The HTML file to write.")] = Path("report.html"),
    json: JsonOption = False,
) -> None:
    """Compare any number of runs in one HTML page that needs no network.

    Example:  feddecorr report runs/a runs/b -o report.html
    """
    from feddecorr.report import write_report  # noqa: PLC0415 - plotly is loaded when it is needed

    write_report(directories, out)
    if json:
        print_json({"report": str(out.resolve())})
    else:
        print_text(str(out.resolve()))


def _find_family(word: str, families: dict[str, Family[Any]]) -> tuple[str, Family[Any]]:
    """Accept singular and plural."""
    for setting, family in families.items():
        if word.rstrip("s") == setting.rstrip("s"):
            return setting, family
    raise UserError(f"there is nothing called '{word}' to list: {nearest(word, families)}")


def _describe(family: Family[Any]) -> dict[str, Any]:
    return {
        name: {"description": cls.line(), "options": {key: _option(cls, key) for key in cls.model_fields}}
        for name, cls in family.table.items()
    }


def _option(cls: type[Kind], key: str) -> dict[str, Any]:
    field = cls.model_fields[key]
    default = None if field.is_required() else field.get_default(call_default_factory=True)
    return {
        "default": str(default) if isinstance(default, float) and default == float("inf") else default,
        "required": field.is_required(),
        "description": field.description or "",
    }


def _print_options(setting: str, family: Family[Any]) -> None:
    rows = []
    for name, described in _describe(family).items():
        rows.append([f"{setting}={name}", "", described["description"]])
        prefix = f"{setting}.{name}" if setting == "regularizers" else setting
        for key, option in described["options"].items():
            default = "(required)" if option["required"] else str(option["default"])
            rows.append([f"  {prefix}.{key}", default, option["description"]])
    print_table(["setting", "default", "what it is"], rows)
