"""Reference models: frozen copies of the network that local training is compared with."""

from __future__ import annotations

import copy
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn.utils.fusion import fuse_conv_bn_eval

from feddecorr.representation import capture_representations, find_classifier
from feddecorr.states import State, load_into


class Reference:
    """A network with the given weights and statistics, in evaluation mode and without gradients."""

    def __init__(self, model: nn.Module, state: State) -> None:
        self._model = copy.deepcopy(model).eval().requires_grad_(False)
        load_into(self._model, state)
        _fold_statistics(self._model)

    @torch.no_grad()
    def __call__(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return the representations and the logits of a batch."""
        with capture_representations(self._model) as seen:
            logits = self._model(x)
        return seen.z, logits


def _fold_statistics(model: nn.Module) -> None:
    """Multiply BatchNorm into the convolution before it, where the two stand next to each other.

    In evaluation mode the two together are one convolution; BatchNorm took a quarter of MobileNetV2's pass.
    """
    classifier = find_classifier(model)  # stays as it is, because its input is the representation
    blocks = [module for module in model.modules() if isinstance(module, nn.Sequential)]
    for block in blocks:
        for (before, first), (after, second) in pairwise(list(block.named_children())):
            if not isinstance(first, nn.Conv2d) or not isinstance(second, nn.BatchNorm2d):
                continue
            if second.track_running_stats and second is not classifier:
                setattr(block, before, fuse_conv_bn_eval(first, second))
                setattr(block, after, nn.Identity())
