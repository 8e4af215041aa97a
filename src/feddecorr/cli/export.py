"""The command that hands runs over to other programs: tables, models, trackers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from feddecorr.cli.choosing import Sources
from feddecorr.cli.console import JsonOption, TrustOption, print_json, print_text
from feddecorr.errors import UserError, nearest


def export(
    sources: Sources,
    to: Annotated[
        str | None,
        typer.Option(
            help="safetensors, torchscript, onnx, tensorboard, wandb, mlflow or your own tracker; without it, a table."
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="The file to write: of a table, .parquet or .csv.")
    ] = None,
    trust: TrustOption = False,
    json: JsonOption = False,
) -> None:
    """Hand runs over to other programs.

    Rounds as a table, one row a round, with all settings and measures:

        feddecorr export runs -o runs.parquet

    The newest global model of one run, with what standardizes its inputs; it is run once, to see that it is right:

        feddecorr export runs/a --to onnx -o model.onnx

    To a tracker, what it was not told while the run went on (trackers=tensorboard does that):

        feddecorr export runs/a --to tensorboard
    """
    from feddecorr.runs.export import FORMATS  # noqa: PLC0415 - PyTorch is loaded when it is needed
    from feddecorr.trackers import TRACKERS  # noqa: PLC0415

    known = [*FORMATS, *TRACKERS.table]
    tracks = to is not None and (to in TRACKERS.table or ":" in to)
    if to is not None and to not in known and not tracks:
        raise UserError(f"--to is one of {', '.join(known)}: {nearest(to, known)}")
    if to is not None and tracks:
        if out is not None:
            raise UserError(f"{to} writes into the run's directory, or where its own settings say: leave --out out")
        written = _track(sources, to)
    elif out is None:
        raise UserError("name the file to write: -o FILE")
    else:
        written = [_table(sources, out) if to is None else _model(sources, to, out, trust=trust)]
    if json:
        print_json({"written": [str(path.resolve()) for path in written]})
    else:
        print_text("\n".join(str(path.resolve()) for path in written))


def _table(sources: list[Path], out: Path) -> Path:
    from feddecorr.results.tables import load_runs, refuse_ending, write_table  # noqa: PLC0415 - see export

    refuse_ending(out)
    table = load_runs(*sources)
    if not len(table):
        raise UserError(f"no run with a finished round in {', '.join(map(str, sources))}")
    write_table(table, out)
    return out


def _model(sources: list[Path], to: str, out: Path, *, trust: bool) -> Path:
    from feddecorr.core.trust import Trust  # noqa: PLC0415
    from feddecorr.runs.directory import RunDirectory  # noqa: PLC0415 - see export
    from feddecorr.runs.export import export_model  # noqa: PLC0415

    if len(sources) != 1:
        raise UserError(f"a model is of one run, not of {len(sources)}")
    export_model(RunDirectory.open(sources[0]), to, out, trust=Trust(files=trust))
    return out


def _track(sources: list[Path], to: str) -> list[Path]:
    from feddecorr.results.summary import run_directories  # noqa: PLC0415
    from feddecorr.runs.tracking import folder_name, following  # noqa: PLC0415 - see export
    from feddecorr.runs.writer import RunWriter  # noqa: PLC0415
    from feddecorr.trackers import TRACKERS  # noqa: PLC0415

    tracker = TRACKERS.parse(to)
    folders = [folder for source in sources for folder in run_directories(source)]
    if not folders:
        raise UserError(f"no run in {', '.join(map(str, sources))}")
    for folder in folders:
        with RunWriter(folder) as writer, following(writer.directory, {to: tracker}, *writer.directory.settings()):
            pass  # to follow is to catch up
    return [folder / folder_name(to) for folder in folders]
