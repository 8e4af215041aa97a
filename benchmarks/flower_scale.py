"""What one server carries: many registered nodes, some of them in each round, through Flower's own message store.

    python -m benchmarks.flower_scale [--nodes 10000] [--cohort 100] [--rounds 5] [--record results/flower_scale.json]

The server is that of a deployment; its messages go through Flower's state of nodes and messages and come back. All
of it is in one process, the nodes too: they answer at once with what they were sent, as if they had trained. So
what is measured is what the server does for each client: wrap, send, receive, read, check, average. All seconds are
the processor's: for each client without those of the nodes; to meet all nodes, and in a whole round, with them.
Bytes are those of Flower's messages. From both follows what a server carries; docs/scale.md says how.
"""

from __future__ import annotations

import argparse
import resource
import secrets
import tempfile
import threading
import time
from pathlib import Path
from typing import Any
from uuid import uuid4

import torch
from flwr.app import Context, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.common.constant import HEARTBEAT_INTERVAL_INF, NOOP_ACCOUNT_NAME, NOOP_FLWR_AID, SUPERLINK_NODE_ID
from flwr.proto.task_pb2 import Task as FlowerTask
from flwr.server.superlink.linkstate import LinkStateFactory
from flwr.server.superlink.linkstate.in_memory_linkstate import InMemoryLinkState, RunRecord
from flwr.supercore.constant import FLWR_IN_MEMORY_DB_NAME, NOOP_FEDERATION_ID
from flwr.supercore.object_store import ObjectStoreFactory
from flwr.supercore.run import Run
from flwr.supercore.task_identity import TaskIdentity
from flwr.superlink.federation import NoOpFederationManager
from flwr.superlink.grid import InMemoryGrid

from benchmarks.recording import write_record
from feddecorr.config.overrides import read_overrides
from feddecorr.core.messages import Broadcast, Update, from_bytes, to_bytes
from feddecorr.data.dataset import PixelSums
from feddecorr.deployment.server_app import Deployment
from feddecorr.flower.client_app import MAX_BYTES
from feddecorr.flower.data_summary import DataSummary
from feddecorr.flower.payload import pack, to_arrays, unpack
from feddecorr.runs.pipeline import ensure
from feddecorr.settings.flat import parse_settings

PIXELS = torch.zeros(2, 32, 32, 3, dtype=torch.uint8)
SUMS = PixelSums.of(PIXELS.add(torch.tensor([[[[0]]], [[[2]]]], dtype=torch.uint8)))


class Fleet:
    """Nodes in Flower's state, which a thread answers for."""

    def __init__(self, count: int) -> None:
        factory = LinkStateFactory(FLWR_IN_MEMORY_DB_NAME, NoOpFederationManager(), ObjectStoreFactory())
        state = factory.state()
        assert isinstance(state, InMemoryLinkState)
        self.state = state
        run = Run.create_empty(run_id=1)
        run.primary_task_id, run.federation_id = 1, NOOP_FEDERATION_ID
        TaskIdentity.task_id, TaskIdentity.run_id, TaskIdentity.node_id = 1, 1, SUPERLINK_NODE_ID
        state.run_ids[1] = RunRecord(run=run)
        state.task_store[1] = FlowerTask(task_id=1, run_id=1)
        self.clients = {self._register(): client for client in range(count)}
        self.grid = InMemoryGrid(state_factory=factory)
        self.grid.set_run(run)
        self.bytes = 0
        self.cpu = 0.0  # of the thread
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._answer_all, daemon=True)

    def _register(self) -> int:
        node = self.state.create_node(
            NOOP_FLWR_AID, NOOP_ACCOUNT_NAME, secrets.token_bytes(32), heartbeat_interval=HEARTBEAT_INTERVAL_INF
        )
        self.state.acknowledge_node_heartbeat(node_id=node, heartbeat_interval=HEARTBEAT_INTERVAL_INF)
        return node

    def __enter__(self) -> Fleet:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _answer_all(self) -> None:
        while not self._over.is_set():
            asked = False
            waiting = {message.metadata.dst_node_id for message in list(self.state.message_ins_store.values())}
            for node in waiting & self.clients.keys():
                for message in self.state.get_message_ins(node_id=node, limit=1):
                    asked = True
                    reply = app(message, Context(1, node, {"client": self.clients[node]}, RecordDict(), {}))
                    reply.metadata.__dict__["_message_id"] = str(uuid4())
                    self.bytes += len(unpack(reply.content, MAX_BYTES).content)
                    self.state.store_message_res(reply)
            self.cpu = time.thread_time()
            if not asked:
                time.sleep(0.002)


app = ClientApp()


@app.query()
def query(message: Message, context: Context) -> Message:
    """Say that there are two images, whose sums are known."""
    client = int(context.node_config["client"])
    said = DataSummary(client, 2, (3, 32, 32), tuple("0123456789"), SUMS)
    return Message(pack(to_arrays(said.to_bytes()), {"kind": "data_summary"}), reply_to=message)


@app.train()
def train(message: Message, context: Context) -> Message:
    """Send the weights back as they came."""
    sent = from_bytes(Broadcast, unpack(message.content, MAX_BYTES).content)
    client = int(context.node_config["client"])
    update = Update(sent.round, client, 2, 0.1, sent.weights, sent.buffers, {}, {"cross_entropy": 1.0})
    return Message(pack(to_arrays(to_bytes(update)), {"kind": "update"}), reply_to=message)


def measure(count: int, cohort: int, rounds: int) -> dict[str, Any]:
    """Do the rounds, and say what they took of the server."""
    words = ["data=nodes", f"clients={count}", f"participation={cohort / count}", f"rounds={rounds}"]
    network = ["model=mobilenetv2", "engine=flower", "evaluation.every=1000000"]
    experiment, options = parse_settings(read_overrides([*words, *network]))
    with Fleet(count) as fleet, tempfile.TemporaryDirectory() as folder:
        start = time.process_time()
        connection = Deployment(fleet.grid, experiment, options, Path(folder) / "run", test=None, log=lambda _: None)
        met = time.process_time() - start
        records = iter(ensure(experiment, options, Path(folder) / "run", through=connection))
        next(records)  # the first one builds the model
        before, server, begun = fleet.bytes, time.process_time() - fleet.cpu, time.process_time()
        for _ in range(rounds - 2):  # the last one is evaluated
            next(records)
        seconds = time.process_time() - fleet.cpu - server
        clients = cohort * (rounds - 2)
        return {
            "registered nodes": count,
            "clients per round": cohort,
            "seconds to meet all nodes": round(met, 2),
            "milliseconds of the server per client": round(1000 * seconds / clients, 2),
            "seconds of a round with its nodes": round((time.process_time() - begun) / (rounds - 2), 2),
            "peak memory in MB": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000),
            "megabytes up per client": round((fleet.bytes - before) / clients / 1e6, 3),
        }


def main() -> None:
    """Measure, print and record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=10_000)
    parser.add_argument("--cohort", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=5, help="at least 3; the first and the last are not counted")
    parser.add_argument("--record", type=Path, help="JSON file to write")
    chosen = parser.parse_args()
    found = measure(chosen.nodes, chosen.cohort, chosen.rounds)
    for name, value in found.items():
        print(f"{name}: {value}")
    if chosen.record:
        write_record(chosen.record, found)


if __name__ == "__main__":
    main()
