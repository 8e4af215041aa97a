"""What clients remember between rounds, kept on disk: main memory does not grow with the clients."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path

from feddecorr.files import load_tensors, save_tensors
from feddecorr.states import State

SUFFIX = ".safetensors"


class Memories:
    """One file per client and round in which it trained: `DIR/CLIENT/ROUND.safetensors`.

    A client starts round r with its newest file from before r. So a round can be done again at any time, and
    files of a round that was never finished do no harm.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def load(self, client: int, before: int) -> State:
        """Return what the client remembers when that round begins; nothing if it never took part."""
        earlier = [number for number in self._rounds(client) if number < before]
        return load_tensors(self._file(client, max(earlier))) if earlier else {}

    def save(self, client: int, now: int, memory: State) -> None:
        """Keep what the client remembers after that round."""
        if memory:
            self._file(client, now).parent.mkdir(parents=True, exist_ok=True)
            save_tensors(self._file(client, now), memory)

    def settle(self, clients: Iterable[int], now: int, aside: Path | None = None) -> None:
        """Drop what was replaced, once the round is safely recorded; or move it aside, in place of what is there."""
        if aside is not None:
            shutil.rmtree(aside, ignore_errors=True)
        for client in self.of_round(clients, now):
            for number in self._rounds(client):
                if number < now and aside is None:
                    self._file(client, number).unlink()
                elif number < now and aside is not None:
                    kept = Memories(aside)._file(client, number)
                    kept.parent.mkdir(parents=True, exist_ok=True)
                    self._file(client, number).replace(kept)

    def newest(self, last: int) -> dict[int, int]:
        """Return, for each client that remembers anything, the newest round up to the last that it does so from."""
        clients = [int(folder.name) for folder in self.directory.glob("*") if folder.name.isdecimal()]
        known = {client: [number for number in self._rounds(client) if number <= last] for client in clients}
        return {client: max(rounds) for client, rounds in known.items() if rounds}

    def of_round(self, clients: Iterable[int], now: int) -> list[int]:
        """Return which of the clients remember something from that round."""
        return [client for client in clients if now in self._rounds(client)] if self.directory.exists() else []

    def _rounds(self, client: int) -> list[int]:
        try:
            names = os.listdir(f"{self.directory}/{client}")  # noqa: PTH208 - paths take much longer, for every client
        except FileNotFoundError:
            return []
        return [int(name.removesuffix(SUFFIX)) for name in names if name.endswith(SUFFIX) and name[0] != "."]

    def _file(self, client: int, now: int) -> Path:
        return self.directory / str(client) / f"{now}{SUFFIX}"


class Tally:
    """Who remembers something from which round, in one number: with it, a run notices that memories are missing.

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
