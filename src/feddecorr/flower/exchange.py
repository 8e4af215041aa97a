"""Messages to nodes and their replies, as they come, over Flower's grid."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, wait
from threading import Thread
from typing import NamedTuple

from flwr.app import Message, RecordDict
from flwr.serverapp import Grid

from feddecorr.core.checks import printable
from feddecorr.errors import UserError
from feddecorr.flower.payload import Payload, unpack

MAX_PULLS = 16
"""Replies that are pulled at once."""

PULL_PATIENCE = 1.0
"""Seconds for which a poll waits for these; one that takes longer is yielded by a later poll."""

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
        self._pulls: dict[str, Future[Reply | None]] = {}  # those under way, by message

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
        """Yield the replies that have come since the last poll.

        Each is pulled by itself, in a thread: Flower waits minutes for a reply whose upload stalls, and for one that is
        malformed it raises, after it has deleted everything that was pulled together.
        """
        numbers = [number for number in self._pending if number not in self._pulls]
        for start in range(0, len(numbers), MAX_PULLS):
            started = {number: self._pull(number) for number in numbers[start : start + MAX_PULLS]}
            self._pulls |= started
            wait(started.values(), PULL_PATIENCE)
        for number in [number for number, pull in self._pulls.items() if pull.done()]:
            pull = self._pulls.pop(number)
            if error := pull.exception():
                self._grid.get_node_ids()  # raises if the reason is that the SuperLink is gone
                why = printable(f"its message cannot be read: {type(error).__name__}: {error}")
                yield Reply(self._pending.pop(number)[0], None, why)
            elif reply := pull.result():
                del self._pending[number]
                yield reply

    def _pull(self, number: str) -> Future[Reply | None]:
        """Return the reply to a message, or None if there is none yet, once Flower has it whole."""
        node, limit = self._pending[number]
        found: Future[Reply | None] = Future()

        def pull() -> None:
            try:
                replies = list(self._grid.pull_messages([number]))
                found.set_result(_read(node, replies[0], limit) if replies else None)
            except Exception as error:
                found.set_exception(error)

        Thread(target=pull, daemon=True).start()
        return found

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
