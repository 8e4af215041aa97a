"""Commands that hand runs over: export to other programs, records for git."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from feddecorr.cli.console import JsonOption, TrustOption, print_json, print_result, print_text
from feddecorr.cli.show import Sources, WhereOption, choose_runs
from feddecorr.core.trust import Trust
from feddecorr.errors import UserError, nearest


def export(
    sources: Sources,
    to: Annotated[
        str | None,
        typer.Option(
            metavar="FORMAT",
            help="safetensors, torchscript, onnx, tensorboard, wandb, mlflow or your own tracker; a table by default.",
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="The file to write; a table is .parquet or .csv.")
    ] = None,
    trust: TrustOption = False,
    json: JsonOption = False,
) -> None:
    """Export runs to other programs.

    As a table, with one row per round and all settings and measures:

        feddecorr export runs -o runs.parquet

    The newest global model of a run, with the standardization of its inputs; the written file is checked:

        feddecorr export runs/a --to onnx -o model.onnx

    To a tracker, whatever it has not been sent yet (trackers=tensorboard sends it during the run):

        feddecorr export runs/a --to tensorboard
    """
    from feddecorr.runs.export import FORMATS
    from feddecorr.trackers import TRACKERS

    known = [*FORMATS, *TRACKERS.table]
    tracks = to is not None and (to in TRACKERS.table or ":" in to)
    if to is not None and to not in known and not tracks:
        raise UserError(f"there is no --to {to}: {nearest(to, known)}")
    if to is not None and tracks:
        if out is not None:
            raise UserError(f"{to} writes into the run's directory, or where its own settings say: leave --out out")
        written = _track(sources, to)
    elif out is None:
        raise UserError("name the file to write: -o FILE")
    else:
        written = [_table(sources, out) if to is None else _model(sources, to, out, trust=trust)]
    paths = [str(path.resolve()) for path in written]
    print_result("\n".join(paths), {"written": paths}, json=json)


def _table(sources: list[Path], out: Path) -> Path:
    from feddecorr.results.tables import load_runs, refuse_ending, write_table

    refuse_ending(out)
    table = load_runs(*sources)
    if not len(table):
        raise UserError(f"no run with a finished round in {', '.join(map(str, sources))}")
    write_table(table, out)
    return out


def _model(sources: list[Path], to: str, out: Path, *, trust: bool) -> Path:
    from feddecorr.runs.directory import RunDirectory
    from feddecorr.runs.export import export_model

    if len(sources) != 1:
        raise UserError(f"a model comes from one run, not from {len(sources)}")
    export_model(RunDirectory.open(sources[0]), to, out, trust=Trust(files=trust))
    return out


def _track(sources: list[Path], to: str) -> list[Path]:
    from feddecorr.results.summary import run_directories
    from feddecorr.runs.tracking import folder_name, following
    from feddecorr.runs.writer import RunWriter
    from feddecorr.trackers import TRACKERS

    tracker = TRACKERS.parse(to)
    folders = [folder for source in sources for folder in run_directories(source)]
    if not folders:
        raise UserError(f"no run in {', '.join(map(str, sources))}")
    for folder in folders:
        with RunWriter(folder) as writer, following(writer.directory, {to: tracker}, *writer.directory.settings()):
            pass  # following begins by catching up
    return [folder / folder_name(to) for folder in folders]


def records(
    sources: Sources,
    out: Annotated[Path | None, typer.Option("--out", "-o", metavar="FILE.jsonl", help="The file to write.")] = None,
    where: WhereOption = None,
    check: Annotated[
        bool, typer.Option("--check", help="Write nothing: say whether these files can be taken for evidence.")
    ] = False,
    json: JsonOption = False,
) -> None:
    """Write what tables and figures need from many runs into one file, small enough for git.

    One line of JSON per run: its settings, the command that repeats it, the numbers of every round, the last
    spectrum, and where it ran. Of several copies of a run, the one with the most rounds is taken.

    With --check, each file must hold whole runs, each once, with commit, versions and platform, splits that are the
    same for the same seed, and for every run with regularizers seeds that have the same run without.

        feddecorr records studies/small/runs -o results/small.jsonl
        feddecorr records --check results/small.jsonl
    """
    if check:
        if out is not None or where:
            raise UserError("--check writes nothing and looks at whole files: leave --out and --where out")
        _check(sources, json=json)
        return
    if out is None:
        raise UserError("name the file to write: -o FILE.jsonl")
    from feddecorr.results.summary import write_summaries

    if out.suffix != ".jsonl":
        raise UserError(f"{out}: records end in .jsonl, as whatever reads them expects")
    summaries = choose_runs(sources, where)
    write_summaries(out, summaries)
    size = out.stat().st_size
    text = f"{out.resolve()}: {len(summaries)} runs, {size / 1e6:.2f} MB"
    print_result(text, {"records": str(out.resolve()), "runs": len(summaries), "bytes": size}, json=json)


def _check(sources: list[Path], *, json: bool) -> None:
    """Print what each file holds and what is wrong with it; fail if anything is."""
    from feddecorr.results.acceptance import check_file

    found = [check_file(source) for source in sources]
    if json:
        print_json([each.to_dict() for each in found])
    else:
        for each in found:
            print_text(f"{each.file}: {each.runs} runs of {each.arms} arms, {each.pairs} of them paired")
            for kind, sentences in (("problem", each.problems), ("note", each.notes)):
                for sentence in sentences:
                    print_text(f"  {kind}: {sentence}")
    if count := sum(len(each.problems) for each in found):
        raise UserError(f"{count} problems: such records cannot be taken for evidence")
