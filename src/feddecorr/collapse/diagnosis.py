"""The diagnosis of one model: every measure as a field, in a table, in a picture and in words."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from html import escape
from typing import TYPE_CHECKING, Any

from torch import Tensor, nn

from feddecorr.collapse.class_spread import ClassSpread
from feddecorr.collapse.comparison import ReferenceMeasures, compare
from feddecorr.collapse.gathered import Batch, Gathered, gather
from feddecorr.collapse.measures import DOCUMENT, MEMORY, Measures, Principal, is_recorded, is_written, measure_spread
from feddecorr.collapse.neural_collapse import ClassMeasures, DecisionMeasures, measure_classes, measure_decisions
from feddecorr.collapse.verdict import rows, sentences
from feddecorr.collapse.weights import WeightMeasures, measure_weights

if TYPE_CHECKING:
    from rich.console import RenderableType

ClassSpreads = Mapping[int, ClassSpread]
"""Count, mean and spread of each class, by its label."""

CustomMeasure = Callable[[Principal, ClassSpreads | None], float | None]
"""A custom measure: of all representations and, where there are labels, of those of each class."""


def measure_custom(
    measures: Mapping[str, CustomMeasure], principal: Principal, classes: ClassSpreads | None = None
) -> dict[str, float] | None:
    """Return the values of your own measures by name; what is None or not finite cannot be told."""
    found = {name: measure(principal, classes) for name, measure in measures.items()}
    return {name: float(value) for name, value in found.items() if value is not None and math.isfinite(value)} or None


@dataclass(frozen=True, kw_only=True, repr=False)
class Diagnosis(ReferenceMeasures, WeightMeasures, DecisionMeasures, ClassMeasures, Measures):
    """What was found out about one model's representations: from the pass over them to the report, this one value.

    Every measure is a field: `diagnosis.effective_rank`. None is what cannot be told, such as neural collapse
    without labels. `print` and notebooks show a table and the answer in words.
    """

    measures: dict[str, float] | None = None
    """Further measures by name, your own among them."""
    name: str = field(default="model", metadata=DOCUMENT)
    client: int | None = field(default=None, metadata=DOCUMENT)
    """Whose model it is, if it is not a global one."""
    homogeneous: bool = field(default=False, metadata=DOCUMENT)
    """Whether it is known to come from homogeneous data, and so is what others are compared with."""
    principal: Principal | None = field(default=None, compare=False, metadata=MEMORY)
    gathered: Gathered | None = field(default=None, compare=False, metadata=MEMORY)

    @classmethod
    def of(
        cls,
        name: str,
        gathered: Gathered,
        *,
        subject: Subject | None = None,
        measures: Mapping[str, CustomMeasure] | None = None,
    ) -> Diagnosis:
        """Compute all measures of what one pass has left, with what else is known of the model."""
        subject = subject or Subject()
        principal = Principal(gathered.statistics.moments)
        reference, model = subject.reference, subject.model
        weighed, compared = WeightMeasures(), ReferenceMeasures()
        if model is not None:
            weighed = measure_weights(model, subject.classifier, principal)
        if reference is not None and reference.principal is not None:
            compared = compare(reference.name, principal, reference.principal, gathered.together)
        return cls(
            name=name,
            principal=principal,
            gathered=gathered,
            measures=measure_custom(measures or {}, principal, gathered.statistics.classes),
            **vars(measure_spread(principal)),
            **vars(measure_classes(gathered.statistics, subject.classifier)),
            **vars(measure_decisions(gathered)),
            **vars(weighed),
            **vars(compared),
        )

    @classmethod
    def of_features(cls, name: str, batches: Iterable[Batch], reference: Diagnosis | None = None) -> Diagnosis:
        """Diagnose representations that come from anywhere."""
        return cls.of(name, gather(batches), subject=Subject(reference=reference))

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Diagnosis:
        """Return what `to_dict` or `recorded` wrote; what is not in it is not known."""
        return cls(**document)

    def to_dict(self) -> dict[str, Any]:
        """Return every measure under its plain name, ready for JSON."""
        return {"name": self.name} | {each.name: getattr(self, each.name) for each in fields(self) if is_written(each)}

    def recorded(self) -> dict[str, Any]:
        """Return what a run records of every round, ready for JSON: all known numbers, and the singular values."""
        found = {each.name: getattr(self, each.name) for each in fields(self) if is_recorded(each)}
        return {name: value for name, value in found.items() if value is not None}

    def lean(self) -> Diagnosis:
        """Return the measures without the matrices and samples behind them: of a hundred clients, those fill memory."""
        return replace(self, principal=None, gathered=None)

    def answer(self, reference: Diagnosis | None = None) -> list[str]:
        """Return the answer in sentences; with a reference (the homogeneous run, say), compared to it."""
        said = list(sentences(self, reference))
        return said if self.client is None else said[:2]  # clients are many

    def __repr__(self) -> str:
        return f"<Diagnosis of {self.name}: effective rank {self.effective_rank:.1f} of {self.maximum_rank}>"

    def __str__(self) -> str:
        table = [("measure", "value", "what it is"), *rows(self)]
        first, second = (max(len(row[column]) for row in table) for column in (0, 1))
        lines = [f"{name:<{first}}  {value:<{second}}  {what}" for name, value, what in table]
        return "\n".join([self.name, *lines, "", *self.answer()])

    def __rich__(self) -> RenderableType:
        from rich.console import Group  # noqa: PLC0415 - who asks has it
        from rich.table import Table  # noqa: PLC0415
        from rich.text import Text  # noqa: PLC0415

        table = Table("measure", "value", "what it is", title=self.name, title_justify="left")
        for row in rows(self):
            table.add_row(*map(Text, row))
        return Group(table, *map(Text, self.answer()))

    def _repr_html_(self) -> str:
        """Return the table and the words for a notebook."""
        lines = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in rows(self))
        said = "".join(f"<p>{escape(sentence)}</p>" for sentence in self.answer())
        return f"<table><caption>{escape(self.name)}</caption>{lines}</table>{said}"


def find_reference(diagnosis: Diagnosis, others: Sequence[Diagnosis]) -> Diagnosis | None:
    """Return what a diagnosis is best compared with.

    That is what it was compared with already (a local model with the global one), else a model trained on
    homogeneous data, else the first.
    """
    if diagnosis.reference is not None:
        return next((other for other in others if other.name == diagnosis.reference), None)
    first = next((other for other in others if other.homogeneous), others[0])
    return None if first is diagnosis else first


@dataclass(frozen=True)
class Subject:
    """What is known of a model besides its representations: itself, its classifier's weight, what to compare it to."""

    model: nn.Module | None = None
    classifier: Tensor | None = None
    reference: Diagnosis | None = None
