"""The report that compares runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from feddecorr.collapse.diagnosis import Diagnosis
from feddecorr.errors import UserError
from feddecorr.report import figures
from feddecorr.report.page import Section, write_page
from feddecorr.runs.about import AboutData
from feddecorr.runs.directory import ROSTER, RunDirectory
from feddecorr.runs.record import Record
from feddecorr.settings.words import flatten

Rounds = Mapping[str, Sequence[Record]]
"""The records of each run."""

Read = Callable[[Record], float | None]

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
TERM = "A term of the clients' objective: its mean over the examples that they saw in the round."


def write_report(directories: Sequence[Path], path: Path) -> None:
    """Compare the runs of these directories on one page."""
    runs = dict(zip(name_directories(directories), map(RunDirectory.open, directories), strict=True))
    rounds = {name: run.rounds() for name, run in runs.items()}
    for name, run in runs.items():
        if not rounds[name]:
            raise UserError(f"{run.path} has no finished round yet: 'feddecorr resume {run.path}' goes on")
    known = [*_labels(runs), _settings(runs)]  # all is read before the rest is drawn
    switches = list(runs) if len(runs) > 1 else []
    write_page(path, "Dimensional collapse, run by run", LEAD, [*_sections(rounds), *known], switches=switches)


def name_directories(directories: Sequence[Path]) -> list[str]:
    """Name each run by the last part of its path, and by as many parts as it takes to tell them apart."""
    paths = [directory.resolve() for directory in directories]
    if len(set(paths)) < len(paths):
        raise UserError("the same run is given twice")
    parts = 1
    while len({path.parts[-parts:] for path in paths}) < len(paths):
        parts += 1
    return ["/".join(path.parts[-parts:]) for path in paths]


def _sections(rounds: Rounds) -> Iterator[Section]:
    """Yield what the records tell: without test images, that is how the runs trained, and no more."""
    yield _summary(rounds)
    if any(map(_evaluated, rounds.values())):
        yield _spectra(rounds)
    terms = dict.fromkeys(term for every in rounds.values() for record in every for term in record.terms)
    measures: dict[str, tuple[str, Read]] = {
        "accuracy": (ACCURACY, lambda record: record.accuracy),
        "effective rank": (RANK, lambda record: record.effective_rank),
        "rank kept by averaging": (AVERAGING, _rank_kept),
        **{f"objective: {term}": (TERM, _read_term(term)) for term in terms},
    }
    for what, (text, read) in measures.items():
        curves = {name: _curve(every, read) for name, every in rounds.items()}
        if any(curves.values()):
            yield Section(f"{what.capitalize()} per round", text, figure=figures.over_rounds(curves, what))


def _rank_kept(record: Record) -> float | None:
    found = record.averaging
    if found is None or found.local_effective_rank == 0:
        return None
    return found.averaged_effective_rank / found.local_effective_rank


def _read_term(term: str) -> Read:
    return lambda record: record.terms.get(term)


def _curve(rounds: Sequence[Record], read: Read) -> list[tuple[int, float]]:
    return [(record.round, value) for record in rounds if (value := read(record)) is not None]


def _evaluated(rounds: Sequence[Record]) -> list[tuple[int, Diagnosis]]:
    return [(record.round, record.model) for record in rounds if record.model is not None]


def _summary(rounds: Rounds) -> Section:
    time = {name: f"{sum(record.seconds for record in every):.0f} s" for name, every in rounds.items()}
    if not any(map(_evaluated, rounds.values())):
        rows = [[name, str(every[-1].round), time[name]] for name, every in rounds.items()]
        return Section("At a glance", "No model was evaluated.", headings=["run", "round", "time"], rows=rows)
    headings = ["run", "round", "accuracy", "best", "effective rank", "significant singular values", "time"]
    text = (
        "Measured on the test images after the last evaluated round. The effective rank is the exponential of the "
        "entropy of the covariance's singular values; significant are those above τ with log τ = −2."
    )
    rows = [[name, *_measured(_evaluated(every)), time[name]] for name, every in rounds.items()]
    return Section("At a glance", text, headings=headings, rows=rows)


def _measured(found: Sequence[tuple[int, Diagnosis]]) -> list[str]:
    if not found:
        return [UNKNOWN] * 5
    number, last = found[-1]
    known = [model.accuracy for _, model in found if model.accuracy is not None]
    return [
        str(number),
        UNKNOWN if last.accuracy is None else f"{last.accuracy:.3f}",
        f"{max(known):.3f}" if known else UNKNOWN,
        f"{last.effective_rank:.1f} of {last.dimensions}",
        str(last.significant_singular_values),
    ]


def _spectra(rounds: Rounds) -> Section:
    models = {name: _evaluated(every) for name, every in rounds.items()}
    text = (
        "Singular values of the covariance of the test images' representations, largest first, after the last "
        f"evaluated round (at most {figures.SHOWN_VALUES} are drawn). The steeper the fall, the stronger the collapse."
    )
    values = {name: found[-1][1].singular_values if found else [] for name, found in models.items()}
    return Section("Singular spectra", text, figure=figures.spectra(values))


def _labels(runs: Mapping[str, RunDirectory]) -> Iterator[Section]:
    """Yield a picture for each split; runs with the same split share it."""
    shared: dict[tuple[AboutData, bytes], list[str]] = {}
    for name, run in runs.items():
        split = run.federation(), (run.path / ROSTER).read_bytes()
        shared.setdefault(split, []).append(name)
    for names in shared.values():
        about, counts = runs[names[0]].federation(), runs[names[0]].roster().labels
        if counts is None:
            continue
        note = f" Mind: {about.note}." if about.note else ""
        which = figures.shown_clients(counts.clients)
        text = f"Training examples per client and class: {', '.join(names)}.{which}{note}"
        yield Section("Who holds which labels", text, figures.labels(counts, about.classes))


def _settings(runs: Mapping[str, RunDirectory]) -> Section:
    flat = {name: flatten(run.described().to_dict()) for name, run in runs.items()}
    keys = dict.fromkeys(key for settings in flat.values() for key in settings)
    rows = [[key, *(str(settings.get(key, UNKNOWN)) for settings in flat.values())] for key in keys]
    rows.sort(key=lambda row: len(set(row[1:])) == 1)  # what differs first
    text = "The resolved experiments; settings that differ come first."
    return Section("Settings", text, headings=["setting", *runs], rows=rows)
