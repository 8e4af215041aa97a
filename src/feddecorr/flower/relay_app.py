"""The ServerApp of a simulation: it hands on the bytes of rounds between the run's process and the nodes."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Mapping
from multiprocessing.connection import Connection
from typing import Any

from flwr.app import Context, MessageType
from flwr.serverapp import Grid, ServerApp

from feddecorr.flower.envelope import Letter, largest_answer, seal, wrap
from feddecorr.flower.exchange import exchange

PAUSE = 0.01
"""Seconds between two looks for news; in a simulation it costs nearly nothing."""

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Connect to the run, and do its rounds until it closes the connection."""
    line = socket.socket(socket.AF_UNIX)
    line.connect(str(context.run_config["relay"]))
    with Connection(line.detach()) as run:
        nodes = _introductions(grid, int(context.run_config["clients"]))
        run.send_bytes(json.dumps(sorted(nodes)).encode())
        while True:
            try:
                order, content = json.loads(run.recv_bytes()), run.recv_bytes()
            except EOFError:
                return
            _relay(run, grid, nodes, order, content)


def _introductions(grid: Grid, clients: int) -> dict[int, int]:
    """Return the nodes by the numbers of their clients, when all are there."""
    while len(found := list(grid.get_node_ids())) < clients:
        time.sleep(PAUSE)
    question = seal(wrap(b""), {})
    nodes = {}
    for answer in exchange(grid, dict.fromkeys(found, question), MessageType.QUERY, pause=PAUSE, limit=0):
        if answer.letter is None:
            raise RuntimeError(answer.cause)
        nodes[int(answer.letter.note["client"])] = answer.node
    return nodes


def _relay(run: Connection, grid: Grid, nodes: Mapping[int, int], order: dict[str, Any], content: bytes) -> None:
    """Send the clients of the round the broadcast, and hand on what comes back of each, as it comes.

    That is a line of JSON and then the bytes, of which there are none where it says a cause.
    """
    wrapped, note = wrap(content), order["note"]
    clients = {nodes[client]: client for client in order["clients"]}
    questions = {node: seal(wrapped, {**note, "client": client}) for node, client in clients.items()}
    limit = largest_answer(len(content))
    for answer in exchange(grid, questions, MessageType.TRAIN, pause=PAUSE, limit=limit):
        said = {"client": clients[answer.node], "cause": answer.cause}
        letter = answer.letter or Letter(b"", {})
        run.send_bytes(json.dumps({**said, "kind": letter.note.get("kind", "")}).encode())
        run.send_bytes(letter.content)
