"""Questions to nodes and their answers, as they come, over Flower's grid."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from flwr.app import Message, RecordDict
from flwr.serverapp import Grid

from feddecorr.core.checks import printable
from feddecorr.errors import UserError
from feddecorr.flower.envelope import Letter, unseal

BUSY = "its node is still at work on an earlier message"


class Answer(NamedTuple):
    """What came of a question to a node: a letter, or why there is none."""

    node: int
    letter: Letter | None
    cause: str = ""


class _Question(NamedTuple):
    node: int
    limit: int


class Exchange:
    """The questions that nodes have not answered yet. A node gets no second one before it has answered the first.

    So messages never pile up at a node that is slow or hangs. Of a node that dies, Flower itself gives an error.
    """

    def __init__(self, grid: Grid) -> None:
        self._grid = grid
        self._open: dict[str, _Question] = {}

    @property
    def nodes(self) -> set[int]:
        """Who has a question to answer."""
        return {question.node for question in self._open.values()}

    def ask(self, questions: Mapping[int, RecordDict], kind: str, *, limit: int) -> Iterator[Answer]:
        """Send each node its question; yield an answer for those that cannot be asked, and wait for nobody.

        Sent one by one, messages do not add up to more than the grid takes at once.
        """
        busy = self.nodes
        for node, records in questions.items():
            if node in busy:
                yield Answer(node, None, BUSY)
                continue
            sent = list(self._grid.push_messages([Message(records, node, kind)]))
            if sent and sent[0]:
                self._open[sent[0]] = _Question(node, limit)
            else:
                yield Answer(node, None, "its message could not be sent")

    def look(self) -> Iterator[Answer]:
        """Yield the answers that have come since the last look."""
        if not self._open:
            return
        replies = {reply.metadata.reply_to_message_id: reply for reply in self._grid.pull_messages(list(self._open))}
        for number in replies.keys() & self._open.keys():
            node, limit = self._open.pop(number)
            yield _read(node, replies[number], limit)

    def converse(
        self, questions: Mapping[int, RecordDict], kind: str, *, limit: int, pause: float, timeout: float
    ) -> Iterator[Answer]:
        """Send each node its question, and yield one answer for each, in the order in which they come.

        When `timeout` seconds are over, whoever has not answered is given as such; what comes of it later is dropped.
        The grid is asked for news every `pause` seconds: each look costs Flower time for all that is waited for.
        """
        end = time.monotonic() + timeout
        for _ in self.look():  # what came too late
            pass
        waiting = set(questions)
        for answer in self.ask(questions, kind, limit=limit):
            waiting.remove(answer.node)
            yield answer
        while waiting:
            for answer in self.look():
                if answer.node in waiting:
                    waiting.remove(answer.node)
                    yield answer
            if waiting and time.monotonic() >= end:
                break
            if waiting:
                time.sleep(pause)
        for node in sorted(waiting):
            yield Answer(node, None, f"its node did not answer within {timeout:g} seconds")


def _read(node: int, reply: Message, limit: int) -> Answer:
    if reply.has_error():
        return Answer(node, None, printable(f"Flower gave error {reply.error.code} for it: {reply.error.reason}"))
    try:
        return Answer(node, unseal(reply.content, limit))
    except UserError as error:
        return Answer(node, None, printable(f"its message was refused: {error}"))
