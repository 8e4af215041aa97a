"""A line of a round can be read again, or is never written; one that is broken costs its round and no other."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from command_line import CommandLine
from safetensors.torch import load_file
from small import digest, small

from feddecorr.core.paths import InnerPath
from feddecorr.errors import RunError, UserError
from feddecorr.runs import record
from feddecorr.runs.directory import RunDirectory
from feddecorr.runs.pipeline import resume, run
from feddecorr.runs.record import Record, RoundLines

RECORD = Record(round=1, clients=[0, 1], terms={"cross_entropy": 1.0}, seconds=0.5)

UNREADABLE: dict[str, Record] = {
    "half a character in a note": replace(RECORD, notes={0: "lost \ud800"}),
    "half a character in a cause": replace(RECORD, missing={0: "\udfff"}),
    "half a character in a term's name": replace(RECORD, terms={"\ud83d": 1.0}),
    "no number": replace(RECORD, terms={"cross_entropy": float("nan")}),
    "an infinite number": replace(RECORD, local_terms={0: {"cross_entropy": [float("inf")]}}),
    "a number that no computer has": replace(RECORD, seconds=10**400),
    "a number of too many digits": replace(RECORD, seconds=10**5000),
    "bytes": replace(RECORD, notes={0: b"\xff"}),  # type: ignore[dict-item]
    "an endless list": replace(RECORD, notes={0: "x" * 2000}),
}


@pytest.fixture
def lines(tmp_path: Path) -> RoundLines:
    return RoundLines(InnerPath(tmp_path) / "rounds.jsonl")


@pytest.mark.parametrize("name", UNREADABLE)
def test_what_could_not_be_read_again_is_never_written(
    name: str, lines: RoundLines, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record, "LONGEST", 1000)
    lines.append(RECORD)
    before = lines.path.read()
    with pytest.raises(RunError, match="round 1 cannot be kept: its record could not be read again"):
        lines.append(UNREADABLE[name])
    assert lines.path.read() == before
    assert lines.read(1).whole == [RECORD]


def test_all_characters_come_back(lines: RoundLines) -> None:
    note = "".join(chr(code) for code in range(0x2100)) + "\N{GRINNING FACE}\u2028\x85"
    lines.append(replace(RECORD, notes={0: note}))
    assert lines.read(1).whole[0].notes[0] == note


BREAKS: dict[str, Callable[[bytes], bytes]] = {
    "half a character": lambda line: line.replace(b'"missing": {}', b'"missing": {"0": "\\ud800"}'),
    "another type": lambda line: line.replace(b'"seconds"', b'"minutes"'),
    "another round": lambda line: line.replace(b'"round": 2', b'"round": 7'),
    "vast": lambda line: line.replace(b'"seconds": ', b'"seconds": 1e999, "x": '),
    "empty": lambda _: b"",
    "zeros": lambda line: bytes(len(line)),
    "no UTF-8": lambda _: b"\xff\xfe",
    "deep": lambda _: b"[" * 100_000,
}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("whole") / "run"
    list(run(*small("method=scaffold", "evaluation.clients=true"), out))
    return out


@pytest.fixture(scope="module")
def straight() -> str:
    """Return the bits of a run of four rounds that nothing happened to."""
    *_, last = run(*small("method=scaffold", "evaluation.clients=true", "rounds=4"))
    return digest(last.state)


@pytest.fixture
def broken(whole: Path, tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """Return a run whose second line of three is broken."""
    out = tmp_path / "run"
    for file in whole.rglob("*"):
        if file.is_file():
            (out / file.relative_to(whole)).parent.mkdir(parents=True, exist_ok=True)
            (out / file.relative_to(whole)).write_bytes(file.read_bytes())
    first, second, third = (out / "rounds.jsonl").read_bytes().splitlines()
    changed = BREAKS[request.param](second)
    assert changed != second
    (out / "rounds.jsonl").write_bytes(b"".join(line + b"\n" for line in (first, changed, third)))
    return out


@pytest.mark.parametrize("broken", BREAKS, indirect=True)
@pytest.mark.filterwarnings("always")
def test_a_broken_line_costs_its_round_and_is_named(
    broken: Path, straight: str, feddecorr: CommandLine, tmp_path: Path
) -> None:
    """For all that show runs; and a resumed run goes on to the same bits, with the line as it was."""
    commands: list[list[Any]] = [
        ["show", broken, "--json"],
        ["report", broken, "-o", tmp_path / "r.html"],
        ["records", broken, "-o", tmp_path / "r.jsonl"],
        ["export", broken, "-o", tmp_path / "t.csv"],
        ["export", broken, "--to", "tensorboard"],
    ]
    for words in commands:
        ended = feddecorr(*words)
        assert ended.code == 0, ended.err
        assert "rounds.jsonl, line 2" in ended.err
    assert [line["round"] for line in feddecorr(*commands[0]).document["rounds"]] == [1, 3]
    (record,) = (tmp_path / "r.jsonl").read_text().splitlines()
    assert [each["round"] for each in json.loads(record)["rounds"]] == [1, 3]
    before = (broken / "rounds.jsonl").read_bytes()
    with pytest.warns(UserWarning, match=r"rounds\.jsonl, line 2"):
        list(resume(broken, *small("method=scaffold", "evaluation.clients=true", "rounds=4")))
    assert (broken / "rounds.jsonl").read_bytes().startswith(before)
    assert digest(load_file(broken / "weights.safetensors")) == straight


@pytest.mark.parametrize("broken", ["half a character"], indirect=True)
def test_what_depends_on_every_round_refuses_a_broken_line(broken: Path) -> None:
    run = RunDirectory.open(broken)
    with pytest.raises(UserError, match=r"rounds\.jsonl, line 2"):
        run.all_rounds()
    with pytest.raises(UserError, match=r"rounds\.jsonl, line 2"):
        run.round(2)
    assert run.round(3).round == 3


def test_no_round_is_added_where_lines_are_missing(whole: Path, tmp_path: Path, feddecorr: CommandLine) -> None:
    """The next would lie in the place of another; but what is there is shown."""
    (tmp_path / "run").mkdir()
    for file in whole.iterdir():
        if file.is_file():
            (tmp_path / "run" / file.name).write_bytes(file.read_bytes())
    first, *_ = (whole / "rounds.jsonl").read_bytes().splitlines()
    (tmp_path / "run" / "rounds.jsonl").write_bytes(first + b"\n")
    with pytest.warns(UserWarning, match="3 rounds are finished, but it has 1 whole lines"):
        assert [record.round for record in RunDirectory.open(tmp_path / "run").rounds()] == [1]
    refused = feddecorr("resume", tmp_path / "run", "rounds=4")
    assert refused.code == 2
    assert "3 rounds are finished, but it has 1 whole lines" in refused.err


def test_a_file_without_end_is_given_up_soon(lines: RoundLines, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many lines it has, and however long they are."""
    monkeypatch.setattr(record, "LONGEST", 100)
    lines.path.write(b"x" * 1000 + b"\n" + b"y\n" * 10_000)
    with pytest.raises(UserError, match="and so it is with 100 lines before it"):
        lines.read(10**18)
    lines.path.write(bytes(10**6))
    assert lines.read(10**18).problems == [f"{lines.path}: {10**18} rounds are finished, but it has 0 whole lines"]
