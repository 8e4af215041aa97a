"""The ClientApp: in a process of the node it says who the node is, trains and evaluates."""

from __future__ import annotations

from flwr.app import Context, Message
from flwr.clientapp import ClientApp

from feddecorr.flower.envelope import seal, unseal, wrap

LARGEST = (1 << 31) - 1
"""Bytes of a message from the server; Flower carries no more."""

app = ClientApp()


@app.query()
def introduce(message: Message, context: Context) -> Message:
    """Answer which client the node is and, where the question names an experiment, what there is to know of it."""
    letter = unseal(message.content, LARGEST)
    if not letter.content:
        return Message(seal(wrap(b""), {"client": int(context.node_config["partition-id"])}), reply_to=message)
    from feddecorr.flower.playing import introduce_node  # noqa: PLC0415 - PyTorch is loaded when it is needed

    kind, content = introduce_node(letter, context)
    return Message(seal(wrap(content), {"kind": kind}), reply_to=message)


@app.evaluate()
def evaluate(message: Message, context: Context) -> Message:
    """Answer a global model with what it makes of the node's own images: a mean and a covariance, no feature."""
    from feddecorr.flower import playing  # noqa: PLC0415 - PyTorch is loaded when it is needed

    kind, content = playing.evaluate(unseal(message.content, LARGEST), context)
    return Message(seal(wrap(content), {"kind": kind}), reply_to=message)


@app.train()
def train(message: Message, context: Context) -> Message:
    """Answer a broadcast with an update, or with what went wrong."""
    from feddecorr.flower.playing import play  # noqa: PLC0415 - PyTorch is loaded when it is needed

    kind, content = play(unseal(message.content, LARGEST), context)
    return Message(seal(wrap(content), {"kind": kind}), reply_to=message)
