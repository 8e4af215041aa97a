"""The rounds of a run, one after the other in a file: a line of JSON each."""

from __future__ import annotations

import json
from pathlib import Path

from feddecorr.files import append_bytes, reading, write_bytes
from feddecorr.runs.record import Record
from feddecorr.strict_json import parse_json


class RoundLines:
    """The file `rounds.jsonl`; it may hold lines of rounds that do not count (yet), and half a line at its end."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def append(self, record: Record) -> None:
        """Add the line of a round."""
        append_bytes(self.path, (json.dumps(record.to_dict(), allow_nan=False) + "\n").encode())

    def read(self, count: int) -> list[Record]:
        """Return the records of the first rounds, so many; say which line is not what it should be."""
        return [self._parse(number, line) for number, line in enumerate(self._lines(count), start=1)]

    def read_last(self, count: int) -> Record:
        """Return the record of the last of the first rounds, so many."""
        return self._parse(count, self._lines(count)[-1])

    def _parse(self, number: int, line: bytes) -> Record:
        with reading(self.path, number):
            record = Record.from_dict(parse_json(line))
            if record.round != number:
                raise ValueError(f"round {record.round} in place of {number}")
        return record

    def cut(self, count: int) -> None:
        """Drop all lines but the first, so many."""
        write_bytes(self.path, b"".join(line + b"\n" for line in self._lines(count)))

    def _lines(self, count: int) -> list[bytes]:
        if not count:
            return []
        with reading(self.path):
            lines = self.path.read_bytes().split(b"\n")[:-1]
            if len(lines) < count:
                raise ValueError(f"{count} rounds are finished, but it has {len(lines)} whole lines")
        return lines[:count]
