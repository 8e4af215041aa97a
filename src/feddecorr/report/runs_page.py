"""The report that compares runs."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from feddecorr.errors import UserError
from feddecorr.report import figures
from feddecorr.report.page import Section, write_page
from feddecorr.runs.directory import RunDirectory

Rounds = list[dict[str, Any]]

LEAD = (
    "Each run trains one global model on clients whose data differ. A model has collapsed when its representations "
    "lie in few of their dimensions: then the singular values of their covariance fall off quickly, and the "
    "effective rank is low."
)


def write_report(directories: Sequence[Path], path: Path) -> None:
    """Compare the runs of these directories on one page."""
    runs = dict(zip(name_directories(directories), map(RunDirectory.open, directories), strict=True))
    rounds = {name: run.rounds() for name, run in runs.items()}
    for name, run in runs.items():
        if not any(found["accuracy"] is not None for found in rounds[name]):
            raise UserError(f"{run.path} has no evaluated round yet: 'feddecorr resume {run.path}' goes on")
    sections = [_summary(rounds), _spectra(rounds), _accuracy(rounds), _ranks(rounds)]
    write_page(path, "Dimensional collapse, run by run", LEAD, [*sections, *_labels(runs), _settings(runs)])


def name_directories(directories: Sequence[Path]) -> list[str]:
    """Name each run by the last part of its path, and by as many parts as it takes to tell them apart."""
    paths = [directory.resolve() for directory in directories]
    if len(set(paths)) < len(paths):
        raise UserError("the same run is given twice")
    parts = 1
    while len({path.parts[-parts:] for path in paths}) < len(paths):
        parts += 1
    return ["/".join(path.parts[-parts:]) for path in paths]


def _evaluated(rounds: Rounds) -> Rounds:
    return [found for found in rounds if found["accuracy"] is not None]


def _summary(rounds: Mapping[str, Rounds]) -> Section:
    rows = []
    for name, every in rounds.items():
        found = _evaluated(every)
        last = found[-1]
        rows.append(
            [
                name,
                str(last["round"]),
                f"{last['accuracy']:.3f}",
                f"{max(each['accuracy'] for each in found):.3f}",
                f"{last['effective_rank']:.1f} of {len(last['singular_values'])}",
                str(last["significant_singular_values"]),
                f"{sum(each['seconds'] for each in every):.0f} s",
            ]
        )
    headings = ["run", "round", "accuracy", "best", "effective rank", "significant singular values", "time"]
    text = (
        "Measured on the test images after the last evaluated round. The effective rank is the exponential of the "
        "entropy of the covariance's singular values; significant are those above τ with log τ = −2."
    )
    return Section("At a glance", text, headings=headings, rows=rows)


def _spectra(rounds: Mapping[str, Rounds]) -> Section:
    values = {name: _evaluated(every)[-1]["singular_values"] for name, every in rounds.items()}
    text = (
        "Singular values of the covariance of the test images' representations, largest first, after the last "
        f"evaluated round (at most {figures.SHOWN_VALUES} are drawn). The steeper the fall, the stronger the collapse."
    )
    return Section("Singular spectra", text, figure=figures.spectra(values))


def _over_rounds(rounds: Mapping[str, Rounds], measure: str) -> dict[str, list[tuple[int, float]]]:
    return {name: [(found["round"], found[measure]) for found in _evaluated(every)] for name, every in rounds.items()}


def _accuracy(rounds: Mapping[str, Rounds]) -> Section:
    text = (
        "Accuracy of the global model on the test images. With strong heterogeneity it swings from round to round: "
        "compare the level of the last rounds, over several seeds, rather than single points."
    )
    return Section("Accuracy per round", text, figure=figures.over_rounds(_over_rounds(rounds, "accuracy"), "accuracy"))


def _ranks(rounds: Mapping[str, Rounds]) -> Section:
    drawn = figures.over_rounds(_over_rounds(rounds, "effective_rank"), "effective rank")
    return Section("Effective rank per round", "How many dimensions the representations use, in effect.", figure=drawn)


def _labels(runs: Mapping[str, RunDirectory]) -> Iterator[Section]:
    """Yield a picture for each split; runs with the same split share it."""
    shared: dict[str, list[str]] = {}
    for name, run in runs.items():
        shared.setdefault(json.dumps(run.federation()), []).append(name)
    for stored, names in shared.items():
        split = json.loads(stored)
        drawn = figures.labels(split["counts"], split["classes"])
        note = f" Mind: {split['note']}." if split["note"] else ""
        text = f"Training examples per client and class: {', '.join(names)}.{note}"
        yield Section("Who holds which labels", text, drawn)


def _settings(runs: Mapping[str, RunDirectory]) -> Section:
    flat = {name: _flatten(run.experiment().to_dict()) for name, run in runs.items()}
    keys = dict.fromkeys(key for settings in flat.values() for key in settings)
    rows = [[key, *(str(settings.get(key, "–")) for settings in flat.values())] for key in keys]
    rows.sort(key=lambda row: len(set(row[1:])) == 1)  # what differs first
    text = "The resolved experiments; settings that differ come first."
    return Section("Settings", text, headings=["setting", *runs], rows=rows)


def _flatten(settings: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in settings.items():
        flat |= _flatten(value, f"{prefix}{key}.") if isinstance(value, dict) else {f"{prefix}{key}": value}
    return flat
