"""Flower's grid in one process: messages go through Flower's own serialization, nodes come and go as a test says."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from threading import Event
from typing import Any

from flwr.app import Context, Error, Message, RecordDict
from flwr.common.serde import message_from_proto, message_to_proto
from flwr.serverapp import Grid
from flwr.supercore.run import Run
from flwr.supercore.task_identity import TaskIdentity

from feddecorr.flower.client_app import app

Answer = Callable[[Message, Context], Message]


class LocalGrid(Grid):
    """Nodes by their numbers, each with the configuration that its owner gave it."""

    def __init__(
        self, configs: dict[int, dict[str, Any]], *, app: Answer = app, run_config: dict[str, Any] | None = None
    ) -> None:
        TaskIdentity.task_id, TaskIdentity.run_id, TaskIdentity.node_id = 1, 1, 1
        self.configs = dict(configs)
        self._app = app
        self._run_config = run_config or {}
        self.dead: set[int] = set()
        """Nodes that are listed, and of which Flower says that they are gone."""
        self.hung: set[int] = set()
        """Nodes that take their messages, and answer when they are no longer here."""
        self.stalled: dict[int, Event] = {}
        """Nodes whose uploads stall until the event: Flower waits for one for minutes."""
        self.malformed: set[int] = set()
        """Nodes whose answers Flower itself cannot read: it raises, and has deleted all that was pulled with them."""
        self.answers: dict[int, Answer] = {}
        """Nodes that answer in their own way."""
        self.asked: list[tuple[int, str]] = []
        self._replies: dict[str, Message] = {}

    def set_run(self, run: Run) -> None:
        """Do nothing."""

    @property
    def run(self) -> Run:
        """Return a run of no importance."""
        return Run.create_empty(1)

    def create_message(self, *args: Any, **options: Any) -> Message:
        """Refuse: it is deprecated."""
        raise NotImplementedError

    def get_node_ids(self) -> Iterable[int]:
        """Return who is listed."""
        return list(self.configs)

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        """Let each node answer at once."""
        numbers = []
        for message in messages:
            number = str(len(self.asked))
            message.metadata.__dict__["_message_id"] = number
            self.asked.append((message.metadata.dst_node_id, message.metadata.message_type))
            self._replies[number] = self._reply(_over_the_wire(message))
            numbers.append(number)
        return numbers

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        """Return the answers, the last one first: order must not matter."""
        there = [number for number in message_ids if self.asked[int(number)][0] not in self.hung]
        found = [(number, self._replies.pop(number)) for number in reversed(there) if number in self._replies]
        for node in {self.asked[int(number)][0] for number, _ in found}:
            if node in self.stalled:
                self.stalled[node].wait()
            if node in self.malformed:
                raise KeyError("ab12")  # an object that its message names and does not hold
        return [reply for _, reply in found]

    def send_and_receive(self, messages: Iterable[Message], *, timeout: float | None = None) -> Iterable[Message]:
        """Do both."""
        return self.pull_messages(self.push_messages(messages))

    def _reply(self, message: Message) -> Message:
        node = message.metadata.dst_node_id
        if node in self.dead or node not in self.configs:
            return Message(Error(code=5, reason="Message Unavailable: the node is gone"), reply_to=message)
        context = Context(1, node, self.configs[node], RecordDict(), self._run_config)
        answer = self.answers.get(node, self._app)(message, context)
        answer.metadata.__dict__["_message_id"] = "answer"
        return _over_the_wire(answer)


def _over_the_wire(message: Message) -> Message:
    return message_from_proto(message_to_proto(message))
