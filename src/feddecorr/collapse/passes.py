"""Any PyTorch model over any loader: its representations, batch by batch."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from feddecorr.collapse import spectrum
from feddecorr.collapse.diagnosis import CustomMeasure, Diagnosis, Subject
from feddecorr.collapse.gathered import Batch, gather
from feddecorr.collapse.representation import CONVOLUTIONS, capture_representations, find_classifier
from feddecorr.collapse.statistics import Moments
from feddecorr.collapse.weights import classifier_weight
from feddecorr.errors import UserError


def diagnose(
    model: nn.Module,
    loader: Iterable[Any],
    layer: str | None = None,
    *,
    name: str = "model",
    measures: Mapping[str, CustomMeasure] | None = None,
) -> Diagnosis:
    """Go once over the loader in evaluation mode, and find out whether the model has collapsed.

    The loader gives batches of inputs, (inputs, labels, …), or mappings with an entry `labels`, whose other
    entries the model takes by name. The representation is what the classifier takes in, or what the named layer
    does (see `capture_representations`). `measures` are further ones by name, each a function of the `Principal`
    components and of each class. The model is the same after as before.
    """
    subject = Subject(model=model, classifier=classifier_weight(find_classifier(model, layer)))
    return Diagnosis.of(name, gather(forward(model, loader, layer)), subject=subject, measures=measures)


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
    """Put every module into evaluation mode, and each back into its own after."""
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for module, mode in modes:
            module.training = mode


def _split(batch: Any, device: torch.device) -> tuple[list[Tensor], dict[str, Any], Tensor | None]:
    if isinstance(batch, Mapping):
        named = {key: _move(value, device) for key, value in batch.items() if key not in ("labels", "label")}
        return [], named, _labels(batch.get("labels", batch.get("label")), device)
    if isinstance(batch, Tensor):
        return [batch.to(device)], {}, None
    if isinstance(batch, Sequence) and batch and isinstance(batch[0], Tensor):
        return [batch[0].to(device)], {}, _labels(batch[1] if len(batch) > 1 else None, device)
    raise UserError(f"a batch is a tensor, (inputs, labels) or a mapping with 'labels', not {type(batch).__name__}")


def _move(value: Any, device: torch.device) -> Any:
    return value.to(device) if isinstance(value, Tensor) else value


def _labels(labels: Any, device: torch.device) -> Tensor | None:
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
                    found = Moments.of(each.z)
                    moments[name] = moments[name] + found if name in moments else found
    return {
        name: spectrum.effective_rank(spectrum.singular_values(found.covariance)) for name, found in moments.items()
    }
