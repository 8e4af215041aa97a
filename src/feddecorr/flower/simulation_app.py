"""The process of Flower's simulation, `-m feddecorr.flower.simulation_app HOME SOCKET`: its ServerApp forwards bytes.

HOME holds the description of the federation; SOCKET is the descriptor of the connection to the run. It uses
`run_simulation`, not `flwr run`: that would start a SuperLink, to which any user of this machine could submit an app.
"""

from __future__ import annotations

import json
import math
import os
import sys
import time
import traceback
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path

import ray
from flwr.app import Context, MessageType
from flwr.serverapp import Grid, ServerApp
from flwr.simulation import run_simulation

from feddecorr.core.trust import VARIABLE
from feddecorr.flower import client_app
from feddecorr.flower.exchange import Exchange
from feddecorr.flower.payload import HOME, Payload, pack, reply_limit, to_arrays

INHERITED = (HOME, VARIABLE, "PYTHONPATH")
"""What actors know of this process: the folder of the simulation, and where code is found."""

POLL_INTERVAL = 0.01
"""Seconds between two polls of the grid, which is cheap in a simulation."""

RETRIES = 2
"""How often a client is trained again, in a new actor, after its actor was killed."""


def main(home: Path, descriptor: int) -> None:
    """Simulate the federation until the run closes the connection."""
    os.set_inheritable(descriptor, False)
    federation = json.loads((home / "federation.json").read_text())
    app = ServerApp()

    @app.main()
    def serve(grid: Grid, _context: Context) -> None:
        with Connection(descriptor) as run:
            _serve(run, grid, federation["clients"])

    try:
        if federation["address"]:
            _join(federation["address"])
        run_simulation(
            app,
            client_app.app,
            federation["clients"],
            backend_config={
                "init_args": {"num_cpus": federation["workers"], "include_dashboard": False},
                "client_resources": {"num_cpus": 1, "max_restarts": -1, "max_task_retries": RETRIES},
            },
        )
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)  # the thread of the ServerApp waits for nodes that will never be there


def _join(address: str) -> None:
    """Join a cluster, before Flower would: the actors of a cluster inherit nothing from this process."""
    known = {name: os.environ[name] for name in INHERITED}
    ray.init(address=address, runtime_env={"env_vars": known}, log_to_driver=False)


def _serve(run: Connection, grid: Grid, clients: int) -> None:
    """Serve the run's rounds until it closes the connection; any node can be any client."""
    while len(nodes := sorted(grid.get_node_ids())) < clients:
        time.sleep(POLL_INTERVAL)
    ask = partial(Exchange(grid).send_and_receive, interval=POLL_INTERVAL, timeout=math.inf)
    for reply in ask(dict.fromkeys(nodes, pack(to_arrays(b""), {})), MessageType.QUERY, limit=0):
        if reply.payload is None:
            raise RuntimeError(reply.cause)
    run.send_bytes(b"all nodes are ready")
    while True:
        try:
            request, content = json.loads(run.recv_bytes()), run.recv_bytes()
        except EOFError:
            return
        arrays, asked = to_arrays(content), {nodes[client]: client for client in request["clients"]}
        messages = {node: pack(arrays, {**request["config"], "client": client}) for node, client in asked.items()}
        for reply in ask(messages, MessageType.TRAIN, limit=reply_limit(len(content))):
            payload = reply.payload or Payload(b"", {})
            header = {"client": asked[reply.node], "cause": reply.cause, "kind": payload.config.get("kind", "")}
            run.send_bytes(json.dumps(header).encode())
            run.send_bytes(payload.content)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
