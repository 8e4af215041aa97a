"""The connected nodes of a deployed federation, by client, and the keys to which client numbers belong."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import chain

from flwr.app import MessageType, RecordDict
from flwr.serverapp import Grid

from feddecorr.config.experiment import Experiment
from feddecorr.core.checks import MOST_EXAMPLES, MappingOf, Text, printable
from feddecorr.core.files import read_json, reading, write_json
from feddecorr.core.messages import Failure, from_bytes
from feddecorr.core.paths import InnerPath
from feddecorr.errors import RunError, UserError
from feddecorr.flower.data_summary import DataSummary
from feddecorr.flower.exchange import Exchange, Reply
from feddecorr.flower.payload import pack, to_arrays

POLL_INTERVAL = 0.5
"""Seconds between two polls of the grid over the network."""

MAX_SUMMARY = 1 << 20
"""Size limit of a data summary in bytes."""

NOT_CONNECTED = "it was not connected when the run began, and the model was built without it"

KEYS_FILE = "keys.json"
"""Next to the clients' states: the digests of their nodes' public keys."""

DIGEST_LENGTH = 64

SHORT_DIGEST = 12
"""Characters of a digest in a log message."""


class ClientKeys:
    """Binds client numbers to node keys: a number belongs to the first node that had it, for the life of the run.

    A SuperLink with `--enable-supernode-auth` knows each node by a public key that survives restarts. Without it, every
    start of a node makes a new key, and there is nothing to bind to.
    """

    def __init__(self, grid: Grid, folder: InnerPath, *, authenticated: bool) -> None:
        self._grid = grid
        self._folder = folder
        self._file = folder / KEYS_FILE
        self._authenticated = authenticated
        self._bound: dict[str, str] = {}
        if authenticated and self._file.exists():
            stored = read_json(self._file)
            with reading(self._file):
                MappingOf(Text(len(str(MOST_EXAMPLES)), 1), Text(DIGEST_LENGTH, DIGEST_LENGTH), MOST_EXAMPLES)(
                    stored, "keys"
                )
            self._bound = stored

    def refusal(self, client: int, node: int) -> str | None:
        """Return why a node cannot be that client; None if it can, which binds the number to its key."""
        if not self._authenticated:
            return None
        key = self._key(node)
        if not key:
            return "Flower reports no key for it, and engine.authenticated requires one"
        for number, other in self._bound.items():
            if key == other and number != str(client):
                return f"its key belongs to client {number}"
        if self._bound.setdefault(str(client), key) != key:
            bound = self._bound[str(client)][:SHORT_DIGEST]
            return f"client {client} belongs to the key {bound}…, and the node has {key[:SHORT_DIGEST]}…"
        self.save()
        return None

    def save(self) -> None:
        """Write the file, once the run has a folder for it."""
        if self._authenticated and self._folder.exists():
            write_json(self._file, self._bound)

    def _key(self, node: int) -> str:
        """Return the digest of a node's public key, as the SuperLink knows it; empty without one."""
        keys = {info.node_id: info.public_key for info in self._grid.get_nodes()}
        return hashlib.sha256(keys[node]).hexdigest() if keys.get(node) else ""


@dataclass(frozen=True)
class ConnectedNode:
    """A node whose client is known."""

    node: int
    summary: DataSummary


class ConnectedNodes:
    """The connected nodes by client. Flower's node ids are random and change; client numbers do not.

    New nodes are queried, and nobody waits for their replies: a node that hangs costs nothing. A client whose node
    cannot participate ends the run or is left out with the reason, by the experiment's `missing` policy.
    """

    def __init__(self, grid: Grid, experiment: Experiment, log: Callable[[str], None], keys: ClientKeys) -> None:
        self.grid = grid
        self._keys = keys
        self.reasons: dict[int, str] = {}
        """Why clients cannot participate."""
        self._log = log
        self._clients = experiment.clients
        self._continues = experiment.missing == "continue"
        self._minimum = experiment.minimum_clients if self._continues else experiment.clients
        self._query: RecordDict = pack(to_arrays(json.dumps(experiment.to_dict()).encode()), {})
        self._exchange = Exchange(grid)
        self._begun: Mapping[int, DataSummary] | None = None
        self._nodes: dict[int, ConnectedNode] = {}
        self._rivals: dict[int, ConnectedNode] = {}  # by the node id that had the client before
        self._left_out: dict[int, int | None] = {}  # node ids, and the client as which to query them again
        self._logged: set[str] = set()

    def gather(self, seconds: float) -> dict[int, DataSummary]:
        """Return the data summaries before the run begins: of all clients, or of those that can participate."""
        found = self.wait_for(range(self._clients), seconds)
        for node, newcomer in self._rivals.items():
            self._report_conflict(node, newcomer)
        absent = sorted(set(range(self._clients)) - found.keys())
        silent = [client for client in absent if client not in self.reasons]
        if len(found) < self._minimum:
            reasons = "".join(f"; client {client} cannot participate: {why}" for client, why in self.reasons.items())
            raise RunError(
                f"{_list_clients(silent or absent)} of {self._clients} did not connect within engine.wait={seconds:g} "
                f"seconds: each needs a SuperNode with --node-config 'client=NUMBER …'{reasons}"
            )
        self.reasons |= dict.fromkeys(silent, NOT_CONNECTED)
        return {client: found[client].summary for client in sorted(found)}

    def begin(self, summaries: Mapping[int, DataSummary]) -> None:
        """Fix the run's data: from now on, no other data and no other class joins it."""
        self._begun = dict(summaries)
        self._nodes = {client: node for client, node in self._nodes.items() if client in summaries}

    def wait_for(self, clients: Iterable[int], seconds: float) -> dict[int, ConnectedNode]:
        """Return these clients' nodes when all are connected, or the connected ones after a timeout.

        It does not wait for a client that cannot participate, but queries its node once more.
        """
        wanted, end, logged = set(clients), time.monotonic() + seconds, ""
        self._left_out = {node: client for node, client in self._left_out.items() if client is None}
        while True:
            self._poll()
            missing = sorted(wanted - self._nodes.keys() - self.reasons.keys())
            waiting = f"waiting for {_list_clients(missing)}, at most {seconds:g} seconds"
            if missing and seconds and waiting != logged:
                self._log(waiting)
                logged = waiting
            if not (missing or self._rivals) or time.monotonic() >= end:
                return {client: self._nodes[client] for client in wanted & self._nodes.keys()}
            time.sleep(POLL_INTERVAL)

    def _poll(self) -> None:
        """Forget disconnected nodes, query new ones, and handle the replies that have come."""
        connected = set(self.grid.get_node_ids())
        self._nodes = {client: node for client, node in self._nodes.items() if node.node in connected}
        self._left_out = {node: client for node, client in self._left_out.items() if node in connected}
        known = {node.node for node in self._nodes.values()} | self._left_out.keys() | self._exchange.busy_nodes
        for reply in chain(self._send_query(connected - known), self._exchange.poll()):
            self._handle(reply)
        if self._rivals:
            for reply in self._exchange.poll():
                self._handle(reply)

    def _send_query(self, nodes: Iterable[int]) -> Iterable[Reply]:
        return self._exchange.send(dict.fromkeys(nodes, self._query), MessageType.QUERY, limit=MAX_SUMMARY)

    def _handle(self, reply: Reply) -> None:
        """Accept or refuse a node by its data summary or failure."""
        node, payload = reply.node, reply.payload
        if (rival := self._rivals.pop(node, None)) is not None:
            self._resolve(reply, rival)
        elif payload is None:
            self._log_once(f"node {node} did not reply to a query: {reply.cause}")
        else:
            try:
                if payload.config.get("kind") == "data_summary":
                    self._accept(ConnectedNode(node, DataSummary.from_bytes(payload.content)))
                else:
                    failure = from_bytes(Failure, payload.content)
                    self._refuse(node, failure.client, printable(failure.cause))
            except UserError as error:
                self._leave_out(node, f"its message was refused: {error}")

    def _accept(self, newcomer: ConnectedNode) -> None:
        client, known = newcomer.summary.client, self._nodes.get(newcomer.summary.client)
        if client >= self._clients:
            self._leave_out(newcomer.node, f"it has client={client}, and clients are 0 to {self._clients - 1}")
        elif refusal := self._keys.refusal(client, newcomer.node):
            self._leave_out(newcomer.node, refusal)
        elif known is not None:
            self._compare(known, newcomer)
        elif why := self._objection(newcomer.summary):
            self._refuse(newcomer.node, client, why)
        else:
            self._nodes[client] = newcomer
            self.reasons.pop(client, None)
            self._log(f"client {client} is node {newcomer.node}, with {newcomer.summary.examples} examples")

    def _objection(self, summary: DataSummary) -> str:
        """Return why a client cannot join the run that has begun; empty if it can."""
        if self._begun is None:
            return ""
        before = self._begun.get(summary.client)
        if before is None:
            return self.reasons.get(summary.client, NOT_CONNECTED)
        return summary.differences(before)

    def _refuse(self, node: int, client: int, why: str) -> None:
        """Apply the `missing` policy to a client that cannot participate, unless another node is that client."""
        message = f"client {client}'s node {node} cannot participate: {why}"
        if not 0 <= client < self._clients or client in self._nodes:
            self._leave_out(node, why)
        elif refusal := self._keys.refusal(client, node):
            self._leave_out(node, refusal)
        elif not self._continues:
            raise RunError(message)
        else:
            self.reasons[client] = why
            self._left_out[node] = client
            self._log_once(message)

    def _compare(self, known: ConnectedNode, newcomer: ConnectedNode) -> None:
        """Query the earlier node again: Flower returns an error for one that was killed."""
        self._left_out[newcomer.node] = None
        if known.node not in self._rivals:
            self._rivals[known.node] = newcomer
            for reply in self._send_query([known.node]):
                self._handle(reply)

    def _resolve(self, reply: Reply, newcomer: ConnectedNode) -> None:
        """Let a newcomer replace a node that is gone; two live nodes cannot be the same client."""
        client = newcomer.summary.client
        if reply.payload is None:
            self._nodes.pop(client, None)
            self._left_out.pop(newcomer.node, None)
            self._accept(newcomer)
            return
        self._report_conflict(reply.node, newcomer)

    def _report_conflict(self, node: int, newcomer: ConnectedNode) -> None:
        if not self._continues:
            raise RunError(_conflict(node, newcomer))
        self._log_once(f"{_conflict(node, newcomer)}; node {newcomer.node} is left out")

    def _leave_out(self, node: int, why: str) -> None:
        self._left_out[node] = None
        self._log_once(f"node {node} is left out: {why}")

    def _log_once(self, text: str) -> None:
        """Log a message once: nodes are queried again and again."""
        if text not in self._logged:
            self._logged.add(text)
            self._log(text)


def _conflict(node: int, newcomer: ConnectedNode) -> str:
    one, other = sorted((node, newcomer.node))
    client = newcomer.summary.client
    return f"nodes {one} and {other} both claim to be client {client}: give each its own client in its --node-config"


def _list_clients(clients: list[int]) -> str:
    return f"client{'s' if len(clients) > 1 else ''} {', '.join(map(str, clients))}"
