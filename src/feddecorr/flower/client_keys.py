"""Which key a client's number belongs to: that of the node that first had it, as long as the run lives."""

from __future__ import annotations

import hashlib

from flwr.serverapp import Grid

from feddecorr.core.checks import MOST_EXAMPLES, MappingOf, Text
from feddecorr.core.files import read_json, reading, write_json
from feddecorr.core.paths import InnerPath

FILE = "keys.json"
"""Next to what clients remember: the digests of their nodes' public keys."""

DIGEST = 64
"""Characters of a digest."""

SHORT = 12
"""Characters of a digest in a sentence."""


class ClientKeys:
    """The digests of the keys of clients' nodes, in a file of the run.

    A SuperLink that authenticates nodes (`--enable-supernode-auth`) knows each by a public key, which outlives
    restarts; without, every start of a node makes a new one, and there is nothing to hold on to.
    """

    def __init__(self, grid: Grid, folder: InnerPath, *, authenticated: bool) -> None:
        self._grid = grid
        self._folder = folder
        self._file = folder / FILE
        self._authenticated = authenticated
        self._bound: dict[str, str] = {}
        if authenticated and self._file.exists():
            stored = read_json(self._file)
            with reading(self._file):
                MappingOf(Text(len(str(MOST_EXAMPLES)), 1), Text(DIGEST, DIGEST), MOST_EXAMPLES)(stored, "keys")
            self._bound = stored

    def refusal(self, client: int, node: int) -> str | None:
        """Return why a node cannot be that client; None if it can, and then the number is its own from now on."""
        if not self._authenticated:
            return None
        key = self._key(node)
        if not key:
            return "Flower tells no key of it, and engine.authenticated asks for one"
        for number, other in self._bound.items():
            if key == other and number != str(client):
                return f"its key is that of client {number}"
        if self._bound.setdefault(str(client), key) != key:
            mine = self._bound[str(client)][:SHORT]
            return f"client {client} belongs to the key {mine}…, and the node has {key[:SHORT]}…"
        self.keep()
        return None

    def keep(self) -> None:
        """Write it down, once the run has a place for it."""
        if self._authenticated and self._folder.exists():
            write_json(self._file, self._bound)

    def _key(self, node: int) -> str:
        """Return the digest of a node's public key, as the SuperLink knows it; nothing of a node without one."""
        keys = {info.node_id: info.public_key for info in self._grid.get_nodes()}
        return hashlib.sha256(keys[node]).hexdigest() if keys.get(node) else ""
