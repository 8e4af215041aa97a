"""The process of Flower's simulation, `python -m feddecorr.flower.simulation_app HOME`: its ServerApp forwards bytes.

HOME holds the socket of the run's process and the description of the federation. It uses `run_simulation`, not
`flwr run`: that would start a SuperLink, to which any user of this machine could submit an app.
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
from feddecorr.flower.exchange import Exchange, Reply
from feddecorr.flower.payload import Payload, pack, reply_limit, to_arrays

POLL_INTERVAL = 0.01
"""Seconds between two polls of the grid, which is cheap in a simulation."""

RETRIES = 2
"""How often a client is trained again, in a new actor, after its actor was killed."""


def main(home: Path) -> None:
    """Simulate the federation until the run closes the connection."""
    federation = json.loads((home / "federation.json").read_text())
    app = ServerApp()

    @app.main()
    def serve(grid: Grid, _context: Context) -> None:
        connection = socket.socket(socket.AF_UNIX)
        connection.connect(str(home / "socket"))
        with Connection(connection.detach()) as run:
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
    """Serve the run's rounds until it closes the connection."""
    exchange = Exchange(grid)
    nodes = _nodes_by_client(grid, exchange, clients)
    run.send_bytes(json.dumps(sorted(nodes)).encode())
    while True:
        try:
            request, content = json.loads(run.recv_bytes()), run.recv_bytes()
        except EOFError:
            return
        for reply, client in _train(exchange, nodes, request, content):
            _forward(run, reply, client)


def _nodes_by_client(grid: Grid, exchange: Exchange, clients: int) -> dict[int, int]:
    """Return the node ids by client, once all nodes are there."""
    while len(found := list(grid.get_node_ids())) < clients:
        time.sleep(POLL_INTERVAL)
    messages = dict.fromkeys(found, pack(to_arrays(b""), {}))
    nodes = {}
    for reply in exchange.send_and_receive(
        messages, MessageType.QUERY, limit=0, interval=POLL_INTERVAL, timeout=math.inf
    ):
        if reply.payload is None:
            raise RuntimeError(reply.cause)
        nodes[int(reply.payload.config["client"])] = reply.node
    return nodes


def _train(
    exchange: Exchange, nodes: Mapping[int, int], request: dict[str, Any], content: bytes
) -> Iterator[tuple[Reply, int]]:
    """Send the broadcast to the clients of the round, and yield their replies as they come."""
    arrays, config = to_arrays(content), request["config"]
    clients = {nodes[client]: client for client in request["clients"]}
    messages = {node: pack(arrays, {**config, "client": client}) for node, client in clients.items()}
    for reply in exchange.send_and_receive(
        messages, MessageType.TRAIN, limit=reply_limit(len(content)), interval=POLL_INTERVAL, timeout=math.inf
    ):
        yield reply, clients[reply.node]


def _forward(run: Connection, reply: Reply, client: int) -> None:
    """Send the run a JSON header and then the bytes, which are empty if the header has a cause."""
    payload = reply.payload or Payload(b"", {})
    header = {"client": client, "cause": reply.cause, "kind": payload.config.get("kind", "")}
    run.send_bytes(json.dumps(header).encode())
    run.send_bytes(payload.content)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
