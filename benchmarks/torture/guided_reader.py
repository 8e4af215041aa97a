"""One reader under the fuzzer, in a process of its own: `benchmarks.torture.guided_inputs` starts it.

Nothing of ours is imported before the fuzzer can watch it.
"""

import sys
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["feddecorr"]):
    from benchmarks.torture.broken_inputs import MEMORY, SECONDS
    from benchmarks.torture.readers import READERS
    from feddecorr.errors import RunError, UserError

STARTS = frozenset({"os.exec", "os.fork", "os.posix_spawn", "os.spawn", "os.system", "subprocess.Popen"})
"""What Python tells its auditors before it starts a program."""


def refuse_programs(event: str, arguments: object) -> None:
    """Be an auditor that lets no program start."""
    if event in STARTS:
        raise SystemError(f"an input started a program: {event} {arguments}")


def fuzz(name: str, count: int, place: Path) -> None:
    """Torture one reader; the first byte of what the fuzzer gives chooses the kind of input."""
    inside, corpus = place / "inside", place / "corpus"
    inside.mkdir()
    corpus.mkdir()
    reader = READERS[name](inside)
    names = sorted(reader.whole)
    for number, each in enumerate(names):
        (corpus / str(number)).write_bytes(bytes([number]) + reader.whole[each])
    sys.addaudithook(refuse_programs)

    def read(data: bytes) -> None:
        if not data:
            return
        try:
            reader.read(inside, names[data[0] % len(names)], data[1:])
        except (UserError, RunError):
            return

    limits = [f"-timeout={SECONDS:.0f}", f"-rss_limit_mb={MEMORY >> 20}", "-detect_leaks=0"]
    atheris.Setup([name, f"-runs={count}", "-seed=1", f"-artifact_prefix={place}/", *limits, str(corpus)], read)
    atheris.Fuzz()


if __name__ == "__main__":
    fuzz(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]))
