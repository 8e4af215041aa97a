"""Readers that are given broken and hostile input: a clear error or a result, quickly, and nothing else.

    python -m benchmarks.torture.broken_inputs [--count 10000] [--seed 0] [--readers NAME ...] [--record FILE]

For each reader, whole inputs are mutated: bits turned, bytes set, pieces cut out, doubled, moved or replaced by numbers
and words that such formats fear. Whatever a reader then raises, it must be a `UserError` (exit code 2 of the command),
within ten seconds, without more memory than is said below; nothing of the input is ever executed, no program is
started but the one that reads parquet and arrow files, no other machine asked, and no file comes into being outside of
the folder that it is in. Needs Linux, which tells how much memory was used.
"""

from __future__ import annotations

import argparse
import random
import re
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from benchmarks.recording import write_record
from benchmarks.torture.readers import READERS, Reader
from feddecorr.data.arrow import COMMAND
from feddecorr.errors import RunError, UserError

WORDS = [
    b"\x00", b"\xff" * 8, b"\x7f\xff\xff\xff", b"\xff\xff\xff\x7f", b"null", b"NaN", b"1e999", b"-1", b"[", b"{", b'"',
    b"9" * 30, b"../../x", b"/etc/passwd", b"os:system", b"cposix\nsystem\n(S'touch executed'\ntR.", b"\n", b",", b"",
]  # fmt: skip
SECONDS = 10.0
MEMORY = 64 << 20
"""Bytes that a reader may take at most, beyond what whole inputs took: all are a few kilobytes.

A picture may claim four million pixels, and an npz file 64 MiB, before it has to be so large that it is believed.
"""
STARTS = frozenset(
    [
        "os.exec", "os.fork", "os.posix_spawn", "os.spawn", "os.system", "subprocess.Popen",
        "socket.connect", "socket.getaddrinfo",
    ]
)  # fmt: skip
"""What Python tells its auditors before it starts a program, or asks another machine."""


class Watch:
    """Whether an input may start a program or ask another machine; and how much memory was used at most, in bytes."""

    def __init__(self) -> None:
        self.on = False
        sys.addaudithook(self._refuse)

    def _refuse(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self.on and event in STARTS and not (event == "subprocess.Popen" and tuple(arguments[1]) == COMMAND):
            raise SystemError(f"an input reached out: {event} {arguments}")

    @staticmethod
    def peak() -> int:
        """Return the most memory that this process had since `forget`."""
        found = re.search(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text())
        return int(found[1]) << 10 if found else 0

    @staticmethod
    def forget() -> None:
        """Begin to look at memory anew."""
        Path("/proc/self/clear_refs").write_text("5")


TOKEN = re.compile(rb'-?\d+(?:\.\d+)?(?:e-?\d+)?|"[^"\n]{0,40}"|true|false|null')
TOKENS = [
    b"0", b"-1", b"1e308", b"1e-320", b"9223372036854775808", b"9" * 30, b"0.5", b"null", b"true", b'""', b'"x"', b"[]",
    b"{}", b"[[]]", b'{"a": 1}', b"[" * 3000, b'"\\ud800"', b'"../../x"', b'"os:system"', b'"/etc/passwd"', b"[1, 2]",
]  # fmt: skip
"""What takes the place of a value, so that all around it can still be read."""


def mutate(content: bytes, chance: random.Random) -> bytes:
    """Return the content with one to eight changes, mostly one or two, so that many inputs get past the first check."""
    changed = bytearray(content)
    for _ in range(chance.choice([1, 1, 1, 2, 4, 8])):
        _change(changed, chance)
    return bytes(changed)


def _change(changed: bytearray, chance: random.Random) -> None:
    start = chance.randrange(len(changed) + 1)
    end = min(len(changed), start + chance.choice([1, 1, 2, 4, 8, 64, 1024]))
    kind = chance.randrange(20)
    if kind < 4 and start < len(changed):
        changed[start] ^= 1 << chance.randrange(8)
    elif kind < 10 and (tokens := list(TOKEN.finditer(changed))):
        token = chance.choice(tokens)
        changed[token.start() : token.end()] = chance.choice(TOKENS)
    elif kind < 13:
        changed[start:end] = chance.choice(WORDS)
    elif kind < 15:
        del changed[start:end]
    elif kind < 17:
        changed[start:start] = changed[start:end]
    elif kind < 19:
        changed[start:end] = chance.randbytes(end - start)
    else:
        del changed[start:]


def torture(reader: Reader, count: int, seed: int, folder: Path) -> dict[str, Any]:
    """Let the reader read broken inputs; return how often it refused, and what else happened."""
    for name, content in reader.whole.items():
        reader.read(folder, name, content)  # whatever is wrong with these is a mistake here
    watch = _watch()
    watch.forget()
    before = watch.peak()
    watch.on = True
    chance = random.Random(seed)
    wrong: list[str] = []
    refused, slowest = 0, 0.0
    for number in range(count):
        name = chance.choice(sorted(reader.whole))
        content = mutate(reader.whole[name], chance)
        began = time.process_time()  # others may be busy, too
        try:
            reader.read(folder, name, content)
        except (UserError, RunError):
            refused += 1
        except BaseException as error:  # that is what is looked for
            if isinstance(error, KeyboardInterrupt):
                raise
            last = traceback.extract_tb(error.__traceback__)[-1]
            wrong.append(f"input {number} ({name}): {type(error).__name__}: {error} at {last.filename}:{last.lineno}")
        slowest = max(slowest, time.process_time() - began)
    watch.on = False
    memory = watch.peak() - before
    return {"inputs": count, "refused": refused, "slowest": round(slowest, 3), "memory": memory, "wrong": wrong[:20]}


@cache
def _watch() -> Watch:
    """Return the one of this process: auditors cannot be taken away again."""
    return Watch()


def torture_all(names: list[str], count: int, seed: int) -> Mapping[str, dict[str, Any]]:
    """Do so for each reader; nothing may be executed or written outside."""
    found = {}
    for name in names:
        with tempfile.TemporaryDirectory() as place:
            folder = Path(place) / "inside"
            folder.mkdir()
            make: Callable[[Path], Reader] = READERS[name]
            reader = make(folder)
            row = torture(reader, round(count * reader.share), seed, folder)
            row["outside"] = [file.name for file in Path(place).iterdir() if file != folder]
        found[name] = row
        print(f"{name}: {row}", file=sys.stderr)
    return found


def failed(row: Mapping[str, Any]) -> bool:
    """Return whether anything happened that must not."""
    return bool(row["wrong"] or row["outside"] or row["slowest"] > SECONDS or row["memory"] > MEMORY)


def main() -> None:
    """Torture, print, and record if asked to."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--readers", nargs="+", choices=sorted(READERS), default=sorted(READERS))
    parser.add_argument("--record", type=Path)
    arguments = parser.parse_args()
    found = torture_all(arguments.readers, arguments.count, arguments.seed)
    for name, row in found.items():
        print(f"{name:20} {row['refused']:6} of {row['inputs']} refused, {len(row['wrong'])} wrong")
    if arguments.record:
        write_record(arguments.record, {"readers": found})
    sys.exit(any(map(failed, found.values())))


if __name__ == "__main__":
    main()
