"""What every kind of network offers."""

from __future__ import annotations

from torch import nn

from feddecorr.kinds import Kind


class Model(Kind):
    """A network that maps images to logits through a final linear classifier.

    The classifier's input is the representation; nothing else is asked of the module that `build` returns.
    """

    def build(self, shape: tuple[int, int, int], classes: int) -> nn.Module:
        """Return a fresh network for images of (channels, height, width), initialised at random."""
        raise NotImplementedError
