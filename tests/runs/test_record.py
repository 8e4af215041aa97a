import json
from dataclasses import replace
from pathlib import Path

import pytest
from small import small

import feddecorr
from feddecorr.errors import UserError
from feddecorr.runs.directory import RunDirectory
from feddecorr.runs.pipeline import run
from feddecorr.runs.record import Record


@pytest.fixture(scope="module")
def record() -> Record:
    (found,) = run(*small("rounds=1", "evaluation.clients=true"))
    return found


def test_a_record_is_the_same_after_it_was_written_and_read(record: Record) -> None:
    """To the last bit, through JSON, with clients as numbers; all but the state."""
    whole = replace(record, missing={3: "no answer"}, local_terms={0: {"cross_entropy": [1.5, 0.1]}})
    line = json.dumps(whole.to_dict(), allow_nan=False)
    again = Record.from_dict(json.loads(line))
    assert again == whole
    assert again.to_dict() == whole.to_dict()
    assert list(again.local_models) == [0, 1, 2, 3]
    assert [found.client for found in again.local_models.values()] == [0, 1, 2, 3]
    assert again.state == {}
    assert whole.state


def test_the_directory_gives_the_records_that_the_run_gave(tmp_path: Path) -> None:
    """One value, whether it comes from the run or from its directory."""
    records = list(run(*small("evaluation.every=2", "evaluation.clients=true"), tmp_path / "run"))
    directory = RunDirectory.open(tmp_path / "run")
    assert directory.rounds() == records
    assert json.loads(json.dumps(directory.to_dict()))["rounds"] == [record.to_dict() for record in records]


def test_a_record_tells_the_global_models_measures(record: Record) -> None:
    """Each is that of the model; of a model that was not evaluated, none."""
    names = ("accuracy", "loss", "effective_rank", "significant_singular_values", "singular_values")
    assert all(getattr(record, name) == getattr(record.model, name) is not None for name in names)
    assert all(getattr(replace(record, model=None), name) is None for name in names)
    assert Record.from_dict(replace(record, model=None).to_dict()).model is None


def test_the_package_offers_it(record: Record) -> None:
    assert isinstance(record, feddecorr.Record)


def test_a_line_from_before_a_field_came_is_read() -> None:
    """All that has a default may be missing, and so may any measure of a model."""
    (record,) = run(*small("rounds=1"))
    line = record.to_dict()
    least = {name: line[name] for name in ("round", "clients", "terms", "seconds")}
    assert Record.from_dict(least).missing == {}
    assert record.model is not None
    for measure in line["model"]:
        older = {name: value for name, value in line["model"].items() if name != measure}
        assert getattr(Record.from_dict({**line, "model": older}).model, measure) is None


def test_a_field_of_a_newer_version_is_refused_by_its_name() -> None:
    (record,) = run(*small("rounds=1"))
    line = record.to_dict()
    with pytest.raises(UserError, match="unknown field 'energy', perhaps of a newer version"):
        Record.from_dict({**line, "energy": 1.0})
    with pytest.raises(UserError, match="unknown option 'energy'"):
        Record.from_dict({**line, "model": {**line["model"], "energy": 1.0}})
