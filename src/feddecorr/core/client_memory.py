"""What clients remember between rounds, kept on disk: main memory does not grow with the clients."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from feddecorr.core.files import load_tensors, save_tensors
from feddecorr.core.paths import InnerPath
from feddecorr.core.states import State

SUFFIX = ".safetensors"


def numbered(folder: InnerPath) -> list[int]:
    """Return the numbers by which tensors are kept in a folder; what has another name is not ours."""
    names = [name.removesuffix(SUFFIX) for name in folder.names() if name.endswith(SUFFIX)]
    return sorted(int(name) for name in names if _is_number(name))


def _is_number(name: str) -> bool:
    return name.isascii() and name.isdecimal() and name == str(int(name))


class Memories:
    """One file per client and round in which it trained: `DIR/CLIENT/ROUND.safetensors`.

    A client starts round r with its newest file from before r. So a round can be done again at any time, and
    files of a round that was never finished do no harm.
    """

    def __init__(self, directory: InnerPath | Path) -> None:
        self.directory = InnerPath(directory) if isinstance(directory, Path) else directory

    def load(self, client: int, before: int) -> State:
        """Return what the client remembers when that round begins; nothing if it was never drawn."""
        newest = self._newest(client, before - 1)
        return load_tensors(self._file(client, newest)) if newest else {}

    def save(self, client: int, now: int, memory: State) -> None:
        """Keep what the client remembers after that round."""
        if memory:
            self._folder(client).make()
            save_tensors(self._file(client, now), memory)

    def settle(self, clients: Iterable[int], now: int, aside: Memories | None = None) -> None:
        """Drop what was replaced, once the round is safely recorded; or move it aside, in place of what is there."""
        if aside is not None:
            aside.drop()
        for client in self.of_round(clients, now):
            for number in numbered(self._folder(client)):
                if number < now and aside is None:
                    self._file(client, number).remove()
                elif number < now and aside is not None:
                    aside._folder(client).make()
                    self._file(client, number).move_to(aside._file(client, number))

    def drop(self) -> None:
        """Remove all that clients remember here, and no other file."""
        for client in self._clients():
            for number in numbered(self._folder(client)):
                self._file(client, number).remove()
            self._folder(client).remove_if_empty()
        self.directory.remove_if_empty()

    def lend(self, clients: Iterable[int], before: int, to: Memories) -> None:
        """Copy these clients' states at the beginning of that round, unless there are newer ones."""
        for client in clients:
            newest = self._newest(client, before - 1)
            if newest and newest > (to._newest(client, before - 1) or 0):
                to._folder(client).make()
                to._file(client, newest).write(self._file(client, newest).read())

    def newest(self, last: int) -> dict[int, int]:
        """Return, for each client that remembers anything, the newest round up to the last that it does so from."""
        known = {client: self._newest(client, last) for client in self._clients()}
        return {client: number for client, number in known.items() if number}

    def of_round(self, clients: Iterable[int], now: int) -> list[int]:
        """Return which of the clients remember something from that round."""
        if not self.directory.exists():
            return []
        return [client for client in clients if self._file(client, now).exists()]

    def _clients(self) -> Iterator[int]:
        return (int(name) for name in self.directory.names() if _is_number(name))

    def _newest(self, client: int, last: int) -> int | None:
        return max((number for number in numbered(self._folder(client)) if number <= last), default=None)

    def _folder(self, client: int) -> InnerPath:
        return self.directory / str(client)

    def _file(self, client: int, now: int) -> InnerPath:
        return self._folder(client) / f"{now}{SUFFIX}"


class MemoryChecksum:
    """A checksum of which clients have a state of which round, by which a run notices missing states.

    It is a sum over clients, so that a round changes it by its own clients alone.
    """

    def __init__(self, newest: Mapping[int, int]) -> None:
        self._newest = dict(newest)
        self._sum = sum(_mark(client, number) for client, number in newest.items())

    def note(self, client: int, number: int) -> None:
        """Take note that the client remembers something from a round, in place of what it did before."""
        before = self._newest.get(client)
        self._sum += _mark(client, number) - (0 if before is None else _mark(client, before))
        self._newest[client] = number

    def __str__(self) -> str:
        return f"{self._sum % 2**64:016x}"


def _mark(client: int, number: int) -> int:
    return int.from_bytes(hashlib.sha256(f"{client}/{number}".encode()).digest()[:8], "big")
