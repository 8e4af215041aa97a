"""Reference models: frozen copies of the network, to be looked through and never trained."""

from __future__ import annotations

import copy
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn.utils.fusion import fuse_conv_bn_eval

from feddecorr.representation import capture_representations, find_classifier
from feddecorr.states import State, load_into


class Reference:
    """A network in evaluation mode and without gradients, with the given weights and statistics or its own.

    The representation is what the classifier takes in, or what the named layer does.
    """

    def __init__(self, model: nn.Module, state: State | None = None, *, layer: str | None = None) -> None:
        self._layer = layer
        self._model = copy.deepcopy(model).eval().requires_grad_(False)
        if state is not None:
            load_into(self._model, state)
        _fold_statistics(self._model, find_classifier(self._model, layer))

    @torch.no_grad()
    def __call__(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return the representations and the logits of a batch."""
        with capture_representations(self._model, self._layer) as seen:
            logits = self._model(x)
        return seen.z, logits

    def twin(self) -> Reference:
        """Return the same on the same tensors, so that two threads can look at once, each through its own."""
        shared = [*self._model.parameters(), *self._model.buffers()]
        return copy.deepcopy(self, {id(tensor): tensor for tensor in shared})


def _fold_statistics(model: nn.Module, classifier: nn.Module) -> None:
    """Multiply BatchNorm into the convolution before it, where the two stand next to each other.

    In evaluation mode the two together are one convolution; BatchNorm took a quarter of MobileNetV2's pass.
    The classifier stays as it is, because its input is the representation; so do classes derived from these
    three, which may compute something else.
    """
    blocks = [module for module in model.modules() if type(module).forward is nn.Sequential.forward]
    for block in blocks:
        for (before, first), (after, second) in pairwise(list(block.named_children())):
            if type(first) is not nn.Conv2d or type(second) is not nn.BatchNorm2d:
                continue
            if second.track_running_stats and second is not classifier:
                setattr(block, before, fuse_conv_bn_eval(first, second))
                setattr(block, after, nn.Identity())
