"""A claim with its verdict, and how the parts of the evidence come to it."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from feddecorr.studies.claims.duels import Run
from feddecorr.studies.claims.rules import FEWEST_SEEDS, Rule, decide, seeds_needed
from feddecorr.studies.contexts import context
from feddecorr.studies.sample import Sample

HOLDS, FAILS, OPEN = "holds", "does not hold", "not measured"
VERDICTS = {True: HOLDS, False: FAILS, None: OPEN}


@dataclass(frozen=True)
class Unit:
    """How a number is shown."""

    name: str
    shown: Callable[[float], float]

    def dump(self, value: float) -> float | None:
        """Return the shown number; None if there is none."""
        return round(self.shown(value), 4) if math.isfinite(value) else None


POINTS = Unit("percentage points", lambda value: 100 * value)
PERCENT = Unit("%", lambda value: 100 * math.expm1(min(value, 300.0)))


@dataclass(frozen=True)
class Part:
    """One number by seed that the claim is about, and the rule for it; `also` are other statistics of the same."""

    says: str
    sample: Sample
    rule: Rule
    unit: Unit
    also: Mapping[str, Sample] = field(default_factory=dict)

    @property
    def answer(self) -> bool | None:
        """Whether this part of the claim is true."""
        return decide(self.rule, self.sample)

    def text(self) -> str:
        """Return it in few words."""
        if not self.sample.values:
            return f"{self.says}: not measured"
        return f"{self.says}: {self.unit.shown(self.sample.mean):+.2f} {self.unit.name}"

    def to_dict(self) -> dict[str, Any]:
        """Return it ready for JSON."""
        others = {name: _numbers(sample, self.unit) for name, sample in self.also.items()}
        return {"unit": self.unit.name, **_numbers(self.sample, self.unit), **others}


def _numbers(sample: Sample, unit: Unit) -> dict[str, Any]:
    return {
        "mean": unit.dump(sample.mean),
        "interval": [unit.dump(sample.low), unit.dump(sample.high)],
        "positive": sample.wins,
        "seeds": len(sample),
    }


@dataclass(frozen=True)
class Trial:
    """A claim in one setting: all of its parts must be true; `is_papers` marks the paper's own strength of the loss."""

    setting: str
    parts: Sequence[Part]
    runs: Sequence[Run]
    is_papers: bool = True

    @property
    def seeds(self) -> int:
        """The seeds of the part that has the fewest."""
        return min(len(part.sample) for part in self.parts)

    @property
    def verdict(self) -> str:
        """All parts must be true; one that is false is enough."""
        answers = [part.answer for part in self.parts]
        return VERDICTS[False if False in answers else None if None in answers else True]

    @property
    def deciding(self) -> Part:
        """The part that the verdict hangs on: one that is false, else one that cannot tell, else the first."""
        return next((part for answer in (False, None) for part in self.parts if part.answer is answer), self.parts[0])

    @property
    def needed(self) -> int | None:
        """How many seeds would decide it, if that is fewer than a thousand."""
        needs = [seeds_needed(part.rule, part.sample) for part in self.parts if part.answer is None]
        return max((need for need in needs if need is not None), default=None) if None not in needs else None

    @cached_property
    def common(self) -> dict[str, str]:
        """The settings that all of its runs have in common."""
        first, *others = (set(context(run.summary)) for run in self.runs)
        return dict(sorted(first.intersection(*others)))

    def weight(self) -> tuple[Any, ...]:
        """Return what makes one setting decide and not another; the outcome is no part of it."""
        work = max(run.work for run in self.runs)
        return (not self.is_papers, -self.seeds, -len(self.runs), -work, list(self.common.items()))

    def against(self, other: Trial) -> dict[str, Any]:
        """Return its verdict, and in which settings it is not the other."""
        told = [f"{key}={json.loads(value)}" for key, value in self.common.items() if other.common.get(key) != value]
        return {
            "setting": " ".join(told) or self.setting,
            "verdict": self.verdict,
            "found": self.deciding.text(),
            "seeds": self.seeds,
        }


@dataclass(frozen=True)
class Claim:
    """What the paper says, and whether it holds.

    `numbers` are all parts in the setting that decides; `interval` is that of the part that the verdict hangs on,
    which `found` puts into words. `needed` is the number of seeds that would decide what is not measured (None if
    it is decided, or would take too many). `elsewhere` are the verdicts in all other settings of the records.
    """

    number: int
    sentence: str
    verdict: str
    numbers: Mapping[str, Any]
    seeds: int
    interval: tuple[float | None, float | None] | None
    commands: Sequence[str]
    needed: int | None = None
    found: str = ""
    setting: str = ""
    elsewhere: Sequence[Mapping[str, Any]] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return it ready for JSON."""
        values = {name: getattr(self, name) for name in self.__dataclass_fields__ if name != "number"}
        plain = {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}
        return {"claim": self.number, **plain}


def judge_trials(number: int, sentence: str, trials: Sequence[Trial], study: str) -> Claim:
    """Return the claim as judged in the setting with the most evidence; without any, with the command that makes it."""
    if not trials:
        command = f"feddecorr reproduce {study} --scale small --seeds {FEWEST_SEEDS}"
        return Claim(number, sentence, OPEN, {}, 0, None, [command], FEWEST_SEEDS, "no runs that answer it")
    first, *others = sorted(trials, key=Trial.weight)
    part = first.deciding
    ends = (part.unit.dump(part.sample.low), part.unit.dump(part.sample.high)) if part.sample.values else None
    return Claim(
        number=number,
        sentence=sentence,
        verdict=first.verdict,
        numbers={each.says: each.to_dict() for each in first.parts},
        seeds=len(part.sample),
        interval=ends,
        commands=sorted({run.summary.command for run in first.runs}),
        needed=first.needed if first.verdict == OPEN else None,
        found=part.text(),
        setting=first.setting,
        elsewhere=[other.against(first) for other in others],
    )
