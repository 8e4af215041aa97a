"""A claim with its verdict: when an interval decides, and how the parts of the evidence come to a verdict.

The rules were written before the runs, and docs/claims.md explains them. Every rule looks at the 95 % interval of a
mean over seeds, and answers yes, no, or open. Numbers are turned so that what is claimed is positive.
Seen from the other side (numbers negated, claim reversed) each rule gives the same answer.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from statistics import fmean
from typing import Any

from feddecorr.paper.claims.evidence import PRIMARY, PairedRuns, Run, group
from feddecorr.results.groups import context
from feddecorr.results.sample import Sample, half_width

DecisionRule = Callable[[float, float], bool | None]
"""From the ends of an interval: the claim holds, it does not, or it is open."""

FEWEST_SEEDS = 5
MOST_SEEDS = 1000
"""The number of seeds that would settle a question is reported up to this one."""

LEVEL = 0.05
"""The p-value, corrected for many questions, up to which a gain in accuracy counts."""

POINT = 0.01
"""A difference in accuracy that counts: one percentage point."""

TENTH = math.log(1.1)
"""A factor that counts: ten percent, as a difference of logarithms."""

HALF = math.log(1.5)
"""A jump: half as much again, as a difference of logarithms."""


def increases(size: float) -> DecisionRule:
    """Say yes above zero; no if an increase of that size is excluded, and zero is not."""
    return lambda low, high: _answer(low > 0, high < size)


def does_not_increase(size: float) -> DecisionRule:
    """Say the opposite of `increases`."""
    return lambda low, high: _answer(high < size and not low > 0, low > 0)


def stays_within(margin: float) -> DecisionRule:
    """Say yes if all of the interval is within the margin around zero; no if all of it is outside."""
    return lambda low, high: _answer(-margin < low and high < margin, low > margin or high < -margin)


def stays_below(limit: float) -> DecisionRule:
    """Say yes if all of the interval is below the limit; no if all of it is above."""
    return lambda low, high: _answer(high < limit, low > limit)


def _answer(yes: bool, no: bool) -> bool | None:
    return True if yes else False if no else None


def decide(rule: DecisionRule, sample: Sample) -> bool | None:
    """Return the rule's answer; with too few seeds, or fewer than planned, it is open."""
    return rule(sample.low, sample.high) if len(sample) >= FEWEST_SEEDS and sample.is_complete else None


def seeds_needed(rule: DecisionRule, sample: Sample) -> int | None:
    """Return how many seeds would decide if mean and deviation stayed as they are; None beyond a thousand."""
    if len(sample) < 2:
        return sample.declared or FEWEST_SEEDS
    for count in range(max(FEWEST_SEEDS, sample.declared or 0), MOST_SEEDS + 1):
        half = half_width(sample.deviation, count)
        if rule(sample.mean - half, sample.mean + half) is not None:
            return count
    return None


def holm(p_values: Sequence[float]) -> list[float]:
    """Return the p-values corrected for their number (Holm, 1979), in the same order."""
    corrected = [1.0] * len(p_values)
    largest = 0.0
    for place, index in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        largest = max(largest, min(1.0, (len(p_values) - place) * p_values[index]))
        corrected[index] = largest
    return corrected


HOLDS, PARTLY, FAILS, OPEN = "holds", "partly", "does not hold", "not measured"
ANSWERS = {True: "true", False: "not true", None: "open"}


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
class ClaimPart:
    """One number by seed that the claim is about, and the rule for it.

    `also` are other statistics of the same, `paper` is the paper's own number, `pair` are the two arms if it is about
    one pair. A part that says that accuracy increases is `tested`: its p-value is `corrected` for all others that do.
    """

    says: str
    sample: Sample
    rule: DecisionRule
    unit: Unit
    also: Mapping[str, Sample] = field(default_factory=dict)
    paper: float | None = None
    tested: bool = False
    corrected: float | None = None
    pair: PairedRuns | None = None

    @property
    def answer(self) -> bool | None:
        """Whether this part of the claim is true."""
        found = decide(self.rule, self.sample)
        return None if found and self.corrected is not None and self.corrected > LEVEL else found

    @property
    def is_precise(self) -> bool:
        """Whether there are enough seeds, whatever they say: of accuracy, for an interval of a point to each side."""
        return len(self.sample) >= FEWEST_SEEDS and (self.unit is not POINTS or self.sample.half_width <= POINT)

    def text(self) -> str:
        """Return it in few words."""
        if not self.sample.values:
            return f"{self.says}: not measured"
        return f"{self.says}: {self.unit.shown(self.sample.mean):+.2f} {self.unit.name}"

    def to_dict(self) -> dict[str, Any]:
        """Return it ready for JSON."""
        p_value = self.sample.p_value
        return {
            "answer": ANSWERS[self.answer],
            "unit": self.unit.name,
            **_numbers(self.sample, self.unit),
            "declared": self.sample.declared,
            "p_value": p_value if math.isfinite(p_value) else None,
            "corrected_p_value": self.corrected,
            "paper": None if self.paper is None else self.unit.dump(self.paper),
            "statistics": {name: _numbers(sample, self.unit) for name, sample in self.also.items()},
        }


def _numbers(sample: Sample, unit: Unit) -> dict[str, Any]:
    return {
        "mean": unit.dump(sample.mean),
        "interval": [unit.dump(sample.low), unit.dump(sample.high)],
        "positive": sample.wins,
        "seeds": len(sample),
    }


@dataclass(frozen=True)
class Fact:
    """A part without seeds: computed, or measured by a benchmark."""

    says: str
    answer: bool
    numbers: Mapping[str, Any]

    def text(self) -> str:
        """Return it in few words."""
        return self.says

    def to_dict(self) -> dict[str, Any]:
        """Return it ready for JSON."""
        return {"answer": ANSWERS[self.answer], **self.numbers}


def verdict_of(answers: Sequence[bool | None]) -> str:
    """Return what the answers of all parts come to."""
    if answers and all(answers):
        return HOLDS
    if True in answers:
        return PARTLY
    return FAILS if False in answers else OPEN


@dataclass(frozen=True)
class Trial:
    """A claim in one setting; `is_papers` marks the paper's own strength of the loss."""

    setting: str
    parts: Sequence[ClaimPart]
    runs: Sequence[Run]
    is_papers: bool = True

    @property
    def is_complete(self) -> bool:
        """Whether seeds were planned for all parts, if there is a plan, and all of them are done."""
        return all(part.sample.declared != 0 and part.sample.is_complete for part in self.parts)

    @property
    def seeds(self) -> int:
        """The seeds of the part that has the fewest."""
        return min(len(part.sample) for part in self.parts)

    @property
    def verdict(self) -> str:
        """What its parts come to, once their seeds are done."""
        return verdict_of([part.answer for part in self.parts]) if self.is_complete else OPEN

    @property
    def needed(self) -> int | None:
        """How many seeds would settle what is open, if that is at most a thousand."""
        needs = [seeds_needed(part.rule, part.sample) for part in self.parts if part.answer is None]
        return max((need for need in needs if need is not None), default=None) if None not in needs else None

    @cached_property
    def common(self) -> dict[str, str]:
        """The settings that all of its runs have in common."""
        first, *others = (set(context(run.summary)) for run in self.runs)
        return dict(sorted(first.intersection(*others)))

    @property
    def conditions(self) -> dict[str, str]:
        """The data, the images, their size and the network, and the accuracy in percent without a regularizer."""
        found = [run.conditions for run in self.runs]
        values = {name: ", ".join(sorted({each[name] for each in found})) for name in found[0]}
        return {**values, "accuracy": _span(self._levels())}

    def _levels(self) -> list[float]:
        """Return the mean accuracy in the last round for each setting without a regularizer."""
        plain = {id(run.summary): run for run in self.runs if not run.regularizers}
        levels = [[run.summary.statistic(PRIMARY) for run in same] for same in group(plain.values())]
        known = [[100 * value for value in values if value is not None] for values in levels]
        return [fmean(values) for values in known if values]

    def order(self) -> tuple[Any, ...]:
        """Return what makes one setting answer and not another: seeds enough, then fidelity; never the outcome."""
        declared = all(part.sample.declared != 0 for part in self.parts)
        enough = self.is_complete and all(part.is_precise for part in self.parts)
        fidelity = [max(values) for values in zip(*(run.fidelity for run in self.runs), strict=True)]
        settings = [(key, _sortable(value)) for key, value in self.common.items()]
        return (
            not enough,
            not declared,
            not self.is_papers,
            *(-each for each in fidelity),
            -self.seeds,
            -len(self.runs),
            settings,
        )

    def against(self, other: Trial) -> dict[str, Any]:
        """Return its verdict, and in which settings it is not the other."""
        different = [
            f"{key}={json.loads(value)}" for key, value in self.common.items() if other.common.get(key) != value
        ]
        return {
            "setting": " ".join(different) or self.setting,
            "verdict": self.verdict,
            "parts": {part.says: part.to_dict() for part in self.parts},
            "seeds": self.seeds,
        }


def _span(levels: Sequence[float]) -> str:
    """Return the least and the largest of some numbers; one, if they are shown the same."""
    ends = dict.fromkeys(f"{end:.0f}" for end in (min(levels), max(levels))) if levels else ["–"]
    return "–".join(ends)


def _sortable(value: str) -> tuple[float, str]:
    """Return a setting's value so that numbers sort as numbers, and infinity after them."""
    parsed = json.loads(value)
    return (float(parsed), "") if isinstance(parsed, int | float) else (-math.inf, value)


@dataclass(frozen=True)
class Claim:
    """What is claimed, and whether it holds.

    `needed` is the number of seeds that would settle what is open (None if it is settled, or would take too many).
    `conditions` are data, images, size, network and accuracy of its runs, `setting` is what else they have in common.
    `elsewhere` are the verdicts in all other settings of the records, without a correction for many questions.
    """

    number: str
    sentence: str
    verdict: str
    parts: Sequence[ClaimPart | Fact]
    commands: Sequence[str]
    needed: int | None = None
    setting: str = ""
    conditions: Mapping[str, str] = field(default_factory=dict)
    elsewhere: Sequence[Mapping[str, Any]] = ()

    @property
    def says(self) -> str:
        """Which parts are true, not true and open."""
        reasons = {
            word: "; ".join(part.text() for part in self.parts if part.answer is answer)
            for answer, word in ANSWERS.items()
        }
        return " | ".join(f"{word}: {texts}" for word, texts in reasons.items() if texts) or "no runs that answer it"

    @property
    def seeds(self) -> str:
        """Seeds done, of how many were declared, of the part that has the fewest."""
        samples = [part.sample for part in self.parts if isinstance(part, ClaimPart)]
        if not samples:
            return "–"
        least = min(samples, key=len)
        if least.declared is None:
            return str(len(least))
        return f"{len(least)} of {least.declared}" if least.declared else f"{len(least)}, none declared"

    def to_dict(self) -> dict[str, Any]:
        """Return it ready for JSON."""
        return {
            "claim": self.number,
            "sentence": self.sentence,
            "verdict": self.verdict,
            "says": self.says,
            "parts": {part.says: part.to_dict() for part in self.parts},
            "setting": self.setting,
            "conditions": dict(self.conditions),
            "elsewhere": list(self.elsewhere),
            "needed": self.needed,
            "commands": list(self.commands),
        }


def judge_trials(number: str, sentence: str, trials: Sequence[Trial], study: str) -> Claim:
    """Return the claim as judged in the setting that answers; without any, with the command that makes one."""
    if not trials:
        command = f"feddecorr reproduce {study} --scale small --seeds {FEWEST_SEEDS}"
        return Claim(number, sentence, OPEN, [], [command], FEWEST_SEEDS)
    first, *others = sorted(trials, key=Trial.order)
    return Claim(
        number=number,
        sentence=sentence,
        verdict=first.verdict,
        parts=first.parts,
        commands=sorted({run.summary.command for run in first.runs}),
        needed=first.needed,
        setting=first.setting,
        conditions=first.conditions,
        elsewhere=[other.against(first) for other in others],
    )


def correct_trials(found: Mapping[str, Iterable[Trial]]) -> dict[str, list[Trial]]:
    """Correct the p-values of the settings that answer, over all claims together; the same numbers count once."""
    trials = {number: list(each) for number, each in found.items()}
    answering = {number: min(each, key=Trial.order) for number, each in trials.items() if each}
    tested = {
        _key(part): part.sample.p_value
        for trial in answering.values()
        for part in trial.parts
        if part.tested and math.isfinite(part.sample.p_value)
    }
    corrected = dict(zip(tested, holm(list(tested.values())), strict=True))

    def correct(trial: Trial) -> Trial:
        parts = [replace(part, corrected=corrected.get(_key(part))) if part.tested else part for part in trial.parts]
        return replace(trial, parts=parts)

    return {
        number: [correct(trial) if trial is answering[number] else trial for trial in each]
        for number, each in trials.items()
    }


def _key(part: ClaimPart) -> tuple[tuple[int, float], ...]:
    return tuple(sorted(part.sample.values.items()))
