"""What is sent of a run after each of its rounds makes the same directory elsewhere, from which it continues."""

from pathlib import Path

import pytest
from own_studies import outcome
from small import small

from feddecorr.core.paths import InnerPath
from feddecorr.runs.pipeline import ensure
from feddecorr.sweeps.shipping import Changes, Outbox


def files(path: Path) -> dict[str, bytes]:
    """Return all files of a run but its lock."""
    found = {str(file.relative_to(path)): file.read_bytes() for file in path.rglob("*") if file.is_file()}
    return {name: content for name, content in found.items() if name != ".lock"}


def test_what_is_sent_round_by_round_is_the_run(tmp_path: Path) -> None:
    """What the method and the clients remember included; what was sent is not sent again."""
    here, there, last = tmp_path / "here", tmp_path / "there", tmp_path / "store" / "last"
    here.mkdir()
    outbox = Outbox(here)
    words = ("method=scaffold", "participation=0.5")
    for record in ensure(*small(*words, "rounds=3"), here):
        outbox.changes().apply(there)
        assert files(there) == files(here), record.round
    assert outbox.changes() == Changes({})
    Outbox(last, Outbox(there).changes())
    for path in (here, last):
        list(ensure(*small(*words, "rounds=5"), path))
    here.rename(tmp_path / "store" / "here")
    found = outcome(tmp_path / "store")
    assert found["here"] == found["last"]


def test_the_weights_come_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """For the round counts from then on: a driver that is killed in between has the round before."""
    written: list[str] = []
    monkeypatch.setattr(InnerPath, "write", lambda self, _content: written.append(self.name))
    monkeypatch.setattr(InnerPath, "remove", lambda self: written.append(f"no {self.name}"))
    Changes(
        {"weights.safetensors": b"", "server/3.safetensors": b"", "rounds.jsonl": b""}, ("server/1.safetensors",)
    ).apply(tmp_path)
    assert written == ["3.safetensors", "rounds.jsonl", "weights.safetensors", "no 1.safetensors"]


def test_sending_waits_for_the_interval_and_never_for_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    outbox = Outbox(tmp_path)
    for took, pause in ((0.0, 1.0), (0.25, 5.0), (60.0, 30.0)):
        outbox.note(now - took)
        now += pause - 0.1
        assert not outbox.is_due(1.0)
        now += 0.1
        assert outbox.is_due(1.0)
