"""Commands that look at runs: show, report, watch, table, compare and figure."""

from __future__ import annotations

import sys
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Annotated

import typer

from feddecorr.cli.console import (
    JsonOption,
    number,
    percent,
    print_json,
    print_result,
    print_table,
    print_text,
    say,
    write_text,
)
from feddecorr.errors import UserError, nearest

if TYPE_CHECKING:
    from feddecorr.results.pairing import Comparison
    from feddecorr.results.summary import Summary
    from feddecorr.runs.record import Record

Sources = Annotated[
    list[Path], typer.Argument(metavar="DIR...", help="Runs, folders of runs, or records of runs (.jsonl).")
]
WhereOption = Annotated[
    list[str] | None,
    typer.Option(metavar="CONDITION", help="Only runs that fulfil it, e.g. 'partition.alpha <= 0.1'; repeatable."),
]


def choose_runs(sources: list[Path], where: list[str] | None) -> list[Summary]:
    """Return the records of the runs that fulfil all conditions; refuse if there are none."""
    from feddecorr.results.conditions import Condition, by_name
    from feddecorr.results.summary import read_summaries

    conditions = [Condition(condition) for condition in where or []]
    found = read_summaries(sources)
    if not found:
        raise UserError(f"no run with a finished round in {', '.join(map(str, sources))}")
    if not conditions:
        return found

    def fulfils(summary: Summary) -> bool:
        settings = by_name(summary.settings)
        return all(condition.holds(settings) for condition in conditions)

    chosen = list(filter(fulfils, found))
    if not chosen:
        raise UserError(f"none of {len(found)} runs fulfils {' and '.join(f'“{word}”' for word in where or [])}")
    return chosen


def show(
    directory: Annotated[Path, typer.Argument(help="Directory of a run.")],
    json: JsonOption = False,
) -> None:
    """Print a run round by round, with what went to each client and came from each, in thousands of bytes.

    Accuracy is in percent; with --json, a fraction.

        feddecorr show runs/a
    """
    from feddecorr.runs.directory import RunDirectory

    run = RunDirectory.open(directory)
    if json:
        print_json(run.to_dict())
        return
    rounds = run.rounds()
    wanted = run.settings()[1].rounds
    if not rounds:
        print_text(f"{directory}: no round of {wanted} is finished; 'feddecorr resume {directory}' continues")
        return
    terms = dict.fromkeys(term for record in rounds for term in record.terms)
    further = dict.fromkeys(name for record in rounds for name in record.measures)
    ranks = ["rank of B·A", "averaged B·A"] if any(record.adapters for record in rounds) else []
    headings = ["round", "accuracy", "loss", "effective rank", "significant", *further, *terms, *ranks]
    headings += ["missing", "kB sent", "kB received", "seconds"]
    rows = [
        [
            str(record.round),
            percent(record.accuracy),
            number(record.loss),
            number(record.effective_rank, 1),
            number(record.significant_singular_values),
            *(number(record.measures.get(name)) for name in further),
            *(number(record.terms.get(term)) for term in terms),
            *(number(rank, 2) for rank in _adapter_ranks(record)[: len(ranks)]),
            number(len(record.missing) or None),
            number(None if record.sent is None else record.sent / 1000, 1),
            number(fmean(record.received.values()) / 1000 if record.received else None, 1),
            number(record.seconds, 2),
        ]
        for record in rounds
    ]
    columns = [column for column in zip(headings, *rows, strict=True) if set(column[1:]) != {number(None)}]
    known, *lines = zip(*columns, strict=True)
    print_table(known, lines, title=f"{directory}: {len(rounds)} of {wanted} rounds")
    if len(rounds) < wanted:
        say(f"'feddecorr resume {directory}' continues.")


def _adapter_ranks(record: Record) -> list[float | None]:
    """Return the mean over layers of the ranks of mean(B)·mean(A) and of mean(B·A)."""
    layers = list(record.adapters.values())
    return [fmean(each) for each in zip(*((rank.factors, rank.products) for rank in layers), strict=True)] or [None] * 2


def report(
    directories: Annotated[list[Path], typer.Argument(metavar="DIR...", help="Runs, or folders of runs, to compare.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="The HTML file to write.")] = Path("report.html"),
    json: JsonOption = False,
) -> None:
    """Compare any number of runs on one HTML page that needs no network.

    For example:

        feddecorr report runs/a runs/b -o report.html
        feddecorr report runs
    """
    from feddecorr.report.runs_page import write_report

    write_report(directories, out)
    print_result(str(out.resolve()), {"report": str(out.resolve())}, json=json)


def watch(
    directories: Annotated[list[Path], typer.Argument(metavar="DIR...", help="Runs, or folders of runs.")],
    port: Annotated[int, typer.Option(min=0, max=65535, help="Local port; 0 takes any free one.")] = 0,
    browser: Annotated[bool, typer.Option("--open", help="Also open the page in the browser.")] = False,
    json: JsonOption = False,
) -> None:
    """Show runs in the browser as they train: the report's figures, updated after every round.

    Runs that start later in the folder are added. Only this machine can see the page; Ctrl-C ends it.

        feddecorr watch runs
    """
    import webbrowser

    from feddecorr.report.live import LivePage, address, open_server

    page = LivePage(directories)
    with open_server(page.current, port) as server:
        place = address(server)
        print_result(place, {"address": place}, json=json)
        sys.stdout.flush()  # whoever started it waits for the address
        if browser and not webbrowser.open(place):
            say("no browser could be opened")
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            say("ended")


def table(  # noqa: PLR0913, PLR0917 - one parameter for each option of the command
    sources: Sources,
    where: WhereOption = None,
    by: Annotated[
        list[str] | None, typer.Option(metavar="SETTING", help="A setting to group by first; repeatable.")
    ] = None,
    columns: Annotated[
        str | None, typer.Option(metavar="SETTING", help="A setting whose values become columns.")
    ] = None,
    measure: Annotated[str, typer.Option(help="What to show: accuracy (in percent), effective_rank, …")] = "accuracy",
    statistic: Annotated[
        str, typer.Option(help="With --columns: last, last_ten (mean of ten rounds) or best.")
    ] = "last",
    format: Annotated[  # noqa: A002 - the option's name
        str | None, typer.Option(help="markdown, latex or csv; without it, plain columns.")
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="A file to write instead of printing.")] = None,
    json: JsonOption = False,
) -> None:
    r"""Print mean ± standard deviation over seeds, with runs grouped by the settings in which they differ.

    Of runs that differ in their regularizers alone, that with the largest mean is bold (in plain columns, it has an
    asterisk); where there are none, the largest mean of each column. Only runs that differ in nothing but the seed
    are averaged. LaTeX needs the package booktabs. Accuracy is in percent; with --json, a fraction.

        feddecorr table runs --columns partition.alpha --format latex -o table.tex
        feddecorr table results/small.jsonl --where 'method = fedavg' \
            --measure effective_rank
    """
    from feddecorr.results.tables import FORMATS, tabulate, to_text

    if format is not None and format not in FORMATS:
        raise UserError(f"there is no --format {format}: {nearest(format, FORMATS)}")
    found = tabulate(choose_runs(sources, where), by=by or [], columns=columns, measure=measure, statistic=statistic)
    if json:
        print_json(found.to_dict())
    elif out is not None:
        ending = {name: f".{name}" for name in FORMATS} | {"markdown": ".md", "latex": ".tex"}
        kind = format or next((name for name, suffix in ending.items() if suffix == out.suffix), None)
        if kind is None:
            raise UserError(f"{out}: name the --format, or a file that ends in {', '.join(ending.values())}")
        write_text(out, FORMATS[kind](found) + "\n")
    elif format is None:
        print_table(found.headings, to_text(found))
        say(f"{measure}{' in percent' * (measure == 'accuracy')}, mean ± standard deviation over seeds; * is the best")
    else:
        print_text(FORMATS[format](found))


def compare(  # noqa: PLR0913, PLR0917 - one parameter for each option of the command
    sources: Sources,
    pair: Annotated[
        str, typer.Option(metavar="SETTING", help="The setting in which the two runs of a pair differ.")
    ] = "regularizers",
    by: Annotated[list[str] | None, typer.Option(metavar="SETTING", help="A setting to group by; repeatable.")] = None,
    measure: Annotated[str, typer.Option(help="What to compare: accuracy, effective_rank, …")] = "accuracy",
    checklist: Annotated[
        bool, typer.Option("--checklist", help="All that reviewers ask for: accuracy, rounds, ranks, collapse, cost.")
    ] = False,
    target: Annotated[
        float | None,
        typer.Option(min=0, max=100, help="Of the checklist: rounds to this smoothed accuracy, in percent."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="Of the checklist: a file to write, .md, .tex, .svg, .pdf or .png."),
    ] = None,
    where: WhereOption = None,
    json: JsonOption = False,
) -> None:
    """Compare runs that differ in one setting only, seed by seed.

    For the last round, the mean of the last ten, the best round, while the learning rate is high, and smoothed: the
    mean difference, its 95 % interval (Student's t), and in how many seeds the second was better. Accuracy is in
    percentage points; with --json, a fraction.

    With --checklist, all runs in three tables: accuracy and rounds to a target; effective ranks of global and local
    models, neural collapse, dead features, the classifier's rank; and what a round costs in time, operations and
    bytes; with the paired differences.

        feddecorr compare studies/small/runs --by method --pair regularizers

        feddecorr compare studies/protocol-small/runs --checklist -o checklist.tex
    """
    summaries = choose_runs(sources, where)
    if checklist:
        _checklist(summaries, pair, None if target is None else target / 100, out, json=json)
        return
    if target is not None or out is not None:
        raise UserError("--target and --out are options of the checklist: say --checklist, too")
    from feddecorr.results.pairing import compare_runs

    found = compare_runs(summaries, by=by or [], pair=pair, measure=measure)
    if not found:
        raise UserError(
            f"among {len(summaries)} runs with a finished round, no two are finished, equal in all settings but "
            f"'{pair}', and have the same seed"
        )
    if json:
        print_json([comparison.to_dict() for comparison in found])
        return
    rows = [row for comparison in found for row in _rows(comparison, measure)]
    print_table([*found[0].words, "first", "second", "statistic", "difference", "95 % interval (t)", "wins"], rows)
    unit = "percentage points of accuracy" if measure == "accuracy" else measure
    say(f"differences are second minus first, in {unit}")


def _checklist(summaries: list[Summary], pair: str, target: float | None, out: Path | None, *, json: bool) -> None:
    """Print the checklist of these runs, or write it in the form of the file's ending."""
    from feddecorr.results.checklist import checklist_of_runs, tables, to_latex, to_markdown
    from feddecorr.results.groups import refuse_unknown

    refuse_unknown([pair], summaries)
    rows = checklist_of_runs(summaries, pair=pair, target=target)
    if not rows:
        raise UserError(f"none of {len(summaries)} runs is finished: a checklist is of whole runs")
    if out is not None and out.suffix in (".md", ".tex"):
        write_text(out, (to_markdown if out.suffix == ".md" else to_latex)(tables(rows)) + "\n")
    elif out is not None:
        from feddecorr.report.printed import refuse_unprintable, save
        from feddecorr.report.run_figures import draw_checklist

        refuse_unprintable(out)
        save(draw_checklist(rows, pair), out)
    if json:
        print_json([row.to_dict() for row in rows])
    elif out is None:
        for table in tables(rows):
            print_table(table.headings, table.rows, title=table.title)
            say(table.note)
    else:
        print_text(str(out.resolve()))


def _rows(comparison: Comparison, measure: str) -> list[list[str]]:
    from feddecorr.results.sample import factor_of
    from feddecorr.results.summary import STATISTICS

    factor = factor_of(measure)
    digits = 2 if factor != 1 else 4
    rows = []
    for name, fractions in comparison.statistics.items():
        paired = fractions.times(factor)
        rows.append(
            [
                *comparison.words.values(),
                *comparison.names,
                STATISTICS[name],
                f"{paired.mean:+.{digits}f}" if paired.values else number(None),
                f"{paired.low:+.{digits}f} … {paired.high:+.{digits}f}" if len(paired) > 1 else number(None),
                f"{paired.wins} of {len(paired)}",
            ]
        )
    return rows


def figure(
    name: Annotated[str, typer.Argument(help="Name of the figure, see above.")],
    sources: Sources,
    out: Annotated[Path, typer.Option("--out", "-o", help="The file to write: .pdf, .svg or .png.")],
    panels: Annotated[
        list[str] | None, typer.Option(metavar="SETTING", help="A setting to draw one panel per value of; repeatable.")
    ] = None,
    where: WhereOption = None,
    json: JsonOption = False,
) -> None:
    r"""Draw one of the paper's figures from any runs, for a two-column page.

    One line per combination of settings: the mean over seeds, with a band of one standard deviation. Colours suit
    colour-blind readers, and fonts are embedded.

        feddecorr figure spectra runs -o spectra.pdf
        feddecorr figure accuracy runs --where 'method = fedavg' \
            --panels partition.alpha -o accuracy.svg

    Figures: spectra, local-spectra, client-spectra (these two need evaluation.clients=true), accuracy, rank, beta,
    loss (needs evaluation.epochs=true), labels and sphere (these two need the runs themselves; all others can be
    drawn from records).
    """
    from feddecorr.report.printed import refuse_unprintable, save
    from feddecorr.report.run_figures import FIGURES, FigureData
    from feddecorr.results.summary import run_directories
    from feddecorr.runs.directory import RunDirectory

    if name not in FIGURES:
        raise UserError(f"there is no figure '{name}': {nearest(name, FIGURES)}")
    refuse_unprintable(out)
    summaries = choose_runs(sources, where)
    folders = [path for source in sources if source.is_dir() for path in run_directories(source)]
    by_digest = {RunDirectory.open(folder).settings()[0].digest(): folder for folder in folders}
    save(FIGURES[name](FigureData(summaries, by_digest, panels or ())), out)
    print_result(str(out.resolve()), {"figure": str(out.resolve()), "runs": len(summaries)}, json=json)
