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
@app.evaluate()
@app.train()
def reply(message: Message, context: Context) -> Message:
    """Handle the message here if PyTorch is loaded; otherwise pass it to the node's warm process.

    The reply to an experiment is a summary of the node's data; to a broadcast, an update; to a global model, evidence
    from the node's own images (a mean and a covariance, no features); or a failure.
    """
    payload, node_config = unpack(message.content, MAX_BYTES), context.node_config
    if not payload.content:  # a simulation waits for all nodes
        return Message(message.content, reply_to=message)
    if "client" in node_config and "torch" not in sys.modules and sys.platform == "linux":
        from feddecorr.flower.warm_process import handle  # noqa: PLC0415 - for deployed nodes only
    else:
        from feddecorr.flower.node import handle  # noqa: PLC0415 - loads PyTorch
    kind, content = handle(message.metadata.message_type, payload, node_config)
    return Message(pack(to_arrays(content), {"kind": kind}), reply_to=message)
