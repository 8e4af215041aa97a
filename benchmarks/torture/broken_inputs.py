"""Readers that are given broken and hostile input: a clear error or a result, quickly, and nothing else.

    python -m benchmarks.torture.broken_inputs [--count 10000] [--seed 0] [--readers NAME ...] [--record FILE]

For each reader, whole inputs are mutated: bits turned, bytes set, pieces cut out, doubled, moved or replaced by numbers
and words that such formats fear. Whatever a reader then raises, it must be a `UserError` (exit code 2 of the command),
within ten seconds and without more memory than limits allow; nothing of the input is ever executed, and no file comes
into being outside of the folder that it is in.
"""

from __future__ import annotations

import argparse
import random
import resource
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from benchmarks.recording import write_record
from benchmarks.torture.readers import READERS, Reader
from feddecorr.errors import RunError, UserError

WORDS = [
    b"\x00", b"\xff" * 8, b"\x7f\xff\xff\xff", b"\xff\xff\xff\x7f", b"null", b"NaN", b"1e999", b"-1", b"[", b"{", b'"',
    b"9" * 30, b"../../x", b"/etc/passwd", b"os:system", b"cposix\nsystem\n(S'touch executed'\ntR.", b"\n", b",", b"",
]  # fmt: skip
SECONDS = 10.0
MEMORY = 2 << 30
"""Bytes that a reader of these small inputs may ever take, more than before."""


def mutate(content: bytes, chance: random.Random) -> bytes:
    """Return the content with one to eight changes."""
    changed = bytearray(content)
    for _ in range(chance.randint(1, 8)):
        start = chance.randrange(len(changed) + 1)
        end = min(len(changed), start + chance.choice([1, 1, 2, 4, 8, 64, 1024]))
        kind = chance.randrange(6)
        if kind == 0 and start < len(changed):
            changed[start] ^= 1 << chance.randrange(8)
        elif kind == 1:
            changed[start:end] = chance.choice(WORDS)
        elif kind == 2:
            del changed[start:end]
        elif kind == 3:
            changed[start:start] = changed[start:end]
        elif kind == 4:
            changed[start:end] = chance.randbytes(end - start)
        else:
            del changed[start:]
    return bytes(changed)


def torture(reader: Reader, count: int, seed: int, folder: Path) -> dict[str, Any]:
    """Let the reader read so many broken inputs; return how often it refused, and what else happened."""
    chance = random.Random(seed)
    wrong: list[str] = []
    refused, slowest = 0, 0.0
    for number in range(count):
        name = chance.choice(sorted(reader.whole))
        content = mutate(reader.whole[name], chance)
        began = time.perf_counter()
        try:
            reader.read(folder, name, content)
        except (UserError, RunError):
            refused += 1
        except BaseException as error:  # that is what is looked for
            if isinstance(error, KeyboardInterrupt):
                raise
            last = traceback.extract_tb(error.__traceback__)[-1]
            wrong.append(f"input {number} ({name}): {type(error).__name__}: {error} at {last.filename}:{last.lineno}")
        slowest = max(slowest, time.perf_counter() - began)
    return {"inputs": count, "refused": refused, "slowest": round(slowest, 3), "wrong": wrong[:20]}


def torture_all(names: list[str], count: int, seed: int) -> Mapping[str, dict[str, Any]]:
    """Do so for each reader; nothing may be executed or written outside."""
    found = {}
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for name in names:
        with tempfile.TemporaryDirectory() as place:
            folder = Path(place) / "inside"
            folder.mkdir()
            make: Callable[[Path], Reader] = READERS[name]
            row = torture(make(folder), count, seed, folder)
            row["outside"] = [file.name for file in Path(place).iterdir() if file != folder]
        row["memory"] = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) << 10
        found[name] = row
        print(f"{name}: {row}", file=sys.stderr)
    return found


def failed(row: Mapping[str, Any]) -> bool:
    """Tell whether anything happened that must not."""
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
