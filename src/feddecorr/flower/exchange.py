"""Questions to nodes and their answers, as they come, over Flower's grid."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from flwr.app import Message, RecordDict
from flwr.serverapp import Grid

from feddecorr.errors import UserError
from feddecorr.flower.envelope import Letter, unseal


class Answer(NamedTuple):
    """What came of a question to a node: a letter, or why there is none."""

    node: int
    letter: Letter | None
    cause: str = ""


def exchange(
    grid: Grid, questions: Mapping[int, RecordDict], kind: str, *, pause: float, limit: int
) -> Iterator[Answer]:
    """Send each node its question, and yield one answer for each, in the order in which they come.

    The grid is asked for news every `pause` seconds; of a node that dies, Flower itself gives an error. Sent one by
    one, messages do not add up to more than the grid takes at once.
    """
    waiting: dict[str, int] = {}
    for node, records in questions.items():
        sent = list(grid.push_messages([Message(records, node, kind)]))
        if sent and sent[0]:
            waiting[sent[0]] = node
        else:
            yield Answer(node, None, "its message could not be sent")
    while waiting:
        replies = {reply.metadata.reply_to_message_id: reply for reply in grid.pull_messages(list(waiting))}
        for question in replies.keys() & waiting.keys():
            yield _read(waiting.pop(question), replies[question], limit)
        if waiting:  # each look costs Flower time for all that is waited for
            time.sleep(pause)


def _read(node: int, reply: Message, limit: int) -> Answer:
    if reply.has_error():
        return Answer(node, None, f"Flower gave error {reply.error.code} for it: {reply.error.reason}")
    try:
        return Answer(node, unseal(reply.content, limit))
    except UserError as error:
        return Answer(node, None, f"its message was refused: {error}")
