"""The ClientApp: in a process of the node, it describes the node's data, trains and evaluates."""

from __future__ import annotations

import sys

from flwr.app import Context, Message
from flwr.clientapp import ClientApp

from feddecorr.flower.payload import pack, to_arrays, unpack

MAX_BYTES = (1 << 31) - 1
"""Size limit of a message from the server; Flower carries no more."""

app = ClientApp()


@app.query()
def query(message: Message, context: Context) -> Message:
    """Reply with the node's client number and, if the message holds an experiment, a summary of its data."""
    if not unpack(message.content, MAX_BYTES).content:
        config = {"client": int(context.node_config["partition-id"])}
        return Message(pack(to_arrays(b""), config), reply_to=message)
    return _handle("query", message, context)


@app.evaluate()
def evaluate(message: Message, context: Context) -> Message:
    """Reply to a global model with evidence from the node's own images: a mean and a covariance, no features."""
    return _handle("evaluate", message, context)


@app.train()
def train(message: Message, context: Context) -> Message:
    """Reply to a broadcast with an update or a failure."""
    return _handle("train", message, context)


def _handle(action: str, message: Message, context: Context) -> Message:
    """Handle the message here if PyTorch is loaded; otherwise pass it to the node's warm process."""
    payload, node_config = unpack(message.content, MAX_BYTES), context.node_config
    if "client" in node_config and "torch" not in sys.modules and sys.platform == "linux":
        from feddecorr.flower.warm_process import handle  # noqa: PLC0415 - for deployed nodes only

        kind, content = handle(action, payload, node_config)
    else:
        from feddecorr.flower.handlers import HANDLERS  # noqa: PLC0415 - loads PyTorch

        kind, content = HANDLERS[action](payload, node_config)
    return Message(pack(to_arrays(content), {"kind": kind}), reply_to=message)
