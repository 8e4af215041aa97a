"""The ClientApp: in a process of the node it says who the node is, trains and evaluates."""

from __future__ import annotations

import sys

from flwr.app import Context, Message
from flwr.clientapp import ClientApp

from feddecorr.flower.envelope import seal, unseal, wrap

LARGEST = (1 << 31) - 1
"""Bytes of a message from the server; Flower carries no more."""

app = ClientApp()


@app.query()
def introduce(message: Message, context: Context) -> Message:
    """Answer which client the node is and, where the question names an experiment, what there is to know of it."""
    if not unseal(message.content, LARGEST).content:
        return Message(seal(wrap(b""), {"client": int(context.node_config["partition-id"])}), reply_to=message)
    return _answer("introduce", message, context)


@app.evaluate()
def evaluate(message: Message, context: Context) -> Message:
    """Answer a global model with what it makes of the node's own images: a mean and a covariance, no feature."""
    return _answer("evaluate", message, context)


@app.train()
def train(message: Message, context: Context) -> Message:
    """Answer a broadcast with an update, or with what went wrong."""
    return _answer("train", message, context)


def _answer(question: str, message: Message, context: Context) -> Message:
    """Answer here where PyTorch is loaded; a process for this message alone lets the node's warm one answer."""
    letter, config = unseal(message.content, LARGEST), context.node_config
    if "client" in config and "torch" not in sys.modules and sys.platform == "linux":
        from feddecorr.flower.warm import answer  # noqa: PLC0415 - for deployed nodes alone

        kind, content = answer(question, letter, config)
    else:
        from feddecorr.flower.playing import QUESTIONS  # noqa: PLC0415 - PyTorch is loaded when it is needed

        kind, content = QUESTIONS[question](letter, config)
    return Message(seal(wrap(content), {"kind": kind}), reply_to=message)
