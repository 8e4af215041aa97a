"""Flower's simulation in a process of its own, `python -m feddecorr.flower.relay HOME`: its server only hands on bytes.

HOME holds the socket of the run's process and what the federation is. Flower's own SuperLink, to which anybody on this
machine could give an app to run, is not needed for it.
"""

from __future__ import annotations

import json
import math
import socket
import sys
import time
from collections.abc import Iterator, Mapping
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from flwr.app import Context, MessageType
from flwr.serverapp import Grid, ServerApp
from flwr.simulation import run_simulation

from feddecorr.flower import client_app
from feddecorr.flower.envelope import Letter, largest_answer, seal, wrap
from feddecorr.flower.exchange import Answer, Exchange

PAUSE = 0.01
"""Seconds between two looks for news; in a simulation it costs nearly nothing."""

RETRIES = 2
"""How often a client is trained again whose actor was killed, in an actor that takes its place."""


def main(home: Path) -> None:
    """Simulate the federation until the run closes the connection."""
    federation = json.loads((home / "federation.json").read_text())
    app = ServerApp()

    @app.main()
    def serve(grid: Grid, _context: Context) -> None:
        line = socket.socket(socket.AF_UNIX)
        line.connect(str(home / "relay"))
        with Connection(line.detach()) as run:
            _serve(run, grid, federation["clients"])

    run_simulation(
        app,
        client_app.app,
        federation["clients"],
        backend_config={
            "init_args": {"num_cpus": federation["workers"], "include_dashboard": False},
            "client_resources": {"num_cpus": 1, "max_restarts": -1, "max_task_retries": RETRIES},
        },
    )


def _serve(run: Connection, grid: Grid, clients: int) -> None:
    """Do the rounds of the run until it closes the connection."""
    exchange = Exchange(grid)
    nodes = _introductions(grid, exchange, clients)
    run.send_bytes(json.dumps(sorted(nodes)).encode())
    while True:
        try:
            order, content = json.loads(run.recv_bytes()), run.recv_bytes()
        except EOFError:
            return
        for answer, client in _ask(exchange, nodes, order, content):
            _hand_on(run, answer, client)


def _introductions(grid: Grid, exchange: Exchange, clients: int) -> dict[int, int]:
    """Return the nodes by the numbers of their clients, when all are there."""
    while len(found := list(grid.get_node_ids())) < clients:
        time.sleep(PAUSE)
    questions = dict.fromkeys(found, seal(wrap(b""), {}))
    nodes = {}
    for answer in exchange.converse(questions, MessageType.QUERY, limit=0, pause=PAUSE, timeout=math.inf):
        if answer.letter is None:
            raise RuntimeError(answer.cause)
        nodes[int(answer.letter.note["client"])] = answer.node
    return nodes


def _ask(
    exchange: Exchange, nodes: Mapping[int, int], order: dict[str, Any], content: bytes
) -> Iterator[tuple[Answer, int]]:
    """Send the clients of the round the broadcast, and yield what comes back of each, as it comes."""
    wrapped, note = wrap(content), order["note"]
    clients = {nodes[client]: client for client in order["clients"]}
    questions = {node: seal(wrapped, {**note, "client": client}) for node, client in clients.items()}
    limit = largest_answer(len(content))
    for answer in exchange.converse(questions, MessageType.TRAIN, limit=limit, pause=PAUSE, timeout=math.inf):
        yield answer, clients[answer.node]


def _hand_on(run: Connection, answer: Answer, client: int) -> None:
    """Send the run a line of JSON and then the bytes, of which there are none where it says a cause."""
    letter = answer.letter or Letter(b"", {})
    said = {"client": client, "cause": answer.cause, "kind": letter.note.get("kind", "")}
    run.send_bytes(json.dumps(said).encode())
    run.send_bytes(letter.content)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
