"""Who is connected: the nodes of a deployed federation, known by the numbers of their clients."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import chain

from flwr.app import MessageType, RecordDict
from flwr.serverapp import Grid

from feddecorr.config.experiment import Experiment
from feddecorr.core.checks import printable
from feddecorr.core.messages import Failure
from feddecorr.core.wire import from_bytes
from feddecorr.errors import RunError, UserError
from feddecorr.flower.client_keys import ClientKeys
from feddecorr.flower.envelope import Letter, seal, wrap
from feddecorr.flower.exchange import Answer, Exchange
from feddecorr.flower.introduction import Introduction

PAUSE = 0.5
"""Seconds between two looks for news over the network."""

LONGEST_INTRODUCTION = 1 << 20
"""Bytes that a node may say of itself."""

NOT_THERE = "it was not there when the run began, and the model was settled without it"


@dataclass(frozen=True)
class Met:
    """A node that said who it is."""

    node: int
    introduction: Introduction


class Nodes:
    """The connected nodes by client. Flower's numbers of nodes are random and change; those of clients do not.

    New nodes are asked who they are, and nobody waits for their answers: a node that hangs costs nothing. A client
    whose node cannot take part ends the run, or is left out with the reason, by the experiment's policy.
    """

    def __init__(self, grid: Grid, experiment: Experiment, say: Callable[[str], None], keys: ClientKeys) -> None:
        self.grid = grid
        self._keys = keys
        self.reasons: dict[int, str] = {}
        """Why clients cannot take part."""
        self._say = say
        self._clients = experiment.clients
        self._goes_on = experiment.missing == "continue"
        self._minimum = experiment.minimum_clients if self._goes_on else experiment.clients
        self._question: RecordDict = seal(wrap(json.dumps(experiment.to_dict()).encode()), {})
        self._exchange = Exchange(grid)
        self._begun: Mapping[int, Introduction] | None = None
        self._met: dict[int, Met] = {}
        self._rivals: dict[int, Met] = {}  # by the node that was there before
        self._left_out: dict[int, int | None] = {}  # nodes, and as which client they may be asked again
        self._told: set[str] = set()

    def gather(self, seconds: float) -> dict[int, Introduction]:
        """Return what clients say of themselves before the run begins: of all, or of those that can take part."""
        found = self.wait_for(range(self._clients), seconds)
        for node, newcomer in self._rivals.items():
            raise RunError(_both(node, newcomer))
        absent = sorted(set(range(self._clients)) - found.keys())
        silent = [client for client in absent if client not in self.reasons]
        if len(found) < self._minimum:
            said = "".join(f"; client {client} cannot take part: {why}" for client, why in self.reasons.items())
            raise RunError(
                f"{_list_clients(silent or absent)} of {self._clients} did not connect within engine.wait={seconds:g} "
                f"seconds: each needs a SuperNode with --node-config 'client=NUMBER …'{said}"
            )
        self.reasons |= dict.fromkeys(silent, NOT_THERE)
        return {client: found[client].introduction for client in sorted(found)}

    def begin(self, introductions: Mapping[int, Introduction]) -> None:
        """Take what clients said for what the run is about: from now on, no other data and no other class joins it."""
        self._begun = dict(introductions)
        self._met = {client: met for client, met in self._met.items() if client in introductions}

    def wait_for(self, clients: Iterable[int], seconds: float) -> dict[int, Met]:
        """Return these clients' nodes when all are connected, or those that are when the time is over.

        Nobody waits for a client that cannot take part; but its node is asked once more whether it can by now.
        """
        wanted, end, told = set(clients), time.monotonic() + seconds, ""
        self._left_out = {node: client for node, client in self._left_out.items() if client is None}
        while True:
            self._look()
            missing = sorted(wanted - self._met.keys() - self.reasons.keys())
            waiting = f"waiting for {_list_clients(missing)}, at most {seconds:g} seconds"
            if missing and seconds and waiting != told:
                self._say(waiting)
                told = waiting
            if not (missing or self._rivals) or time.monotonic() >= end:
                return {client: self._met[client] for client in wanted & self._met.keys()}
            time.sleep(PAUSE)

    def _look(self) -> None:
        """Forget nodes that are gone, ask new ones who they are, and hear what has come."""
        connected = set(self.grid.get_node_ids())
        self._met = {client: met for client, met in self._met.items() if met.node in connected}
        self._left_out = {node: client for node, client in self._left_out.items() if node in connected}
        known = {met.node for met in self._met.values()} | self._left_out.keys() | self._exchange.nodes
        for answer in chain(self._ask(connected - known), self._exchange.look()):
            self._hear(answer)
        if self._rivals:
            for answer in self._exchange.look():
                self._hear(answer)

    def _ask(self, nodes: Iterable[int]) -> Iterable[Answer]:
        questions = dict.fromkeys(nodes, self._question)
        return self._exchange.ask(questions, MessageType.QUERY, limit=LONGEST_INTRODUCTION)

    def _hear(self, answer: Answer) -> None:
        if (rival := self._rivals.pop(answer.node, None)) is not None:
            self._decide(answer, rival)
        elif answer.letter is None:
            self._tell(f"node {answer.node} does not say who it is: {answer.cause}")
        else:
            self._read(answer.node, answer.letter)

    def _read(self, node: int, letter: Letter) -> None:
        """Take what a node says of itself, or that it cannot take part."""
        try:
            if letter.note.get("kind") == "introduction":
                self._meet(Met(node, Introduction.from_bytes(letter.content)))
            else:
                failure = from_bytes(Failure, letter.content)
                self._refuse(node, failure.client, printable(failure.cause))
        except UserError as error:
            self._leave_out(node, f"its message was refused: {error}")

    def _meet(self, newcomer: Met) -> None:
        client, known = newcomer.introduction.client, self._met.get(newcomer.introduction.client)
        if client >= self._clients:
            self._leave_out(newcomer.node, f"it says client={client}, and clients are 0 to {self._clients - 1}")
        elif refusal := self._keys.refusal(client, newcomer.node):
            self._leave_out(newcomer.node, refusal)
        elif known is not None:
            self._compare(known, newcomer)
        elif why := self._objection(newcomer.introduction):
            self._refuse(newcomer.node, client, why)
        else:
            self._met[client] = newcomer
            self.reasons.pop(client, None)
            self._say(f"client {client} is node {newcomer.node}, with {newcomer.introduction.examples} examples")

    def _objection(self, introduction: Introduction) -> str:
        """Return why a client cannot join the run that has begun; nothing if it can."""
        if self._begun is None:
            return ""
        before = self._begun.get(introduction.client)
        if before is None:
            return self.reasons.get(introduction.client, NOT_THERE)
        return introduction.differences(before)

    def _refuse(self, node: int, client: int, why: str) -> None:
        """Let the policy decide about a client that cannot take part, unless another node speaks for it."""
        said = f"client {client}'s node {node} cannot take part: {why}"
        if not 0 <= client < self._clients or client in self._met:
            self._leave_out(node, why)
        elif not self._goes_on:
            raise RunError(said)
        else:
            self.reasons[client] = why
            self._left_out[node] = client
            self._tell(said)

    def _compare(self, known: Met, newcomer: Met) -> None:
        """Ask the node that was there before once more: Flower gives an error for one that was killed."""
        self._left_out[newcomer.node] = None
        if known.node not in self._rivals:
            self._rivals[known.node] = newcomer
            for answer in self._ask([known.node]):
                self._hear(answer)

    def _decide(self, answer: Answer, newcomer: Met) -> None:
        """Let a newcomer take the place of a node that is gone; two that are there cannot both be the client."""
        client = newcomer.introduction.client
        if answer.letter is None:
            self._met.pop(client, None)
            self._left_out.pop(newcomer.node, None)
            self._meet(newcomer)
            return
        if self._begun is None or not self._goes_on:
            raise RunError(_both(answer.node, newcomer))
        self._tell(f"{_both(answer.node, newcomer)}; node {newcomer.node} is left out")

    def _leave_out(self, node: int, why: str) -> None:
        self._left_out[node] = None
        self._tell(f"node {node} is left out: {why}")

    def _tell(self, text: str) -> None:
        """Say it once: nodes are asked again and again."""
        if text not in self._told:
            self._told.add(text)
            self._say(text)


def _both(node: int, newcomer: Met) -> str:
    one, other = sorted((node, newcomer.node))
    client = newcomer.introduction.client
    return f"nodes {one} and {other} both claim to be client {client}: give each another client in its --node-config"


def _list_clients(clients: list[int]) -> str:
    return f"client{'s' if len(clients) > 1 else ''} {', '.join(map(str, clients))}"
