"""What the weights themselves tell: the spectrum of each layer, and where the classifier looks."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from feddecorr.collapse import spectrum
from feddecorr.collapse.measures import DOCUMENT, Principal

SHOWN = 10


@dataclass(frozen=True, kw_only=True)
class WeightMeasures:
    """Spectra of the layers' weights, and the alignment of the classifier with the representations.

    `classifier_alignment` is the share of the classifier's squared weights, centred over the classes, that lie
    in the C − 1 strongest principal directions. `classifier_alignments` are |u_k·v_k'|, the paper's picture of
    its Assumption 2: u_k are principal directions, v_k' the classifier's right singular vectors.
    """

    classifier_alignment: float | None = None
    layer_effective_rank: dict[str, float] | None = field(default=None, repr=False, metadata=DOCUMENT)
    layer_singular_values: dict[str, list[float]] | None = field(default=None, repr=False, metadata=DOCUMENT)
    classifier_alignments: list[list[float]] | None = field(default=None, repr=False, metadata=DOCUMENT)


def measure_weights(model: nn.Module, classifier: Tensor | None, principal: Principal) -> WeightMeasures:
    """Look at every weight of two dimensions or more."""
    values = {name: layer_values(weight) for name, weight in weights(model).items()}
    return WeightMeasures(
        classifier_alignment=_alignment(classifier, principal),
        layer_effective_rank={name: spectrum.effective_rank(found) for name, found in values.items()},
        layer_singular_values={name: found.tolist() for name, found in values.items()},
        classifier_alignments=_alignments(classifier, principal),
    )


def weights(model: nn.Module) -> dict[str, Tensor]:
    """Return the weights that are matrices, by the name of their layer; biases and scales are vectors."""
    return {
        name.removesuffix(".weight"): parameter.detach()
        for name, parameter in model.named_parameters()
        if parameter.ndim >= 2 and parameter.is_floating_point()
    }


def layer_values(weight: Tensor) -> Tensor:
    """Return the singular values, largest first, of the matrix that maps all inputs of a position to its outputs."""
    values: Tensor = torch.linalg.svdvals(weight.flatten(1).double())
    return values


def classifier_weight(layer: nn.Module) -> Tensor | None:
    """Return the weight of a layer that takes the representation in, with a row for each output."""
    weight = getattr(layer, "weight", None)
    if not isinstance(weight, Tensor) or weight.ndim < 2:
        return None
    rows = weight.detach().flatten(1).double()
    return rows if rows.shape[1] == weight.shape[1] else None  # a convolution over several positions is not a matrix


def _centred(classifier: Tensor | None, principal: Principal) -> Tensor | None:
    if classifier is None or classifier.shape[1] != len(principal.values):
        return None
    centred = classifier.to(principal.values) - classifier.to(principal.values).mean(0)
    return centred if float(centred.norm()) > 0 else None


def _alignment(classifier: Tensor | None, principal: Principal) -> float | None:
    centred = _centred(classifier, principal)
    if centred is None or len(centred) < 2:
        return None
    strongest = principal.directions[:, : len(centred) - 1]
    return float((centred @ strongest).square().sum() / centred.square().sum())


def _alignments(classifier: Tensor | None, principal: Principal) -> list[list[float]] | None:
    centred = _centred(classifier, principal)
    if centred is None:
        return None
    right = torch.linalg.svd(centred, full_matrices=False).Vh[:SHOWN]
    cosines: list[list[float]] = (right @ principal.directions[:, :SHOWN]).abs().tolist()
    return cosines
