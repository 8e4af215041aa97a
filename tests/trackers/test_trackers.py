"""What a tracker received is read back by its own tools."""

import json
import struct
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from command_line import CommandLine
from mlflow.tracking import MlflowClient
from small import digest, small, write_settings
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from wandb.proto import wandb_internal_pb2

from feddecorr.errors import UserError
from feddecorr.runs import tracking
from feddecorr.runs.directory import RunDirectory
from feddecorr.runs.pipeline import resume, run
from feddecorr.trackers import TRACKERS

WORDS = ("rounds=2", "evaluation.clients=true", "evaluation.epochs=true")
Values = dict[tuple[str, int], float]
"""Numbers by name and round."""

Spectra = dict[tuple[str, int], tuple[int, float]]
"""Of each spectrum, how many values it has and the largest: what every form of a histogram keeps."""


class Read:
    """What a tracker's own tools find: numbers, spectra, settings, names of artifacts."""

    def __init__(self, scalars: Values, spectra: Spectra, settings: dict[str, str], kept: set[str]) -> None:
        self.scalars, self.spectra, self.settings, self.kept = scalars, spectra, settings, kept


def read_tensorboard(path: Path) -> Read:
    found = EventAccumulator(str(path / "tensorboard"), size_guidance={"scalars": 0, "histograms": 0})
    found.Reload()
    tags = found.Tags()
    scalars = {(name, event.step): event.value for name in tags["scalars"] for event in found.Scalars(name)}
    spectra = {
        (name, event.step): (int(event.histogram_value.num), event.histogram_value.max)
        for name in tags["histograms"]
        for event in found.Histograms(name)
    }
    texts = {name: found.Tensors(name)[0].tensor_proto.string_val[0].decode() for name in tags["tensors"]}
    rows = [line.split("|")[1:3] for line in texts["settings/text_summary"].splitlines()[2:]]
    kept = {Path(line.removeprefix("- ")).name for line in texts.get("artifacts/text_summary", "").splitlines()}
    return Read(scalars, spectra, {key.strip(): value.strip() for key, value in rows}, kept)


def read_mlflow(path: Path) -> Read:
    client = MlflowClient(f"sqlite:///{path / 'mlflow' / 'mlflow.db'}")
    id_ = (path / "mlflow" / "run_id").read_text()
    reported = client.get_run(id_).data
    scalars = {
        (name, each.step): each.value for name in reported.metrics for each in client.get_metric_history(id_, name)
    }
    spectra: Spectra = {}
    for file in client.list_artifacts(id_, "spectra"):
        logged = json.loads(Path(client.download_artifacts(id_, file.path)).read_text())
        number = int(Path(file.path).stem)
        spectra |= {(name, number): (len(values), max(values)) for name, values in logged.items()}
    return Read(
        scalars, spectra, reported.params, {file.path for file in client.list_artifacts(id_) if not file.is_dir}
    )


def wandb_records(file: Path) -> Iterator[Any]:
    """Yield the messages of an offline run: a log of LevelDB's format, in blocks of 32 KiB, after seven bytes."""
    content, place, parts = file.read_bytes(), 7, b""
    assert content.startswith(b":W&B")
    while place + 7 <= len(content):
        if (left := -place % 32768) and left < 7:
            place += left  # too little for a header is filled up
            continue
        _, size, kind = struct.unpack_from("<IHB", content, place)
        if place + 7 + size > len(content):
            return  # the rest is still to be written
        parts += content[place + 7 : place + 7 + size]
        place += 7 + size
        if kind in (1, 4):  # whole, or the last part
            record = wandb_internal_pb2.Record()  # type: ignore[attr-defined]  # made when it is imported
            record.ParseFromString(parts)
            parts = b""
            yield record


def whole_wandb_run(file: Path) -> list[Any]:
    """Return all messages of a run; wandb's own process still writes them for a moment after a run was finished."""
    for _ in range(300):
        records = list(wandb_records(file))
        if records and records[-1].HasField("exit"):
            return records
        time.sleep(0.1)
    raise AssertionError(f"{file} has no end after half a minute")


def read_wandb(path: Path) -> Read:
    scalars: Values = {}
    spectra: Spectra = {}
    settings: dict[str, str] = {}
    kept: set[str] = set()
    for file in sorted(path.glob("wandb/wandb/offline-run-*/*.wandb")):
        for record in whole_wandb_run(file):
            step = record.history.step.num
            for item in record.history.item:
                name, _, part = "/".join(item.nested_key or [item.key]).rpartition("/")
                if part == "values":
                    spectra[name, step] = sum(json.loads(item.value_json)), spectra.get((name, step), (0, 0.0))[1]
                elif part == "bins":
                    spectra[name, step] = spectra.get((name, step), (0, 0.0))[0], json.loads(item.value_json)[-1]
                elif part != "_type":
                    scalars[f"{name}/{part}".lstrip("/"), step] = json.loads(item.value_json)
            settings |= {item.key: str(json.loads(item.value_json)) for item in record.config.update}
            kept |= {entry.path for entry in record.request.log_artifact.artifact.manifest.contents}
            kept |= {entry.path for entry in record.artifact.manifest.contents}
    return Read(scalars, spectra, settings, kept)


READERS: dict[str, Callable[[Path], Read]] = {
    "tensorboard": read_tensorboard,
    "mlflow": read_mlflow,
    "wandb": read_wandb,
}


def expected(path: Path) -> tuple[Values, Spectra]:
    entries = [tracking.entry_of(record) for record in RunDirectory.open(path).rounds()]
    scalars = {(name, entry.round): value for entry in entries for name, value in entry.scalars.items()}
    spectra = {
        (name, entry.round): (len(values), max(values)) for entry in entries for name, values in entry.spectra.items()
    }
    return scalars, spectra


def check(found: Read, path: Path) -> None:
    scalars, spectra = expected(path)
    reported = {key: value for key, value in found.scalars.items() if not key[0].startswith("_") and key[0] != "round"}
    assert reported == {key: pytest.approx(value, rel=1e-6) for key, value in scalars.items()}
    assert {key: count for key, (count, _) in found.spectra.items()} == {key: n for key, (n, _) in spectra.items()}
    largest = {key: most for key, (_, most) in found.spectra.items()}
    assert largest == {key: pytest.approx(most, rel=1e-6) for key, (_, most) in spectra.items()}
    assert (found.settings["method.name"], found.settings["clients"]) == ("fedavg", "4")
    assert {"experiment.json", "weights.safetensors"} <= found.kept


@pytest.mark.parametrize("name", READERS)
def test_a_tracker_is_reported_everything_while_the_run_goes_on(name: str, tmp_path: Path) -> None:
    """Every number of every round, those of clients too, spectra, settings and files; and no bit is changed."""
    with_tracker = list(run(*small(*WORDS, f"trackers={name}"), tmp_path / "run"))
    check(READERS[name](tmp_path / "run"), tmp_path / "run")
    names = {key for key, _ in expected(tmp_path / "run")[0]}
    assert {"accuracy", "terms/cross_entropy", "clients/3/accuracy", "clients/0/terms/cross_entropy"} <= names
    alone = list(run(*small(*WORDS)))
    assert digest(with_tracker[-1].state) == digest(alone[-1].state)
    assert small("trackers=mlflow").experiment.digest() == small().experiment.digest()


@pytest.mark.parametrize("name", READERS)
def test_what_was_missed_is_reported_afterwards_and_nothing_twice(
    name: str, tmp_path: Path, feddecorr: CommandLine
) -> None:
    """A run that was followed for one round, then not, then exported twice."""
    records = run(*small(*WORDS, "rounds=3", f"trackers={name}"), tmp_path / "run")
    next(records)
    records.close()
    list(resume(tmp_path / "run", *small(*WORDS, "rounds=3")))
    for _ in range(2):
        assert feddecorr("export", tmp_path / "run", "--to", name).code == 0
    check(READERS[name](tmp_path / "run"), tmp_path / "run")


def test_a_run_that_keeps_nothing_cannot_be_followed() -> None:
    with pytest.raises(UserError, match="give it a directory"):
        next(run(*small("trackers=tensorboard")))


def test_a_library_that_is_missing_is_named_before_any_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "wandb", None)
    with pytest.raises(UserError, match=r"pip install 'feddecorr\[wandb\]'"):
        next(run(*small("trackers=wandb"), tmp_path / "run"))
    assert RunDirectory.open(tmp_path / "run").finished_rounds() == 0


def test_every_tracker_is_an_extra() -> None:
    import tomllib  # noqa: PLC0415

    extras: dict[str, Any] = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    assert set(TRACKERS.table) <= set(extras["optional-dependencies"])


def test_a_tracker_and_a_method_from_outside_work_together(tmp_path: Path, feddecorr: CommandLine) -> None:
    """From Python and the command line, begun and continued: what the run's file names is not imported for trackers."""
    words = ["method=outside:Remembering", "trackers=tensorboard", "rounds=1"]
    list(run(*small(*words), tmp_path / "python"))
    assert ("accuracy", 1) in read_tensorboard(tmp_path / "python").scalars
    settings = write_settings(tmp_path / "small.json")
    assert feddecorr("run", settings, *words, "--out", tmp_path / "line").code == 0
    assert ("accuracy", 1) in read_tensorboard(tmp_path / "line").scalars
    assert feddecorr("resume", tmp_path / "line", "rounds=2", "--trust").code == 0
    assert ("accuracy", 2) in read_tensorboard(tmp_path / "line").scalars
    assert feddecorr("export", tmp_path / "line", "--to", "tensorboard").code == 0


def test_a_tracker_of_your_own_joins_by_its_name(tmp_path: Path, feddecorr: CommandLine) -> None:
    words = ["trackers=outside_tracker:Lines", "rounds=2", "evaluation.every=1"]
    list(run(*small(*words), tmp_path / "run"))
    lines = (tmp_path / "run" / "outside_tracker-Lines" / "lines.txt").read_text().splitlines()
    assert lines[0] == "settings: fedavg"
    assert [line.split(":")[0] for line in lines[1:]] == ["round 1", "round 2", "artifacts", "closed"]
    list(run(*small("rounds=2"), tmp_path / "other"))
    assert feddecorr("export", tmp_path / "other", "--to", "outside_tracker:Lines").code == 0
    reported = (tmp_path / "other" / "outside_tracker-Lines" / "lines.txt").read_text().splitlines()
    assert [line.split(":")[0] for line in reported] == [line.split(":")[0] for line in lines]
