"""Directories of strangers, tried as an attacker would: nothing outside of them is written, removed or waited for."""

import json
import os
import re
import shutil
import signal
import sqlite3
import struct
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest
from benchmarks.torture.hostile_directories import (
    COMMANDS,
    LAYOUTS,
    OVER_FOLDERS,
    PRECIOUS,
    make_home,
    owned,
    sparse,
    tree,
)
from command_line import CommandLine
from small import small

from feddecorr.errors import UserError
from feddecorr.report.live import LivePage
from feddecorr.runs.directory import RunDirectory
from feddecorr.runs.pipeline import run
from feddecorr.runs.tracking import following
from feddecorr.trackers.libraries import MLflow

pytestmark = pytest.mark.usefixtures("plain_look")


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """Fail where something waits for what never comes."""

    def fail(*_: object) -> None:
        raise TimeoutError(f"nothing came of it within {seconds} seconds")

    before = signal.signal(signal.SIGALRM, fail)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a run whose method keeps something of everybody, one round short of its end."""
    out = tmp_path_factory.mktemp("template") / "run"
    list(run(*small("method=scaffold", "rounds=2", "training.epochs=1"), out))
    return out


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a run that nothing is wrong with."""
    out = tmp_path_factory.mktemp("good") / "run"
    list(run(*small("rounds=1", "training.epochs=1", "training.lr=0.07"), out))
    return out


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Return a folder with what is precious to somebody."""
    make_home(tmp_path / "home")
    return tmp_path / "home"


@pytest.fixture
def out(tmp_path: Path, template: Path) -> Path:
    shutil.copytree(template, tmp_path / "runs" / "a")
    return tmp_path / "runs" / "a"


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.filterwarnings("ignore")
def test_no_command_touches_what_lies_outside_of_a_run(
    layout: str, out: Path, home: Path, template: Path, feddecorr: CommandLine
) -> None:
    """Each ends well, or with a sentence that names what is wrong; and none waits or fills memory."""
    pristine = home.parent / "pristine"
    shutil.copytree(home, pristine)
    turn = list(LAYOUTS).index(layout) % 3  # `make torture` tries each command; here, a file meets all in its layouts
    for words in list(COMMANDS.values())[turn::3]:
        shutil.rmtree(out)
        shutil.copytree(template, out)
        shutil.rmtree(home)
        shutil.copytree(pristine, home)
        wrong = LAYOUTS[layout](out, home)
        before, mine = tree(home), owned(out)
        with within(60):
            ended = feddecorr(*(word.format(out=out, place=home.parent) for word in words))
        assert tree(home) == before, words
        assert ended.code in (0, 2), ended.err
        assert ended.code == 0 or wrong in ended.err, ended.err
        assert mine.items() <= owned(out).items(), words


@pytest.mark.parametrize("layout", [layout for layout in LAYOUTS if "place of" in layout or "huge" in layout])
@pytest.mark.filterwarnings("always")
def test_a_bad_run_hides_no_other(layout: str, out: Path, home: Path, good: Path, feddecorr: CommandLine) -> None:
    """Commands over folders name it and go on; so does the page of runs under way."""
    shutil.copytree(good, out.parent / "b")
    wrong = LAYOUTS[layout](out, home)
    with within(60):
        page = LivePage([out.parent]).current()[1]
        assert '<td>b</td><td class="number">1 of 1</td>' in page
        assert "<h2>Accuracy per round</h2>" in page
        for words in OVER_FOLDERS.values():
            ended = feddecorr(*(word.format(runs=out.parent, place=home.parent) for word in words))
            assert ended.code == 0, ended.err
        written = (home.parent / "records.jsonl").read_text().splitlines()
    rates = [json.loads(line)["experiment"]["training"]["lr"] for line in written]
    assert 0.07 in rates
    if len(rates) == 1:
        assert wrong in feddecorr("records", out.parent, "-o", home.parent / "r.jsonl").err
        assert wrong in page


HIDDEN = [
    ".env",
    ".gitignore",
    ".ssh/id_ed25519",
    ".lock",
    ".experiment.json.4711",
    ".rounds.jsonl.0123456789abcdef.tmp",
]


@pytest.mark.parametrize("name", HIDDEN)
def test_a_folder_with_hidden_files_is_not_empty(name: str, tmp_path: Path, feddecorr: CommandLine) -> None:
    (tmp_path / "mine" / name).parent.mkdir(parents=True)
    (tmp_path / "mine" / name).write_text("precious")
    before = tree(tmp_path)
    refused = feddecorr("run", "data=digits", "rounds=1", "--out", tmp_path / "mine")
    assert refused.code == 2
    assert f"'{Path(name).parts[0]}'" in refused.err
    assert "choose another --out" in refused.err
    assert tree(tmp_path) == before


def test_the_users_own_path_may_lead_through_links(tmp_path: Path) -> None:
    """Where a run lies is the user's word; only inside of it nothing is followed."""
    (tmp_path / "disk" / "deep").mkdir(parents=True)
    (tmp_path / "runs").symlink_to(tmp_path / "disk")
    (tmp_path / "disk" / "a").symlink_to(tmp_path / "disk" / "deep")
    list(run(*small("rounds=1"), tmp_path / "runs" / "a"))
    assert (tmp_path / "disk" / "deep" / "weights.safetensors").is_file()


def super_journal(database: Path, victim: Path) -> bytes:
    """Return a journal that lets SQLite remove the victim, as it removes journals over several databases."""
    page, magic, nonce = database.read_bytes()[:4096], bytes.fromhex("d9d505f920a163d7"), 7
    header = (magic + struct.pack(">IIIII", 1, nonce, database.stat().st_size // 4096, 512, 4096)).ljust(512, b"\0")
    check = nonce + sum(page[place] for place in range(4096 - 200, 0, -200))
    record = struct.pack(">I", 1) + page + struct.pack(">I", check)
    name = str(victim).encode()
    trailer = struct.pack(">I", (1 << 30) // 4096 + 1) + name + struct.pack(">II", len(name), sum(name)) + magic
    content = header + record
    return content.ljust(-(-len(content) // 512) * 512, b"\0") + trailer


def follow(directory: RunDirectory) -> AbstractContextManager[object]:
    return following(directory, {"mlflow": MLflow()}, *directory.settings())


@pytest.fixture(scope="module")
def tracked(template: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the run with what MLflow keeps of it; its database names the place."""
    out = tmp_path_factory.mktemp("tracked") / "run"
    shutil.copytree(template, out)
    directory = RunDirectory.open(out)
    with follow(directory):
        pass
    return out


def test_a_journal_of_mlflow_cannot_name_a_file_to_be_removed(tracked: Path, home: Path) -> None:
    database, victim = tracked / "mlflow" / "mlflow.db", home / "notes.txt"
    probe = home.parent / "probe.db"
    shutil.copy(database, probe)
    probe.with_name("probe.db-journal").write_bytes(super_journal(probe, victim))
    with sqlite3.connect(probe) as line:
        line.execute("select count(*) from sqlite_master")
    assert not victim.exists()  # the attack is a real one
    victim.write_bytes(PRECIOUS["notes.txt"])
    journal = tracked / "mlflow" / "mlflow.db-journal"
    journal.write_bytes(super_journal(database, victim))
    with (
        pytest.raises(UserError, match=r"mlflow\.db-journal names a file"),
        follow(RunDirectory(tracked)),
    ):
        pass
    assert victim.read_bytes() == PRECIOUS["notes.txt"]
    journal.unlink()
    with follow(RunDirectory(tracked)):
        pass


def test_a_database_of_mlflow_cannot_say_where_files_go(tracked: Path, home: Path) -> None:
    """Nor does a run that was moved write to where it was."""
    moved = home.parent / "moved"
    shutil.copytree(tracked, moved)
    with pytest.raises(UserError, match="outside of it"), follow(RunDirectory(moved)):
        pass
    before = tree(home)
    with sqlite3.connect(moved / "mlflow" / "mlflow.db") as line:
        line.execute("update runs set artifact_uri = ?", ((home / "models").as_uri(),))
    with pytest.raises(UserError, match=str(home / "models")), follow(RunDirectory(moved)):
        pass
    assert tree(home) == before


@pytest.mark.parametrize("name", ["mlflow/mlflow.db", "tensorboard/inner/events.out.tfevents.1"])
def test_a_pipe_in_a_trackers_folder_is_refused(name: str, out: Path, feddecorr: CommandLine) -> None:
    """Its library would wait for it."""
    (out / name).parent.mkdir(parents=True)
    os.mkfifo(out / name)
    with within(60):
        refused = feddecorr("resume", out, "rounds=3", f"trackers={Path(name).parts[0]}")
    assert refused.code == 2
    assert f"{name} is not a file" in refused.err


def test_settings_of_wandb_are_not_taken_from_a_run(out: Path, feddecorr: CommandLine) -> None:
    (out / "wandb" / "wandb").mkdir(parents=True)
    (out / "wandb" / "wandb" / "settings").write_text("[default]\nbase_url = http://127.0.0.1:9\n")
    refused = feddecorr("resume", out, "rounds=3", "trackers=wandb")
    assert refused.code == 2
    assert "wandb/settings" in refused.err


def test_looking_at_a_run_opens_no_file_that_its_settings_name(out: Path, feddecorr: CommandLine) -> None:
    """Going on does, and refuses what is no file: a pipe would be waited for, a device read without end."""
    pipe, settings = out.parent / "pipe", out / "experiment.json"
    os.mkfifo(pipe)
    stored = json.loads(settings.read_text())
    settings.write_text(json.dumps({**stored, "partition": {"name": "file", "path": str(pipe)}}))
    with within(60):
        assert "<td>a</td>" in LivePage([out.parent]).current()[1]
        assert [feddecorr(word, out).code for word in ("show", "table")] == [0, 0]
        refused = feddecorr("resume", out, "rounds=3")
    assert refused.code == 2
    assert f"{pipe} is not a file" in refused.err


@pytest.mark.parametrize(
    "words", ["run {}.toml", "table {}.jsonl", "claims {}", "run data=digits partition=file partition.path={}.json"]
)
def test_what_is_read_at_once_is_a_file_of_bounded_size(words: str, tmp_path: Path, feddecorr: CommandLine) -> None:
    for make, why in ((os.mkfifo, "is not a file"), (sparse, "larger than 268,435,456 bytes|longer than 268,435,456")):
        folder = tmp_path / make.__name__
        folder.mkdir()
        for name in ("plan.toml", "plan.jsonl", "plan.json"):
            make(folder / name)
        target = folder if "claims" in words else folder / "plan"
        with within(60):
            refused = feddecorr(*words.format(target).split())
        assert refused.code == 2
        assert re.search(why, refused.err)
