"""One reader under the fuzzer, in a process of its own: `benchmarks.torture.guided_inputs` starts it.

Nothing of ours is imported before the fuzzer can watch it.
"""

import sys
import time
from contextlib import suppress
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["feddecorr"]):
    from benchmarks.torture.broken_inputs import SECONDS, Watch
    from benchmarks.torture.readers import READERS
    from feddecorr.errors import RunError, UserError

MEMORY = 1 << 30
"""Bytes that the process may have, with all that it has imported; libFuzzer knows no other limit."""
HANGS = 120
"""Seconds by the clock on the wall, the only one that libFuzzer has, after which an input hangs.

What an input costs is counted in processor time: others may be busy, too.
"""


def fuzz(name: str, count: int, place: Path) -> None:
    """Torture one reader; the first byte of what the fuzzer gives chooses the kind of input."""
    inside, corpus = place / "inside", place / "corpus"
    inside.mkdir()
    corpus.mkdir()
    reader = READERS[name](inside)
    names = sorted(reader.whole)
    for number, each in enumerate(names):
        (corpus / str(number)).write_bytes(bytes([number]) + reader.whole[each])
    Watch().on = True

    def read(data: bytes) -> None:
        if not data:
            return
        began = time.process_time()
        with suppress(UserError, RunError):
            reader.read(inside, names[data[0] % len(names)], data[1:])
        if (spent := time.process_time() - began) > SECONDS:
            raise SystemError(f"an input took {spent:.1f} s")

    runs = round(count * reader.share)
    print(f"asked {runs}", flush=True)
    limits = [f"-timeout={HANGS}", f"-rss_limit_mb={MEMORY >> 20}", "-detect_leaks=0"]
    atheris.Setup([name, f"-runs={runs}", "-seed=1", f"-artifact_prefix={place}/", *limits, str(corpus)], read)
    atheris.Fuzz()


if __name__ == "__main__":
    fuzz(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]))
