"""The report that compares runs, a line for all seeds of the same settings, and the page of a split."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from statistics import fmean
from typing import Any

from feddecorr.collapse.spectrum import SHOWN_VALUES
from feddecorr.config.overrides import flatten
from feddecorr.errors import UserError
from feddecorr.partition.heterogeneity import MEANINGS, Heterogeneity, LabelCounts
from feddecorr.report import figures
from feddecorr.report.page import Section, write_page
from feddecorr.report.picture import SPECTRUM, LineStyle, line_styles
from feddecorr.results import curves
from feddecorr.results.checklist import checklist_of_runs
from feddecorr.results.checklist import tables as checklist_tables
from feddecorr.results.curves import Band, Points, band, spread
from feddecorr.results.groups import by_seed, context, group_runs, is_finished
from feddecorr.results.names import ArmName
from feddecorr.results.summary import Summary, run_directories
from feddecorr.runs.directory import ROSTER, AboutData, RunDirectory


@dataclass(frozen=True)
class SeedGroup:
    """One line in every figure: runs by the names of their directories, which differ in nothing but the seed."""

    name: str
    arm: ArmName
    runs: Mapping[str, Summary]

    def curve(self, read: Callable[[Summary], Points]) -> Band:
        """Return mean and standard deviation over the seeds; while some are under way, over those that got so far."""
        whole = all(map(is_finished, self.runs.values()))
        return band([read(run) for run in self.runs.values()], whole=whole)

    def spectrum(self) -> Band:
        """Return those of the spectra of the newest evaluated round, which the slowest seeds may not have yet."""
        newest = max(map(_last_round, self.runs.values()))
        return band([curves.spectrum(run) for run in self.runs.values() if _last_round(run) == newest])

    def mean(self, read: Callable[[Summary], float | None], form: str, factor: float = 1.0) -> str | None:
        """Return mean ± standard deviation over the seeds that have a value; None if none has."""
        values = [factor * value for run in self.runs.values() if (value := read(run)) is not None]
        if not values:
            return None
        mean = format(fmean(values), form)
        return mean if len(self.runs) == 1 else f"{mean} ± {format(spread(values), form)}"


def group_seeds(runs: Mapping[str, Summary], *, whole: bool = True) -> list[SeedGroup]:
    """Return the lines in the order of their settings, named by what distinguishes them.

    If `whole`, unfinished runs stay separate: a mean would hide how far each has come. So do copies of the same run.
    Lines that differ in nothing else are named by their directories.
    """
    lines: dict[object, list[str]] = {}
    for name, run in runs.items():
        lines.setdefault(context(run) if is_finished(run) or not whole else name, []).append(name)
    cells = group_runs(list(runs.values())) if runs else []
    arms = {context(next(iter(cell.runs.values()))): cell.named() for cell in cells}
    groups: list[dict[str, Summary]] = []
    for names in lines.values():
        mine = {name: runs[name] for name in names}
        alike = len(by_seed(mine.values())) == len(mine)
        groups += [mine] if alike else [{name: run} for name, run in mine.items()]
    places = {key: place for place, key in enumerate(arms)}
    groups.sort(key=lambda mine: places[context(next(iter(mine.values())))])
    found = [SeedGroup(arm.whole, arm, mine) for mine in groups for arm in [arms[context(next(iter(mine.values())))]]]
    counts = Counter(line.name for line in found)
    return [line if line.name and counts[line.name] == 1 else _with_directories(line) for line in found]


def _with_directories(line: SeedGroup) -> SeedGroup:
    directories = ", ".join(line.runs)
    others = ", ".join(filter(None, [line.arm.others, directories]))
    name = f"{line.name} ({directories})" if line.name else directories
    return replace(line, name=name, arm=replace(line.arm, others=others))


TITLE = "Dimensional collapse, run by run"
UNKNOWN = "–"

LEAD = (
    "Each run trains one global model on clients whose data differ. A model has collapsed when its representations "
    "lie in few of their dimensions: then the singular values of their covariance fall off quickly, and the "
    "effective rank is low."
)
ACCURACY = (
    "Accuracy of the global model on the test images. With strong heterogeneity it swings from round to round: "
    "compare the level of the last rounds, over several seeds, rather than single points."
)
RANK = "How many dimensions the representations use, in effect."
AVERAGING = (
    "Effective rank of the average of the clients' models, divided by the geometric mean of their own: below 1, "
    "averaging itself takes dimensions away."
)
UPDATES = (
    "Effective rank of what a client changes in a layer, by the largest that is possible; the mean over layers of the "
    "geometric mean over clients."
)
AVERAGE_UPDATE = "The same of the average of the clients' changes."
ALIGNMENT = (
    "Cosine between the changes of two clients in a layer: 1 where all go the same way, 0 where they have nothing in "
    "common; the mean over layers."
)
TERM = "A term of the clients' objective: its mean over the examples that they saw in the round."
FURTHER = "A further measure of the representations of the test images."

BANDS = " Of several seeds, the mean is drawn, with a band of one standard deviation up and down."


def write_report(directories: Sequence[Path], path: Path) -> None:
    """Compare runs, and all runs in folders that have a finished round, on one page."""
    found = [run for directory in directories for run in _runs(directory)]
    runs = dict(zip(name_directories([run.path for run in found]), found, strict=True))
    lines = group_seeds({name: Summary.of(run) for name, run in runs.items()})
    write_page(path, TITLE, LEAD, list(sections(lines, runs)), switches=switches(lines))


def _runs(directory: Path) -> list[RunDirectory]:
    """Return the run of a directory, or all in a folder that have something to show."""
    if (run := RunDirectory(directory)).exists() or not directory.is_dir():
        run = RunDirectory.open(directory)
        if not run.finished_rounds():
            raise UserError(f"{directory} has no finished round yet: 'feddecorr resume {directory}' continues it")
        return [run]
    below = [each for each in map(RunDirectory, run_directories(directory)) if each.finished_rounds()]
    if not below:
        raise UserError(f"no run with a finished round in {directory}")
    return below


def switches(lines: Sequence[SeedGroup]) -> list[str]:
    """Return the names of lines that can be hidden, if there are several."""
    return [line.name for line in lines] if len(lines) > 1 else []


def name_directories(directories: Sequence[Path]) -> list[str]:
    """Name each run by as many last parts of its path as make all names different."""
    paths = [directory.resolve() for directory in directories]
    if len(set(paths)) < len(paths):
        raise UserError("the same run is given twice")
    parts = 1
    while len({path.parts[-parts:] for path in paths}) < len(paths):
        parts += 1
    return ["/".join(path.parts[-parts:]) for path in paths]


def sections(lines: Sequence[SeedGroup], runs: Mapping[str, RunDirectory]) -> Iterator[Section]:
    """Yield the sections of the report; runs without test images show only how they trained."""
    bands = BANDS if any(len(line.runs) > 1 for line in lines) else ""
    shown = line_styles({line.name: line.arm for line in lines})
    yield _summary(lines)
    every = [run for line in lines for run in line.runs.values()]
    if any(run.spectrum for run in every):
        yield _spectra(lines, bands, shown)
    terms = dict.fromkeys(term for run in every for each in run.rounds for term in each["terms"])
    further = dict.fromkeys(name for run in every for name in run.options.get("evaluation", {}).get("measures", {}))
    measures: dict[str, tuple[str, curves.Curve]] = {
        "accuracy (%)": (ACCURACY, curves.per_round("accuracy", 100)),
        "effective rank": (RANK, curves.per_round("effective_rank")),
        "rank kept by averaging": (AVERAGING, _rank_kept),
        "rank of updates": (UPDATES, _per_layer(lambda layer: layer["effective_rank"] / layer["maximum_rank"])),
        "rank of the average update": (
            AVERAGE_UPDATE,
            _per_layer(lambda layer: layer["averaged_effective_rank"] / layer["maximum_rank"]),
        ),
        "alignment of updates": (ALIGNMENT, _per_layer(lambda layer: layer["alignment"])),
        **{name: (FURTHER, curves.per_round(name)) for name in further},
        **{f"objective: {term}": (TERM, _term(term)) for term in terms},
    }
    for what, (text, read) in measures.items():
        drawn = {line.name: line.curve(read) for line in lines}
        if any(places for places, _, _ in drawn.values()):
            heading = f"{what.removesuffix(' (%)').capitalize()} per round"
            yield Section(heading, text + bands, figure=figures.bands(drawn, "round", what, styles=shown))
    for table in checklist_tables(checklist_of_runs(every)):
        if table.rows:
            yield Section(f"Checklist: {table.title}", table.note, headings=table.headings, rows=table.rows)
    yield from _labels(lines, runs)
    yield _settings(lines)


def _rank_kept(run: Summary) -> curves.Points:
    found = {each["round"]: each["averaging"] for each in run.rounds if each["averaging"]}
    return {
        number: each["averaged_effective_rank"] / each["local_effective_rank"]
        for number, each in found.items()
        if each["local_effective_rank"]
    }


def _per_layer(read: Callable[[dict[str, Any]], float | None]) -> curves.Curve:
    """Return the mean over the layers of what is read of each layer's changes, by round."""

    def curve(run: Summary) -> curves.Points:
        found = {each["round"]: map(read, each.get("updates", {}).values()) for each in run.rounds}
        known = {number: [value for value in values if value is not None] for number, values in found.items()}
        return {number: sum(values) / len(values) for number, values in known.items() if values}

    return curve


def _term(term: str) -> curves.Curve:
    return lambda run: {each["round"]: each["terms"][term] for each in run.rounds if term in each["terms"]}


def _summary(lines: Sequence[SeedGroup]) -> Section:
    several = any(len(line.runs) > 1 for line in lines)
    columns: dict[str, Callable[[SeedGroup], str | None]] = {
        "seeds": lambda line: str(len(line.runs)) if several else None,
        "round": lambda line: str(max(map(_last_round, line.runs.values()))),
        "accuracy (%)": lambda line: line.mean(lambda run: run.statistic("last"), ".1f", 100),
        "best (%)": lambda line: line.mean(lambda run: run.statistic("best"), ".1f", 100),
        "effective rank": _effective_rank,
        "significant singular values": lambda line: line.mean(
            lambda run: run.statistic("last", "significant_singular_values"), ".0f"
        ),
        "kB to a client": lambda line: line.mean(lambda run: _kilobytes(run, "sent"), ",.1f"),
        "kB from a client": lambda line: line.mean(lambda run: _kilobytes(run, "received"), ",.1f"),
        "time": lambda line: f"{line.mean(lambda run: sum(each['seconds'] for each in run.rounds), '.0f')} s",
        # Those of a sweep have digests for names, which mean nothing to a reader.
        "directory": lambda line: ", ".join(name for name, run in line.runs.items() if name != run.digest) or None,
    }
    cells = {heading: [read(line) for line in lines] for heading, read in columns.items()}
    known = {heading: column for heading, column in cells.items() if any(cell is not None for cell in column)}
    rows = [[line.name, *(column[place] or UNKNOWN for column in known.values())] for place, line in enumerate(lines)]
    text = (
        "Measured on the test images after the last evaluated round. The effective rank is the exponential of the "
        "entropy of the covariance's singular values; significant are those above τ with log τ = −2."
        if "effective rank" in known
        else "No model was evaluated."
    )
    return Section("At a glance", text, headings=["arm", *known], rows=rows)


def _kilobytes(run: Summary, direction: str) -> float | None:
    """Return the thousands of bytes per client in the last round."""
    found = run.statistic("last", direction)
    return None if found is None else found / 1000


def _last_round(run: Summary) -> int:
    """Return the last evaluated round, or the last one where none was."""
    return max((each["round"] for each in run.rounds if each["model"]), default=len(run.rounds))


def _effective_rank(line: SeedGroup) -> str | None:
    found = line.mean(lambda run: run.statistic("last", "effective_rank"), ".1f")
    possible = line.mean(lambda run: run.statistic("last", "dimensions"), ".0f")
    return found and possible and f"{found} of {possible.partition(' ')[0]}"


def _spectra(lines: Sequence[SeedGroup], bands: str, shown: Mapping[str, LineStyle]) -> Section:
    text = (
        "Singular values of the covariance of the test images' representations, largest first, after the last "
        f"evaluated round (at most {SHOWN_VALUES} are drawn). The steeper the fall, the stronger the collapse."
    )
    drawn = {line.name: line.spectrum() for line in lines}
    figure = figures.bands(drawn, *SPECTRUM, threshold=True, styles=shown)
    return Section("Singular spectra", text + bands, figure=figure)


def _labels(lines: Sequence[SeedGroup], runs: Mapping[str, RunDirectory]) -> Iterator[Section]:
    """Yield a figure for each split, which lines may share; of several seeds the first is shown."""
    shared: dict[tuple[AboutData, bytes], list[SeedGroup]] = {}
    for line in lines:
        run = runs[next(iter(line.runs))]
        shared.setdefault((run.federation(), (run.inside / ROSTER).read()), []).append(line)
    for (about, _), those in shared.items():
        first = next(iter(those[0].runs))
        counts = runs[first].roster().labels
        if counts is None:
            continue
        note = f" Note: {about.note}." if about.note else ""
        which = figures.shown_clients(counts.clients)
        seeds = (
            f" Each seed has its own split: this is that of seed {those[0].runs[first].experiment['seed']}."
            if len(those[0].runs) > 1
            else ""
        )
        text = f"Training examples per client and class: {', '.join(line.name for line in those)}.{seeds}{which}{note}"
        yield Section("Examples by client and class", text, figures.labels(counts, about.classes))


def _settings(lines: Sequence[SeedGroup]) -> Section:
    flat = [[flatten(run.settings) for run in line.runs.values()] for line in lines]
    keys = dict.fromkeys(key for line in flat for settings in line for key in settings)
    rows = [[key, *(_values(line, key) for line in flat)] for key in keys]
    rows.sort(key=lambda row: len(set(row[1:])) == 1)  # what differs first
    text = "The resolved experiments; settings that differ come first."
    return Section("Settings", text, headings=["setting", *(line.name for line in lines)], rows=rows)


def _values(settings: Sequence[Mapping[str, object]], key: str) -> str:
    return ", ".join(dict.fromkeys(str(each.get(key, UNKNOWN)) for each in settings))


CLIENT_HEADINGS = ("client", "examples", "classes", "effective classes", "distance")


def write_split_page(path: Path, found: Heterogeneity, counts: LabelCounts, classes: Sequence[str]) -> None:
    """Write the page of a split: examples by client and class, and how much clients differ."""
    which = figures.shown_clients(counts.clients)
    text = f"Training examples per client and class.{which}"
    measures = ("measure", "value", "what it is")
    same, means = f"The same measures for each client.{which}", "Means over the clients, each of which counts the same."
    sections = [
        Section("Examples by client and class", text, figures.labels(counts, classes)),
        Section("Heterogeneity", means, headings=measures, rows=summary_rows(found)),
        Section("Clients", same, headings=CLIENT_HEADINGS, rows=client_rows(found)),
    ]
    lead = "Which client holds which labels, and how much clients differ."
    write_page(path, "Split of the training data", lead, sections)


def client_rows(found: Heterogeneity) -> list[list[str]]:
    """Return the table of the first clients, one row each."""
    columns = zip(found.sizes, found.classes, found.effective_classes, found.distance, strict=True)
    return [
        [str(client), str(size), str(classes), f"{effective:.2f}", f"{distance:.2f}"]
        for client, (size, classes, effective, distance) in enumerate(islice(columns, figures.SHOWN_CLIENTS))
    ]


def summary_rows(found: Heterogeneity) -> list[list[str]]:
    """Return the table of the measures over all clients, with what they are."""
    return [
        [name.replace("_", " "), f"{value:.3f}" if isinstance(value, float) else str(value), MEANINGS[name]]
        for name, value in found.summary().items()
    ]
