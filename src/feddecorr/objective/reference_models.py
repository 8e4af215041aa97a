"""Reference models: frozen copies of the network, to be looked through and never trained."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.utils.fusion import fuse_conv_bn_eval

from feddecorr.collapse.representation import capture_representations, find_classifier
from feddecorr.core.states import State, load_into
from feddecorr.models.partial import copy_network

if TYPE_CHECKING:
    from feddecorr.objective.terms import ClientContext, Pass

MAKERS = (nn.Conv2d, nn.Linear, nn.BatchNorm2d)
"""Layers whose output is always new memory."""

MOST_KEPT = 1 << 27
"""Bytes of one kind of answer that are kept; of a client with more, each epoch asks again."""

Look = Callable[[Tensor], tuple[Tensor, Tensor]]
"""Returns the representations and the logits of a batch."""


class Reference:
    """A network in evaluation mode and without gradients, with the given weights and statistics or its own.

    The representation is what the classifier takes in, or what the named layer does.
    """

    def __init__(self, model: nn.Module, state: State | None = None, *, layer: str | None = None) -> None:
        self._layer = layer
        self._model = copy_network(model).eval().requires_grad_(False)
        if state is not None:
            load_into(self._model, state)
        seen = find_classifier(self._model, layer)
        _fold_statistics(self._model, seen)
        _bend_in_place(self._model, seen)

    @torch.no_grad()
    def __call__(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return the representations and the logits of a batch."""
        with self.watched() as look:
            return look(x)

    @contextmanager
    def watched(self) -> Iterator[Look]:
        """Look at many batches: to set the watch takes as long as a small one."""
        with capture_representations(self._model, self._layer) as seen:

            def look(x: Tensor) -> tuple[Tensor, Tensor]:
                logits = self._model(x)
                return seen.z, logits

            yield look

    def twin(self) -> Reference:
        """Return the same on the same tensors, so that two threads can look at once, each through its own."""
        shared = [*self._model.parameters(), *self._model.buffers()]
        return copy.deepcopy(self, {id(tensor): tensor for tensor in shared})


class RoundReference(Reference):
    """A reference for one round of a client, with the given state or that of the global model.

    It looks at an image once, if that comes the same in every local epoch.

    What it makes of an image is the same in any batch, up to the last bits; the first answer counts. A network with
    layers that use the batch's own statistics is asked anew each time.
    """

    def __init__(self, context: ClientContext, state: State | None = None) -> None:
        sent = context.broadcast
        super().__init__(context.model, {**sent.weights, **sent.buffers} if state is None else state)
        self._images = len(context.labels)
        self._kept: dict[int, tuple[Tensor, Tensor]] = {}  # of each kind of answer: the answers, and which are there
        norms = [module for module in self._model.modules() if isinstance(module, _BatchNorm)]
        self._keeps = all(norm.track_running_stats for norm in norms)

    def z(self, forward: Pass) -> Tensor:
        """Return the representations of the images of a pass."""
        return self._answer(forward, 0)

    def logits(self, forward: Pass) -> Tensor:
        """Return the logits of the images of a pass."""
        return self._answer(forward, 1)

    def _answer(self, forward: Pass, kind: int) -> Tensor:
        places = forward.places
        if places is None or not self._keeps:
            return self(forward.x)[kind]
        if kind in self._kept:
            answers, there = self._kept[kind]
            if bool(there[places.host].all()):
                return answers.index_select(0, places.device)
        answer = self(forward.x)[kind]
        if answer[0].nbytes * self._images <= MOST_KEPT:
            nothing = answer.new_empty(self._images, *answer.shape[1:]), torch.zeros(self._images, dtype=torch.bool)
            answers, there = self._kept.setdefault(kind, nothing)
            answers.index_copy_(0, places.device, answer)
            there[places.host] = True
        return answer


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


def _bend_in_place(model: nn.Module, classifier: nn.Module) -> None:
    """Let ReLU write over what a layer before it has just made, where nobody else sees that; a tenth of the pass.

    What the classifier takes in is seen.
    """
    blocks = [module for module in model.modules() if type(module).forward is nn.Sequential.forward]
    for block in blocks:
        layers = [pair for pair in block.named_children() if type(pair[1]) is not nn.Identity or pair[1] is classifier]
        for (_, first), (name, second) in pairwise(layers):
            if type(first) in MAKERS and type(second) is nn.ReLU and second is not classifier:
                setattr(block, name, nn.ReLU(inplace=True))
