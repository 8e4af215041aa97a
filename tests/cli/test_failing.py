"""Whatever is broken, missing or full: a command says so in one sentence, changes nothing, and exits with 2 or 1."""

import errno
import io
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NoReturn

import pytest
from command_line import CommandLine
from small import small, write_settings

from feddecorr.cli.console import escape_unprintable, print_text
from feddecorr.core import files
from feddecorr.core.registry import Config
from feddecorr.paper.theory.studies import STUDIES
from feddecorr.paper.theory_settings import Flow
from feddecorr.runs.directory import read_mark, write_weights
from feddecorr.runs.pipeline import run


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a run of two rounds with all kinds of files."""
    out = tmp_path_factory.mktemp("whole") / "run"
    list(run(*small("method=scaffold", "rounds=2"), out))
    return out


@pytest.fixture
def out(whole: Path, tmp_path: Path) -> Path:
    """Return a copy that may be spoiled."""
    subprocess.run(["cp", "-r", str(whole), str(tmp_path / "run")], check=True)  # noqa: S607 - from the path
    return tmp_path / "run"


def content(folder: Path) -> dict[str, bytes]:
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-20])


def replace_with(text: str) -> Callable[[Path], None]:
    return lambda file: (file.write_text(text), None)[1]


ALL = ("show", "report", "resume", "diagnose", "records")
BROKEN: dict[str, tuple[str, Callable[[Path], None], str, tuple[str, ...]]] = {
    "half an experiment": ("experiment.json", replace_with("{"), "experiment.json, line 1: no JSON", ALL),
    "a list for an experiment": ("experiment.json", replace_with("[]"), "experiment.json: ", ALL),
    "nested without end": ("experiment.json", replace_with("[" * 100_000), "experiment.json cannot be read", ALL),
    "an unknown setting": ("experiment.json", replace_with('{"ruonds": 3}'), "did you mean 'rounds'", ALL),
    "bytes for an experiment": ("experiment.json", lambda file: (file.write_bytes(b"\xff\xfe"), None)[1], "json", ALL),
    "rounds that are no JSON": ("rounds.jsonl", replace_with("one\ntwo\n"), "rounds.jsonl, line 1: no JSON", ALL[:2]),
    "too few rounds": ("rounds.jsonl", replace_with(""), "2 rounds are finished, but it has 0 whole lines", ALL[:-2]),
    "no rounds at all": ("rounds.jsonl", Path.unlink, "rounds.jsonl cannot be read: No such file", ALL[:-2]),
    "cut weights": ("weights.safetensors", cut, "weights.safetensors: no safetensors, or cut off", ALL),
    "other weights": (
        "weights.safetensors",
        lambda file: write_weights(file, files.load_tensors(file.parent / "roster.safetensors"), read_mark(file)),
        "weights.safetensors does not fit the model",
        ("resume",),
    ),
    "weights without a round": (
        "weights.safetensors",
        lambda file: files.save_tensors(file, files.load_tensors(file)),
        "weights.safetensors: 'run' is missing",
        ALL,
    ),
    "no federation": (
        "federation.json",
        Path.unlink,
        "federation.json cannot be read: No such file",
        ("resume", "report"),
    ),
    "half a federation": ("federation.json", replace_with('{"note": ""}'), "federation.json: ", ("resume", "report")),
    "a cut roster": ("roster.safetensors", cut, "roster.safetensors: no safetensors", ("report",)),
    "a cut server": ("server/2.safetensors", cut, "server/2.safetensors is not as it was after round 2", ("resume",)),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_file_is_named_and_nothing_is_done(
    out: Path, feddecorr: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    file, spoil, message, commands = BROKEN[name]
    monkeypatch.chdir(tmp_path)
    spoil(out / file)
    before = content(out)
    for command in commands:
        words = {"resume": ["rounds=3"], "records": ["-o", "r.jsonl"]}.get(command, [])
        refused = feddecorr(command, out, *words)
        assert refused.code == 2, refused.err
        assert re.search(rf"^error: .*{re.escape(message)}", refused.err, re.MULTILINE | re.DOTALL)
        assert content(out) == before


UNWRITABLE = {
    "report": ["report", "RUN", "-o", "FILE/report.html"],
    "diagnose": ["diagnose", "RUN", "--picture", "FILE/page.html"],
    "records": ["records", "RUN", "-o", "FILE/records.jsonl"],
    "partition": ["partition", "SETTINGS", "--out", "FILE/split.json"],
    "partition's picture": ["partition", "SETTINGS", "--picture", "FILE/split.html"],
    "run": ["run", "SETTINGS", "--out", "FILE/run"],
    "theory": ["theory", "flow", "dim=6", "classes=4", "samples=20", "points=3", "time=0.2", "--out", "FILE/theory"],
}


@pytest.mark.parametrize("name", UNWRITABLE)
def test_a_target_that_cannot_be_written_is_named(
    whole: Path, feddecorr: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "FILE").touch()
    write_settings(tmp_path / "SETTINGS.json")
    names = {"RUN": str(whole), "SETTINGS": "SETTINGS.json"}
    refused = feddecorr(*(names.get(word, word) for word in UNWRITABLE[name]))
    assert refused.code == 2
    assert "error: FILE" in refused.err
    assert "Traceback" not in refused.err


@pytest.mark.parametrize("device", ["cuda", "toaster"])
def test_a_device_that_is_not_there_is_refused_before_there_is_a_run(
    feddecorr: CommandLine, tmp_path: Path, device: str
) -> None:
    settings = write_settings(tmp_path / "small.json")
    refused = feddecorr("run", settings, f"device={device}", "--out", tmp_path / "run")
    assert refused.code == 2
    assert f"error: device={device} cannot be used here" in refused.err
    assert not (tmp_path / "run").exists()


@pytest.fixture
def full(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let the disk be full from the eighth file on: after the first round."""
    calls = iter(range(1000))

    def sync(_: int) -> None:
        if next(calls) > 16:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", sync)
    yield
    monkeypatch.undo()


@pytest.mark.usefixtures("full")
def test_a_full_disk_ends_a_run_with_what_helps_and_keeps_what_is_finished(
    feddecorr: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = write_settings(tmp_path / "small.json")
    failed = feddecorr("run", settings, "rounds=9", "--out", tmp_path / "run")
    assert failed.code == 1
    assert "No space left on device (make room on that disk)" in failed.err.splitlines()[-1]
    assert "once the cause is fixed, 'feddecorr resume" in failed.err
    assert not [file for file in (tmp_path / "run").rglob(".*") if file.name != ".lock"]
    monkeypatch.undo()
    assert feddecorr("resume", tmp_path / "run", "rounds=4", "--json").document["rounds"][-1]["round"] == 4


def test_nothing_is_promised_when_nothing_is_finished(feddecorr: CommandLine, tmp_path: Path) -> None:
    settings = write_settings(tmp_path / "small.json")
    failed = feddecorr("run", settings, "method=outside:Failing", "method.round=1", "--out", tmp_path / "run")
    assert failed.code == 1
    assert "resume" not in failed.err


@pytest.mark.parametrize("engine", ["serial", "pool"])
def test_a_fault_in_the_users_method_is_reported_with_file_and_line(
    feddecorr: CommandLine, tmp_path: Path, engine: str
) -> None:
    settings = write_settings(tmp_path / "small.json")
    failed = feddecorr("run", settings, "method=outside:Failing", f"engine={engine}", "--out", tmp_path / "run")
    assert failed.code == 1
    assert 'outside.py", line' in failed.err
    assert "Finished rounds are kept (1): once the cause is fixed, 'feddecorr resume" in failed.err
    assert failed.err.splitlines()[-1] == "error: client 1 failed in round 2: ZeroDivisionError: on purpose"


def test_the_version_and_help_are_where_they_are_looked_for(feddecorr: CommandLine) -> None:
    assert feddecorr("--version").out.startswith("feddecorr 0.")
    for words in (["-h"], ["run", "-h"], ["theory", "flow", "-h"], ["data", "-h"]):
        assert feddecorr(*words).out.startswith("Usage: ")


@pytest.mark.parametrize("words", [["rnu"], ["theory", "flwo"], ["data", "lits"]])
def test_a_misspelt_command_is_corrected_once(feddecorr: CommandLine, words: list[str]) -> None:
    refused = feddecorr(*words)
    assert refused.code == 2
    assert refused.err.count("Did you mean") == 1


def test_a_closed_standard_output_is_an_error(whole: Path) -> None:
    command = f"{sys.executable} -m feddecorr show {whole} >&-"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, check=False)  # noqa: S602 - fixed words
    assert done.returncode == 1
    assert done.stderr == "error: standard output is closed: there is nowhere to print the result\n"


def test_letters_that_an_encoding_lacks_are_spelled(monkeypatch: pytest.MonkeyPatch) -> None:
    """As under LC_ALL=C, where an empty cell of a table is a dash."""
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, encoding="ascii"))
    escape_unprintable()
    print_text("– ± ok")
    sys.stdout.flush()
    assert written.getvalue() == rb"\u2013 \xb1 ok" + b"\n"


def test_a_theory_that_cannot_be_written_is_not_computed(
    feddecorr: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def compute(*_: object) -> NoReturn:
        pytest.fail("it was computed")

    kind: type[Config] = Flow
    monkeypatch.setitem(STUDIES, kind, compute)
    (tmp_path / "file").touch()
    refused = feddecorr("theory", "flow", "--out", tmp_path / "file" / "below")
    assert refused.code == 2
    assert "Not a directory" in refused.err
