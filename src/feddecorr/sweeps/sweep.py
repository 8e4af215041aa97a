"""Sweeps: an experiment, the settings that are varied, and the combinations to run."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import product
from typing import Any

from pydantic import Field, PositiveInt, ValidationError

from feddecorr.config.experiment import Experiment
from feddecorr.config.overrides import SEVERAL, read_overrides
from feddecorr.core.registry import Config, explain
from feddecorr.core.trust import CLOSED, Trust
from feddecorr.errors import UserError
from feddecorr.report.figures import bands
from feddecorr.report.picture import SPECTRUM, line_styles
from feddecorr.results.conditions import Condition, by_name
from feddecorr.results.curves import Curve, band, per_round, spectrum
from feddecorr.results.groups import Cell, gather
from feddecorr.results.names import ABSENT, columns
from feddecorr.results.study import Arm, Figure, Finding, Label, Labels, Result, Study, Table
from feddecorr.results.summary import STATISTICS
from feddecorr.settings.flat import overrides, parse_settings, text, to_settings
from feddecorr.settings.options import REGISTRIES, RunOptions
from feddecorr.settings.short_keys import KEYS, full_keys

Combination = dict[str, Any]
"""A value for every setting that is varied; None where the combination has no such setting."""

MOST_LINES = 16
"""More lines than this cannot be distinguished in a figure."""

NOTE = (
    "Accuracy (%) of the global model after the last evaluated round, as the mean of the last ten, and of the best: "
    "mean ± standard deviation over the seeds. The effective rank is that after the last."
)


class Sweep(Config):
    """The table `[sweep]` next to an experiment's settings."""

    over: dict[str, list[Any]] = Field({}, description="the values of each setting that is varied")
    seeds: PositiveInt | None = Field(None, description="number of seeds to repeat everything with")
    where: list[str] = Field([], description="conditions that every combination must fulfil")

    @classmethod
    def parse(cls, table: Any, trust: Trust | None = None) -> Sweep:
        """Validate the table, or say what is wrong with it."""
        try:
            return cls.model_validate(table, context=trust)
        except ValidationError as error:
            said = [f"sweep{': ' if line.startswith('unknown') else '.'}{line}" for line in explain(error).splitlines()]
            raise UserError("\n".join(said)) from error


def read_over(word: str) -> tuple[str, list[Any]]:
    """Parse `key=a,b,c`; a value with commas of its own stands in brackets: `model.widths=[8,16],[16,32]`."""
    key, equals, values = word.partition("=")
    if not equals or not all(key.split(".")) or not values:
        raise UserError(f"--over '{word}': expected key=value,value,…, such as partition.alpha=0.05,0.5")
    return key, [read_overrides([f"value={value}"])["value"] for value in _split(values)]


def _split(values: str) -> Iterator[str]:
    """Split at commas that are outside of brackets."""
    depth = start = 0
    for place, letter in enumerate(values):
        depth += (letter in "[{") - (letter in "]}")
        if letter == "," and depth == 0:
            yield values[start:place].strip()
            start = place + 1
    yield values[start:].strip()


class SweepStudy(Study):
    """All combinations of a sweep, and a table of them."""

    place = "your own"

    def __init__(self, name: str, settings: Mapping[str, Any], sweep: Sweep, trust: Trust | None = None) -> None:
        self.name = name
        self._trust = trust
        self._settings = settings
        chosen = [
            _override({key: value}, settings)
            for key, values in sweep.over.items()
            for value in values
            if key.partition(".")[0] in KEYS
        ]
        full = full_keys(set(sweep.over), [settings, *chosen], trust)
        over = {full.get(key, key): values for key, values in sweep.over.items()}
        self._axes = {key: values for key, values in over.items() if key != "seed"}
        self._seeds: list[int] | None = over.get("seed")
        self._conditions = [Condition(condition) for condition in sweep.where]
        self.shows = f"All combinations of {', '.join(self._axes) or 'nothing'}"
        for key, values in over.items():
            if not values:
                raise UserError(f"sweep.over: {key} has no values")

    def arms(self, scale: str, seeds: int) -> list[Arm]:  # noqa: ARG002 - a sweep has the scale that its settings have
        """Return a run for each combination and seed; a seed is complete before the next one begins."""
        # Combinations that are the same once an option is left out are one.
        arms: dict[tuple[Experiment, RunOptions], Arm] = {}
        first = int(self._settings.get("seed", 0))
        used: set[str] = set()
        for seed in self._seeds or range(first, first + seeds):
            for values in product(*self._axes.values()):
                combination, settings = self._combine(dict(zip(self._axes, values, strict=True)))
                used |= {key for key, value in combination.items() if value is not None}
                if found := self._parse({**settings, "seed": seed}):
                    arms.setdefault(found, Arm(_labels(combination, seed), *found))
        if useless := [key for key in self._axes if key not in used]:
            raise UserError(f"nothing that is chosen in this sweep has an option '{useless[0]}'")
        if not arms:
            raise UserError("no combination of the sweep is left: see its conditions")
        return list(arms.values())

    def _combine(self, chosen: Combination) -> tuple[Combination, dict[str, Any]]:
        """Return the combination and its settings, without options of kinds that it did not choose."""
        whole = {key: value for key, value in chosen.items() if "." not in key}
        settings = _override(whole, self._settings)
        parts = {key: value for key, value in chosen.items() if "." in key and self._has(key, settings)}
        return {key: (whole | parts).get(key) for key in chosen}, _override(parts, settings)

    def _has(self, key: str, settings: Mapping[str, Any]) -> bool:
        """Tell whether the kind that these settings choose has this option."""
        top, option = key.split(".")[:2]
        if top not in self._axes or top not in REGISTRIES:
            return True
        if top in SEVERAL:
            return option in settings[top]
        known = REGISTRIES[top].chosen(settings[top], CLOSED)
        return known is None or option in known.model_fields  # a user's own class validates its options itself

    def _parse(self, settings: dict[str, Any]) -> tuple[Experiment, RunOptions] | None:
        """Return the run if the combination is wanted; only then must its settings be valid."""
        try:
            found = parse_settings(settings, self._trust)
        except UserError:
            if self._is_wanted(settings):
                raise
            return None
        return found if self._is_wanted(to_settings(*found)) else None

    def _is_wanted(self, settings: Mapping[str, Any]) -> bool:
        return all(condition.holds(by_name(settings)) for condition in self._conditions)

    def findings(self, results: Sequence[Result], scale: str) -> list[Finding]:  # noqa: ARG002 - see arms
        """Return mean ± standard deviation over the seeds for each combination, and a line for each if they are few."""
        cells = gather(results)
        labels, words = columns([(cell.labels, cell.named()) for cell in cells])
        headings = [*labels, "seeds", *STATISTICS.values(), "effective rank"]
        rows = [[*own, *_numbers(cell)] for own, cell in zip(words, cells, strict=True)]
        found: list[Finding] = [Table("All combinations", headings, rows, NOTE)]
        known = [cell for cell in cells if cell.runs]
        if 0 < len(known) <= MOST_LINES:
            found += (_figure(known, *each) for each in CURVES.items())
        return found


def _override(values: Mapping[str, Any], onto: Mapping[str, Any]) -> dict[str, Any]:
    return read_overrides((word for key, value in values.items() for word in overrides(key, value)), onto=onto)


def _labels(combination: Combination, seed: int) -> Labels:
    """Return the values that are varied; of a whole table, the kind and each of its options."""
    labels: dict[str, Label] = {}
    for key, value in combination.items():
        words = overrides(key, value) if isinstance(value, Mapping) else []
        parts = {option: said for option, _, said in (word.partition("=") for word in words)}
        labels |= {option: _label(read_overrides([f"value={said}"])["value"]) for option, said in parts.items()}
        if not parts:
            labels[key] = _label(value)
        if key in SEVERAL:
            labels[key] = str(labels[key]).replace(",", "+")
    return {**labels, "seed": seed}


def _label(value: Any) -> Label:
    if value is None:
        return ABSENT
    return value if isinstance(value, str | int) or (isinstance(value, float) and math.isfinite(value)) else text(value)


def _numbers(cell: Cell) -> list[str]:
    return [
        cell.count,
        *(cell.text(cell.sample(name), factor=100) for name in STATISTICS),
        cell.text(cell.sample("last", "effective_rank"), 1),
    ]


CURVES: dict[str, tuple[Curve, tuple[str, str]]] = {
    "Accuracy per round": (per_round("accuracy", 100), ("round", "accuracy (%)")),
    "Effective rank per round": (per_round("effective_rank"), ("round", "effective rank")),
    "Singular spectra": (spectrum, SPECTRUM),
}
"""What is drawn of the global models, each with its axes."""


def _figure(cells: Sequence[Cell], title: str, drawn: tuple[Curve, tuple[str, str]]) -> Figure:
    read, axes = drawn
    lines = {cell.name(): band([read(run) for run in cell.runs.values()]) for cell in cells}
    shown = line_styles({cell.name(): cell.named() for cell in cells})
    note = "Of the global model, mean over the seeds; bands reach one standard deviation up and down."
    return Figure(title, partial(bands, lines, *axes, threshold=axes is SPECTRUM, styles=shown), note)
