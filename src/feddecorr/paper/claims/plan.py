"""The declared plan: which questions are asked of records, and with how many seeds; written before the runs."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date
from functools import cached_property
from pathlib import Path

from pydantic import BaseModel, ConfigDict, PositiveInt, ValidationError, field_validator

from feddecorr.errors import UserError, nearest
from feddecorr.paper.studies import STUDIES
from feddecorr.results.conditions import Condition, by_name
from feddecorr.results.groups import Context, experiment_context
from feddecorr.results.study import Arm
from feddecorr.settings.flat import to_settings

PLAN = "plan.toml"
"""The name of the file, next to the records."""


class Question(BaseModel):
    """A study at a scale, or those of its runs that meet a condition, with the seeds from 0 on, declared on a day."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    study: str
    scale: str
    seeds: PositiveInt
    declared: date
    where: str = ""

    def arms(self) -> Iterable[Arm]:
        """Yield the runs of its first seed."""
        wanted = Condition(self.where) if self.where else None
        for arm in STUDIES[self.study].arms(self.scale, 1):
            if wanted is None or wanted.holds(by_name(to_settings(arm.experiment, arm.options))):
                yield arm

    @field_validator("study")
    @classmethod
    def _is_ours(cls, name: str) -> str:
        """Take this package's studies alone: a file imports nothing."""
        if name not in STUDIES:
            raise ValueError(f"unknown study '{name}': {nearest(name, STUDIES)}")
        return name


@dataclass(frozen=True)
class Plan:
    """All questions, in the order in which they are to be answered."""

    questions: Sequence[Question] = ()

    @cached_property
    def declared(self) -> dict[Context, int]:
        """How many seeds each setting has: the most that a question gives it."""
        found: dict[Context, int] = {}
        for question in self.questions:
            for arm in question.arms():
                key = experiment_context(arm.experiment.content(), arm.options.rounds)
                found[key] = max(found.get(key, 0), question.seeds)
        return found


def read_plan(path: Path) -> Plan:
    """Return the plan that a file declares."""
    try:
        document = tomllib.loads(path.read_text())
        unknown = document.keys() - {"question"}
        if unknown:
            raise UserError(f"{path}: a plan has [[question]] tables alone, not {', '.join(sorted(unknown))}")
        return Plan([Question.model_validate(entry) for entry in document.get("question", [])])
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise UserError(f"{path} is not a plan that can be read: {error}") from error
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise UserError(f"{path}: {place}: {first['msg']}; a question has study, scale, seeds and declared") from error
