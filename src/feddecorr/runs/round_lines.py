"""The rounds of a run, one after the other in a file: a line of JSON each."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from feddecorr.core.files import reading
from feddecorr.core.paths import MIB, InnerPath
from feddecorr.core.text import parse_json, to_json
from feddecorr.errors import RunError, UserError
from feddecorr.runs.record import Record

LONGEST = 256 * MIB
"""The most bytes of a line."""

MOST_BROKEN = 100
"""A file with more broken lines than that is no file of rounds."""


@dataclass(frozen=True)
class ReadLines:
    """What a file says of the first rounds: their records, and what is wrong with lines that cannot be read."""

    records: list[Record]
    problems: list[str]

    @property
    def whole(self) -> list[Record]:
        """The records of all of these rounds; refused where a line is missing or cannot be read."""
        if self.problems:
            raise UserError(self.problems[0])
        return self.records


class RoundLines:
    """The file `rounds.jsonl`; it may hold lines of rounds that do not count (yet), and half a line at its end."""

    def __init__(self, path: InnerPath) -> None:
        self.path = path

    def append(self, record: Record) -> None:
        """Add the line of a round; one that could not be read again is never written."""
        try:
            line = to_json(record.to_dict())
            _read(record.round, line)
        except (ValueError, TypeError, OverflowError, RecursionError) as error:
            unread = f"round {record.round} cannot be kept: its record could not be read again"
            raise RunError(f"{unread} ({error})") from error
        self.path.append(line)

    def read(self, count: int) -> ReadLines:
        """Return what there is of the first rounds, so many: a broken line costs its round, and no other."""
        records, problems = [], []
        found = 0
        for found, line in enumerate(self._lines(count), start=1):
            try:
                records.append(self._parse(found, line))
            except UserError as error:
                problems.append(str(error))
                if len(problems) > MOST_BROKEN:
                    raise UserError(f"{error}, and so it is with {MOST_BROKEN} lines before it") from error
        if found < count:
            problems.append(self._too_few(count, found))
        return ReadLines(records, problems)

    def read_one(self, number: int) -> Record:
        """Return the record of a round."""
        for found, line in enumerate(self._lines(number), start=1):
            if found == number:
                return self._parse(number, line)
        raise UserError(f"{self.path} has no line of round {number}")

    def cut(self, count: int) -> None:
        """Drop all lines but the first, so many; what is wrong in one of them stays as it is."""
        self.path.write(b"".join(self._lines(count)))

    def refuse_missing(self, count: int) -> None:
        """Refuse a file that has fewer lines; no round can be added in its place."""
        if (found := sum(1 for _ in self._lines(count))) < count:
            raise UserError(self._too_few(count, found))

    def _parse(self, number: int, line: bytes) -> Record:
        with reading(self.path, number):
            return _read(number, line)

    def _too_few(self, count: int, found: int) -> str:
        return f"{self.path}: {count} rounds are finished, but it has {found} whole lines"

    def _lines(self, count: int) -> Iterator[bytes]:
        """Yield the first whole lines, so many at most; of one that is too long, its beginning."""
        if not count:
            return
        with reading(self.path), self.path.open() as descriptor, open(descriptor, "rb", closefd=False) as file:
            for _ in range(count):
                line = file.readline(LONGEST + 1)
                rest = line
                while len(rest) > LONGEST and not rest.endswith(b"\n"):
                    rest = file.readline(LONGEST + 1)
                if not rest.endswith(b"\n"):
                    return
                yield line


def _read(number: int, line: bytes) -> Record:
    if len(line) > LONGEST:
        raise UserError(f"it is longer than {LONGEST} bytes")
    record = Record.from_dict(parse_json(line))
    if record.round != number:
        raise UserError(f"round {record.round} in place of {number}")
    return record
