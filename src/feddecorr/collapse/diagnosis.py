"""The diagnosis of one model: every measure as a field, in a table, in a picture and in words."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, fields, replace
from html import escape
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from feddecorr.collapse import spectrum, verdict
from feddecorr.collapse.measures import (
    DOCUMENT,
    MEMORY,
    Principal,
    ReferenceMeasures,
    WeightMeasures,
    classifier_weight,
    compare,
    is_recorded,
    is_written,
    measure_spread,
    measure_weights,
)
from feddecorr.collapse.neural_collapse import DecisionMeasures, measure_classes, measure_decisions
from feddecorr.collapse.representation import CONVOLUTIONS, capture_representations, find_classifier
from feddecorr.collapse.statistics import Batch, ClassSpread, Gathered, Moments, gather
from feddecorr.errors import UserError
from feddecorr.loss.module import RISE

if TYPE_CHECKING:
    from rich.console import RenderableType

ClassSpreads = Mapping[int, ClassSpread]
"""Count, mean and spread of each class, by its label."""

CustomMeasure = Callable[[Principal, ClassSpreads | None], float | None]
"""A custom measure: of all representations and, where there are labels, of those of each class."""


def measure_custom(
    measures: Mapping[str, CustomMeasure], principal: Principal, classes: ClassSpreads | None = None
) -> dict[str, float] | None:
    """Return the values of your own measures by name; what is None or not finite is left out."""
    found = {name: measure(principal, classes) for name, measure in measures.items()}
    return {name: float(value) for name, value in found.items() if value is not None and math.isfinite(value)} or None


@dataclass(frozen=True, kw_only=True, repr=False)
class Diagnosis(ReferenceMeasures, WeightMeasures, DecisionMeasures, verdict.Judged):
    """All measures of one model's representations, from the pass over them to the report.

    Every measure is a field: `diagnosis.effective_rank`. None is what is unknown, such as neural collapse
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
        """Compute all measures from one pass, and from what else is known of the model."""
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
        """Return what `to_dict` or `recorded` wrote; missing measures are unknown."""
        return cls(**document)

    def to_dict(self) -> dict[str, Any]:
        """Return every measure under its plain name, ready for JSON."""
        return {"name": self.name} | {each.name: getattr(self, each.name) for each in fields(self) if is_written(each)}

    def recorded(self) -> dict[str, Any]:
        """Return what a run records of every round, ready for JSON: all known numbers, and the singular values."""
        found = {each.name: getattr(self, each.name) for each in fields(self) if is_recorded(each)}
        return {name: value for name, value in found.items() if value is not None}

    def lean(self) -> Diagnosis:
        """Return the measures without their matrices and samples, which would fill memory for a hundred clients."""
        return replace(self, principal=None, gathered=None)

    def answer(self, reference: Diagnosis | None = None) -> list[str]:
        """Return the answer in sentences; with a reference (the homogeneous run, say), compared to it."""
        said = list(sentences(self, reference))
        return said if self.client is None else said[:2]  # clients are many

    def verdict(self, reference: Diagnosis | None = None) -> str:
        """Return the answer as one of the words of docs/diagnosis.md, such as `collapsed` or `cannot tell`."""
        return verdict.verdict(self, reference)

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
    """A model apart from its representations: itself, its classifier's weight, and what to compare it to."""

    model: nn.Module | None = None
    classifier: Tensor | None = None
    reference: Diagnosis | None = None


MEANINGS = {
    "samples": "samples that were seen",
    "dimensions": "features, d",
    "maximum_rank": "dimensions that this many samples can span: min(samples − 1, d)",
    "effective_rank": "exp of the entropy of the covariance's singular values",
    "start_effective_rank": "effective rank of the same network before training",
    "effective_rank_of_features": "the same of the centred features' singular values",
    "rankme": "the same of the features as they are, not centred",
    "participation_ratio": "(Σλ)² / Σλ²",
    "stable_rank": "Σλ / λ₁",
    "numerical_rank": "singular values that are more than rounding",
    "significant_singular_values": "singular values above τ, log τ = −2",
    "dimensions_for_90_percent": "principal directions that hold 90 % of the variance",
    "dimensions_for_95_percent": "principal directions that hold 95 % of the variance",
    "dimensions_for_99_percent": "principal directions that hold 99 % of the variance",
    "power_law_exponent": "a of the best fit λ_k ∝ k⁻ᵃ",
    "singular_value_variance": "L_singular: variance of the singular values",
    "mean_squared_correlation": "mean square of the correlations between two features",
    "feddecorr_loss_paper": "‖K‖²_F / d², the paper's formula",
    "feddecorr_loss_released": "the same as the authors' code scales it",
    "dead_features": "features that never vary",
    "classes": "classes among the labels",
    "class_mean_rank": "dimensions that the means of the classes use, of at most classes − 1",
    "collapse_score": "share of those dimensions that the means do not use: 0 is none, 1 is a total collapse",
    "within_class_share": "share of the variance that is within classes",
    "nc1_variability": "NC1: spread within classes by spread between them; 0 when collapsed",
    "nc2_norm_variation": "NC2: do class means lie equally far from the centre? 0: yes",
    "nc2_cosine_variation": "NC2: are the angles between class means equal? 0: yes",
    "nc2_cosine_gap": "NC2: are the angles as wide as they can be? 0: yes",
    "nc3_duality_gap": "NC3: are the classifier's rows the class means? 0: yes, 2: opposite",
    "classifier_effective_rank": "effective rank of the classifier's weights",
    "mean_per_class_effective_rank": "mean of the effective ranks within each class",
    "accuracy": "share of right decisions",
    "loss": "mean cross-entropy",
    "nc4_disagreement": "NC4: share of decisions other than the nearest class mean",
    "classifier_alignment": "share of the classifier that lies in the strongest directions",
    "reference": "what it is compared to",
    "linear_cka": "likeness to the reference, from 0 to 1",
    "mean_principal_angle": "degrees between its strongest directions and the reference's",
}
"""What each measure is that is one number, in the order of the table."""


def rows(found: Diagnosis) -> list[list[str]]:
    """Return the table of all measures that are known."""
    values = {name: getattr(found, name) for name in MEANINGS}
    shown = {name: _cell(value) for name, value in values.items() if value is not None}
    if found.accuracy is not None:
        shown["accuracy"] = f"{100 * found.accuracy:.1f} %"
    known = [[name, cell, MEANINGS[name]] for name, cell in shown.items()]
    return known + [[name, _cell(value), "a further measure"] for name, value in (found.measures or {}).items()]


def _cell(value: float | str) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def sentences(found: Diagnosis, reference: Diagnosis | None = None) -> Iterator[str]:
    """Yield a few sentences: how many dimensions carry the representation, compared with what, and so what."""
    most, d = found.maximum_rank, found.dimensions
    yield (
        f"{found.name}: in effect {found.effective_rank:.1f} of {most} possible dimensions carry the representation "
        f"({found.dimensions_for_99_percent} hold 99 % of the variance, "
        f"{found.significant_singular_values} singular values are significant)."
    )
    if reference is not None and reference.name != found.name:
        yield _compared(found, reference)
    yield from verdict.sentences(found, reference)
    if found.dead_features:
        yield f"{found.dead_features} of {d} features never vary."
    if found.dead_features >= RISE * d:
        yield (
            "To FedDecorr a feature that never varies is uncorrelated: if FedDecorr was used, it may have killed them. "
            "regularizers.feddecorr.dying=counted, or FedDecorrLoss(dying='counted'), works against that."
        )
    if most < d:
        yield f"{found.samples} samples cannot fill {d} dimensions: no rank can be above {most}; use more samples."


def _compared(found: Diagnosis, reference: Diagnosis) -> str:
    mine, theirs = found.effective_rank, reference.effective_rank
    if theirs == 0:
        return f"{reference.name} has no variance to compare it with."
    said = "about as many" if 0.9 < mine / theirs < 1.1 else f"{mine / theirs:.2f} times as many"
    alike = found.linear_cka if found.reference == reference.name else None
    end = "" if alike is None else f"; the representations are alike to {alike:.2f} (linear CKA, 1 is the same)"
    return f"That is {said} as of {reference.name} ({theirs:.1f}){end}."


def diagnose(
    model: nn.Module,
    loader: Iterable[Any],
    layer: str | None = None,
    *,
    name: str = "model",
    measures: Mapping[str, CustomMeasure] | None = None,
) -> Diagnosis:
    """Diagnose the model in evaluation mode, in one pass over the loader.

    The loader gives batches of inputs, (inputs, labels, …), or mappings with an entry `labels`, whose other
    entries the model takes by name. The representation is what the classifier takes in, or what the named layer
    does (see `capture_representations`). `measures` are further ones by name, each a function of the `Principal`
    components and of each class. The model is the same after as before.
    """
    subject = Subject(model=model, classifier=classifier_weight(find_classifier(model, layer)))
    found = Diagnosis.of(name, gather(forward(model, loader, layer)), subject=subject, measures=measures)
    return replace(found, untrained=verdict.looks_untrained(model))


@torch.no_grad()
def forward(model: nn.Module, loader: Iterable[Any], layer: str | None = None) -> Iterator[Batch]:
    """Yield the representations of each batch, with labels and decisions where there are such."""
    device = next((parameter.device for parameter in model.parameters()), torch.device("cpu"))
    with evaluating(model), capture_representations(model, layer) as seen:
        for batch in loader:
            inputs, named, labels = _split(batch, device)
            decisions = _decide(model(*inputs, **named), labels)
            z = seen.z
            if labels is not None and labels.shape != (len(z),):
                raise UserError(f"{len(z)} samples need as many labels, not labels of shape {tuple(labels.shape)}")
            yield Batch(z, labels, decisions)


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Put every module into evaluation mode, and restore each module's own mode afterwards."""
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for module, mode in modes:
            module.training = mode


def _split(batch: Any, device: torch.device) -> tuple[list[Tensor], dict[str, Any], Tensor | None]:
    if isinstance(batch, Mapping):
        others = ((key, value) for key, value in batch.items() if key not in ("labels", "label"))
        named = {key: value.to(device) if isinstance(value, Tensor) else value for key, value in others}
        return [], named, class_labels(batch.get("labels", batch.get("label")), device)
    if isinstance(batch, Tensor):
        return [batch.to(device)], {}, None
    if isinstance(batch, Sequence) and batch and isinstance(batch[0], Tensor):
        return [batch[0].to(device)], {}, class_labels(batch[1] if len(batch) > 1 else None, device)
    raise UserError(f"a batch is a tensor, (inputs, labels) or a mapping with 'labels', not {type(batch).__name__}")


def class_labels(labels: Any, device: torch.device) -> Tensor | None:
    """Return labels as integers of shape (n,); other forms are not classes (regression targets, say)."""
    if labels is None:
        return None
    found = torch.as_tensor(labels)
    if found.is_floating_point() or found.is_complex():
        return None
    return found.to(device).long()


def _decide(output: Any, labels: Tensor | None) -> Tensor | None:
    logits = getattr(output, "logits", output)
    if labels is None or not isinstance(logits, Tensor) or logits.shape[:-1] != labels.shape or logits.shape[-1] < 2:
        return None
    return logits.argmax(-1)


@torch.no_grad()
def layer_ranks(model: nn.Module, batches: Iterable[tuple[Tensor, Tensor]]) -> dict[str, float]:
    """Return the effective rank of the input of every layer with a matrix of weights, averaged over its positions.

    But for the first, which takes in the images themselves; the last one's is the representation's. Layers that are
    never called are not there.
    """
    layers = [name for name, module in model.named_modules() if isinstance(module, (nn.Linear, *CONVOLUTIONS))]
    moments: dict[str, Moments] = {}
    with ExitStack() as stack:
        stack.enter_context(evaluating(model))
        seen = {name: stack.enter_context(capture_representations(model, name)) for name in layers[1:]}
        for x, _labels in batches:
            model(x)
            for name, each in seen.items():
                if hasattr(each, "z"):
                    found = Moments.of(each.z.cpu())
                    moments[name] = moments[name] + found if name in moments else found
    return {
        name: spectrum.effective_rank(spectrum.singular_values(found.covariance)) for name, found in moments.items()
    }
