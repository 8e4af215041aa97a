"""Messages to nodes and their replies, as they come, over Flower's grid."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from flwr.app import Message, RecordDict
from flwr.serverapp import Grid

from feddecorr.core.checks import printable
from feddecorr.errors import UserError
from feddecorr.flower.payload import Payload, unpack

BUSY = "its node is still working on an earlier message"


class Reply(NamedTuple):
    """A node's reply: a payload, or the reason why there is none."""

    node: int
    payload: Payload | None
    cause: str = ""


class Exchange:
    """The messages without a reply. A node gets no second message before it has replied to the first.

    So messages never pile up at a node that is slow or hangs. For a node that dies, Flower itself returns an error.
    """

    def __init__(self, grid: Grid) -> None:
        self._grid = grid
        self._pending: dict[str, tuple[int, int]] = {}  # nodes and the size limits of their replies, by message

    @property
    def busy_nodes(self) -> set[int]:
        """The nodes that have not replied yet."""
        return {node for node, _ in self._pending.values()}

    def send(self, messages: Mapping[int, RecordDict], kind: str, *, limit: int) -> Iterator[Reply]:
        """Send each node its message without waiting; yield a reply for nodes that cannot get one.

        Messages go out one by one, so that together they never exceed what the grid accepts at once.
        """
        busy = self.busy_nodes
        for node, records in messages.items():
            if node in busy:
                yield Reply(node, None, BUSY)
                continue
            sent = list(self._grid.push_messages([Message(records, node, kind)]))
            if sent and sent[0]:
                self._pending[sent[0]] = (node, limit)
            else:
                yield Reply(node, None, "its message could not be sent")

    def poll(self) -> Iterator[Reply]:
        """Yield the replies that have come since the last poll."""
        if not self._pending:
            return
        replies = {reply.metadata.reply_to_message_id: reply for reply in self._grid.pull_messages(list(self._pending))}
        for number in replies.keys() & self._pending.keys():
            node, limit = self._pending.pop(number)
            yield _read(node, replies[number], limit)

    def send_and_receive(
        self, messages: Mapping[int, RecordDict], kind: str, *, limit: int, interval: float, timeout: float
    ) -> Iterator[Reply]:
        """Send each node its message, and yield one reply for each, in the order of their arrival.

        After `timeout` seconds, nodes without a reply are yielded as such, and late replies are dropped. The grid is
        polled every `interval` seconds: each poll costs Flower time for every pending message.
        """
        end = time.monotonic() + timeout
        for _ in self.poll():  # late replies to earlier messages
            pass
        waiting = set(messages)
        for reply in self.send(messages, kind, limit=limit):
            waiting.remove(reply.node)
            yield reply
        while True:
            for reply in self.poll():
                if reply.node in waiting:
                    waiting.remove(reply.node)
                    yield reply
            if not waiting or time.monotonic() >= end:
                break
            time.sleep(interval)
        for node in sorted(waiting):
            yield Reply(node, None, f"its node did not reply within {timeout:g} seconds")


def _read(node: int, reply: Message, limit: int) -> Reply:
    if reply.has_error():
        return Reply(node, None, printable(f"Flower reported error {reply.error.code}: {reply.error.reason}"))
    try:
        return Reply(node, unpack(reply.content, limit))
    except UserError as error:
        return Reply(node, None, printable(f"its message was refused: {error}"))
