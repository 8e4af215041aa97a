"""The diagnosis of one model: every measure as an attribute, in a table, in a picture and in words."""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from html import escape
from typing import TYPE_CHECKING, Any

from torch import Tensor, nn

from feddecorr.collapse import answer as words
from feddecorr.collapse.comparison import Comparison
from feddecorr.collapse.decisions import DecisionMeasures
from feddecorr.collapse.gathered import Batch, Gathered, gather
from feddecorr.collapse.measures import Measures, Principal
from feddecorr.collapse.neural_collapse import ClassMeasures
from feddecorr.collapse.weights import WeightMeasures

if TYPE_CHECKING:
    import plotly.graph_objects as go
    from rich.console import RenderableType

PARTS: dict[str, type[Any]] = {
    "spread": Measures,
    "labelled": ClassMeasures,
    "decided": DecisionMeasures,
    "weighed": WeightMeasures,
    "compared": Comparison,
}


@dataclass(frozen=True, repr=False)
class Diagnosis:
    """What was found out about one model's representations.

    Every measure of its parts is an attribute: `diagnosis.effective_rank`. None is what cannot be told, such as
    neural collapse without labels. `print` and notebooks show a table and the answer in words.
    """

    name: str
    spread: Measures
    labelled: ClassMeasures | None
    decided: DecisionMeasures | None
    weighed: WeightMeasures | None
    compared: Comparison | None
    principal: Principal | None = field(compare=False)
    gathered: Gathered | None = field(compare=False)
    client: int | None = None
    """Whose model it is, if it is not a global one."""
    homogeneous: bool = False
    """Whether it is known to come from homogeneous data, and so is what others are compared with."""

    @classmethod
    def of(cls, name: str, gathered: Gathered, *, subject: Subject | None = None) -> Diagnosis:
        """Compute all measures of what one pass has left, with what else is known of the model."""
        subject = subject or Subject()
        principal = Principal(gathered.statistics.moments)
        reference, model = subject.reference, subject.model
        theirs = None if reference is None else reference.principal
        return cls(
            name=name,
            spread=Measures.of(principal),
            labelled=ClassMeasures.of(gathered.statistics, subject.classifier),
            decided=DecisionMeasures.of(gathered),
            weighed=None if model is None else WeightMeasures.of(model, subject.classifier, principal),
            compared=(
                None
                if reference is None or theirs is None
                else Comparison.of(reference.name, principal, theirs, gathered.together)
            ),
            principal=principal,
            gathered=gathered,
        )

    @classmethod
    def of_features(cls, name: str, batches: Iterable[Batch], reference: Diagnosis | None = None) -> Diagnosis:
        """Diagnose representations that come from anywhere."""
        return cls.of(name, gather(batches), subject=Subject(reference=reference))

    def lean(self) -> Diagnosis:
        """Return the measures without the matrices and samples behind them: of a hundred clients, those fill memory."""
        return replace(self, principal=None, gathered=None)

    def __getattr__(self, name: str) -> Any:
        for part, measures in PARTS.items():
            if name in measures.__dataclass_fields__:
                return getattr(self.__dict__[part], name, None)
        raise AttributeError(f"a diagnosis has no measure '{name}'")

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *(name for measures in PARTS.values() for name in measures.__dataclass_fields__)]

    def to_dict(self) -> dict[str, Any]:
        """Return every measure under its plain name, ready for JSON."""
        found: dict[str, Any] = {"name": self.name}
        for part, measures in PARTS.items():
            known = getattr(self, part)
            found |= asdict(known) if known is not None else dict.fromkeys(measures.__dataclass_fields__)
        return found

    def answer(self, reference: Diagnosis | None = None) -> list[str]:
        """Return the answer in sentences; with a reference (the homogeneous run, say), compared to it."""
        said = words.answer(self.to_dict(), reference.to_dict() if reference is not None else None)
        return said if self.client is None else said[:2]  # clients are many

    def plot(self) -> go.Figure:
        """Draw the spectrum; `feddecorr.report.diagnosis_page` has more pictures."""
        from feddecorr.report.figures import spectra  # noqa: PLC0415 - plotly is loaded when it is needed

        return spectra({self.name: self.spread.singular_values})

    def __repr__(self) -> str:
        spread = self.spread
        return f"<Diagnosis of {self.name}: effective rank {spread.effective_rank:.1f} of {spread.maximum_rank}>"

    def __str__(self) -> str:
        from rich.console import Console  # noqa: PLC0415 - rich is loaded when it is needed

        page = io.StringIO()
        Console(file=page, width=110).print(self)
        return page.getvalue().rstrip()

    def __rich__(self) -> RenderableType:
        from rich.console import Group  # noqa: PLC0415 - rich is loaded when it is needed
        from rich.table import Table  # noqa: PLC0415
        from rich.text import Text  # noqa: PLC0415

        table = Table("measure", "value", "what it is", title=self.name, title_justify="left")
        for row in words.rows(self.to_dict()):
            table.add_row(*map(Text, row))
        return Group(table, *map(Text, self.answer()))

    def _repr_html_(self) -> str:
        """Return the table and the words for a notebook."""
        rows = "".join(
            f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in words.rows(self.to_dict())
        )
        said = "".join(f"<p>{escape(sentence)}</p>" for sentence in self.answer())
        return f"<table><caption>{escape(self.name)}</caption>{rows}</table>{said}"


def find_reference(diagnosis: Diagnosis, others: Sequence[Diagnosis]) -> Diagnosis | None:
    """Return what a diagnosis is best compared with.

    That is what it was compared with already (a local model with the global one), else a model trained on
    homogeneous data, else the first.
    """
    if diagnosis.compared is not None:
        return next((other for other in others if other.name == diagnosis.compared.reference), None)
    first = next((other for other in others if other.homogeneous), others[0])
    return None if first is diagnosis else first


@dataclass(frozen=True)
class Subject:
    """What is known of a model beside its representations: itself, its classifier's weight, what to compare it to."""

    model: nn.Module | None = None
    classifier: Tensor | None = None
    reference: Diagnosis | None = None
