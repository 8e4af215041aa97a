"""Who is connected: the nodes of a deployed federation, known by the numbers of their clients."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from flwr.app import MessageType, RecordDict
from flwr.serverapp import Grid

from feddecorr.errors import RunError, UserError
from feddecorr.flower.answers import read_failure
from feddecorr.flower.envelope import seal, wrap
from feddecorr.flower.exchange import Answer, exchange
from feddecorr.flower.introduction import Introduction
from feddecorr.settings.experiment import Experiment

PAUSE = 0.5
"""Seconds between two looks for news over the network."""

LONGEST_INTRODUCTION = 1 << 20
"""Bytes that a node may say of itself."""


@dataclass(frozen=True)
class Met:
    """A node that said who it is."""

    node: int
    introduction: Introduction


class Nodes:
    """The connected nodes by client. Flower's numbers of nodes are random and change; those of clients do not."""

    def __init__(self, grid: Grid, experiment: Experiment, say: Callable[[str], None]) -> None:
        self.grid = grid
        self._say = say
        self._clients = experiment.clients
        self._goes_on = experiment.missing == "continue"
        self._complete = False
        self._question: RecordDict = seal(wrap(json.dumps(experiment.to_dict()).encode()), {})
        self._met: dict[int, Met] = {}
        self._said: dict[int, Introduction] = {}
        self._strangers: set[int] = set()
        self._silent: dict[int, str] = {}

    def wait_for(self, clients: Iterable[int], seconds: float) -> dict[int, Met]:
        """Return these clients' nodes when all are connected, or those that are when the time is over."""
        wanted, end, told = set(clients), time.monotonic() + seconds, ""
        while True:
            self._look()
            missing = sorted(wanted - self._met.keys())
            waiting = f"waiting for {_list_clients(missing)}, at most {seconds:g} seconds"
            if missing and seconds and waiting != told:
                self._say(waiting)
                told = waiting
            if not missing or time.monotonic() >= end:
                return {client: self._met[client] for client in wanted & self._met.keys()}
            time.sleep(PAUSE)

    def everybody(self, seconds: float) -> list[Introduction]:
        """Return what all clients say of themselves, in their order, or give up."""
        found = self.wait_for(range(self._clients), seconds)
        if missing := sorted(set(range(self._clients)) - found.keys()):
            raise RunError(
                f"{_list_clients(missing)} of {self._clients} did not connect within engine.wait={seconds:g} seconds: "
                "each needs a SuperNode with --node-config 'client=NUMBER …'"
            )
        self._complete = True
        return [found[client].introduction for client in range(self._clients)]

    def _look(self) -> None:
        """Forget nodes that are gone, and ask new ones who they are."""
        connected = set(self.grid.get_node_ids())
        self._met = {client: met for client, met in self._met.items() if met.node in connected}
        self._strangers &= connected
        new = connected - {met.node for met in self._met.values()} - self._strangers
        for answer in self._ask(new):
            if answer.letter is None:
                self._tell(answer)
            elif (introduction := self._read(answer)) is not None:
                self._meet(answer.node, introduction)

    def _tell(self, answer: Answer) -> None:
        """Say once why a node that is asked again and again gives no answer that can be read."""
        if self._silent.get(answer.node) != answer.cause:
            self._silent[answer.node] = answer.cause
            self._say(f"node {answer.node} does not say who it is: {answer.cause}")

    def _ask(self, nodes: Iterable[int]) -> Iterable[Answer]:
        questions = dict.fromkeys(nodes, self._question)
        return exchange(self.grid, questions, MessageType.QUERY, pause=PAUSE, limit=LONGEST_INTRODUCTION)

    def _read(self, answer: Answer) -> Introduction | None:
        """Return what a node says of itself; one that cannot take part ends the run, or is left out of a begun one."""
        assert answer.letter is not None  # noqa: S101 - as who calls it has seen
        try:
            if answer.letter.note.get("kind") != "introduction":
                raise UserError(read_failure(answer.letter.content))
            return Introduction.from_bytes(answer.letter.content)
        except UserError as error:
            why = f"node {answer.node} cannot take part: {error}"
            if not (self._complete and self._goes_on):
                raise RunError(why) from error
        self._strangers.add(answer.node)
        self._say(why)
        return None

    def _meet(self, node: int, introduction: Introduction) -> None:
        client = introduction.client
        if client >= self._clients:
            self._strangers.add(node)
            self._say(f"node {node} is left out: it says client={client}, and clients are 0 to {self._clients - 1}")
            return
        known = self._met.get(client)
        if known is not None and self._is_there(known.node):
            one, other = sorted((known.node, node))
            raise RunError(
                f"nodes {one} and {other} both claim to be client {client}: give each SuperNode another client in its "
                "--node-config"
            )
        if self._said.setdefault(client, introduction) != introduction:
            raise RunError(f"client {client} came back with other data, on node {node}")
        self._met[client] = Met(node, introduction)
        self._say(f"client {client} is node {node}, with {introduction.examples} examples")

    def _is_there(self, node: int) -> bool:
        """Ask again: of a node that was killed, Flower gives an error as soon as it misses its signs of life."""
        return any(answer.letter is not None for answer in self._ask([node]))


def _list_clients(clients: list[int]) -> str:
    return f"client{'s' if len(clients) > 1 else ''} {', '.join(map(str, clients))}"
