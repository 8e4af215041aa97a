"""What clients hold: the images of one, and those of all clients on this machine."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from feddecorr.data.dataset import Images
from feddecorr.partition import Parts


@dataclass(frozen=True)
class Shard:
    """What one client holds: its own images and labels."""

    client: int
    images: Images

    def __len__(self) -> int:
        return len(self.images)


@dataclass(frozen=True)
class Shards:
    """The shards of all clients on this machine: images together, and which are whose.

    Client k holds the images `order[bounds[k]:bounds[k + 1]]`. A shard is copied out when its client plays.
    """

    images: Images
    order: Tensor
    bounds: Tensor

    @classmethod
    def of(cls, images: Images, parts: Parts) -> Shards:
        """Put the parts one after another."""
        return cls(images, torch.from_numpy(parts.order), torch.from_numpy(parts.bounds))

    def __len__(self) -> int:
        return len(self.bounds) - 1

    def __getitem__(self, client: int) -> Shard:
        mine = self.order[self.bounds[client] : self.bounds[client + 1]]
        pixels = self.images.pixels.index_select(0, mine)
        return Shard(client, Images(pixels, self.images.labels.index_select(0, mine)))

    @property
    def parts(self) -> Parts:
        """Everybody's examples, by their places in the images."""
        return Parts(self.order.numpy(), self.bounds.numpy())

    @property
    def sizes(self) -> NDArray[np.int64]:
        """Everybody's number of examples."""
        return self.bounds.diff().numpy()

    def digest(self) -> str:
        """Return the sha256 of the assignment of examples to clients."""
        digest = hashlib.sha256(self.bounds.numpy().tobytes())
        digest.update(self.order.numpy().tobytes())
        return digest.hexdigest()

    @property
    def nbytes(self) -> int:
        """How much memory they take."""
        return sum(each.nbytes for each in (self.images.pixels, self.images.labels, self.order, self.bounds))

    def share(self) -> None:
        """Move to shared memory, where worker processes see everything without a copy."""
        self.images.share()
        self.order.share_memory_()
        self.bounds.share_memory_()
