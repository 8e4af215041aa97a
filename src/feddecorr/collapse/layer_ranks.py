"""Layer by layer: how many dimensions there are in what goes into each layer."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import ExitStack

import torch
from torch import Tensor, nn

from feddecorr.collapse import spectrum
from feddecorr.collapse.passes import evaluating
from feddecorr.collapse.representation import CONVOLUTIONS, capture_representations
from feddecorr.collapse.statistics import Moments


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
