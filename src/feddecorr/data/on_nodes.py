"""Images that nobody sees together: each node of a deployed federation holds its own."""

from __future__ import annotations

from feddecorr.data.dataset import Data, Dataset
from feddecorr.errors import UserError


class OnNodes(Data):
    """What the nodes of a deployed federation hold; each says where its own images are."""

    def read(self) -> Dataset:
        """Refuse: there is nothing here."""
        raise UserError(
            "data=nodes: the images are with the nodes of a federation, not here ('feddecorr flower app' makes one); "
            "for a run on this machine choose other data ('feddecorr list data')"
        )
