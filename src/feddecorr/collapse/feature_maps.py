"""What a network makes of images on its way to the representation: the last feature map of every resolution."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from torch import Tensor, nn

from feddecorr.loss.decorrelation import as_batch


class FeatureMaps:
    """The feature maps of the latest forward pass."""

    def __init__(self) -> None:
        self._maps: dict[tuple[int, ...], Tensor] = {}
        self._learned = False

    def catch(self, module: nn.Module, _inputs: object, output: object) -> None:
        """Take a feature map: later ones of the same height and width replace it.

        What comes before the first layer with parameters (a margin around the image, say) is none.
        """
        self._learned = self._learned or next(module.parameters(), None) is not None
        if self._learned and isinstance(output, Tensor) and output.ndim == 4 and output.shape[2:].numel() > 1:
            self._maps[tuple(output.shape[2:])] = output

    def begin(self, _module: nn.Module, _inputs: object) -> None:
        """Forget the pass before."""
        self._maps.clear()
        self._learned = False

    @property
    def pooled(self) -> list[Tensor]:
        """The maps averaged over their positions, (n, channels) each, from the first resolution to the last but one.

        What comes of the last resolution is the representation itself.
        """
        return [as_batch(found) for found in list(self._maps.values())[:-1]]


@contextmanager
def capture_feature_maps(model: nn.Module) -> Iterator[FeatureMaps]:
    """Catch the feature maps of every forward pass inside of the block; the model is the same after it as before.

    Looked at is what comes out of the network's members, and of the members of those that are Sequential: not what is
    inside of a residual block.
    """
    levels = FeatureMaps()
    handles = [module.register_forward_hook(levels.catch) for module in _members(model)]
    handles.append(model.register_forward_pre_hook(levels.begin))
    try:
        yield levels
    finally:
        for handle in handles:
            handle.remove()


def _members(model: nn.Module) -> Iterator[nn.Module]:
    for member in model.children():
        yield member
        if isinstance(member, nn.Sequential):
            yield from member.children()
