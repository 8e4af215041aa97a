"""Splits from files."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from small import simulate, small

from feddecorr.config.experiment import Experiment
from feddecorr.errors import UserError
from feddecorr.partition.external import SplitFile, read_split, write_split
from feddecorr.partition.skew import Dirichlet
from feddecorr.partition.split import Parts
from feddecorr.runs.directory import RunDirectory
from feddecorr.runs.pipeline import resume, run

LABELS = np.arange(8) % 2


def split(path: Path, content: object, **options: bool | int) -> list[list[int]]:
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return [part.tolist() for part in SplitFile(path=path, **options).split(LABELS, clients=2, seed=0)]


def test_a_split_survives_being_written(tmp_path: Path) -> None:
    """What is read is what was written."""
    parts = Dirichlet(minimum=1).split(LABELS, clients=3, seed=0)
    write_split(tmp_path / "new" / "split.json", parts)
    again = SplitFile(path=tmp_path / "new" / "split.json").split(LABELS, clients=3, seed=5)
    assert all(map(np.array_equal, parts, again))
    assert json.loads((tmp_path / "new" / "split.json").read_text()) == [part.tolist() for part in parts]


def test_a_run_with_a_split_from_a_file_is_the_run_with_that_split(tmp_path: Path) -> None:
    """Reading a split gives the same simulation as drawing it."""
    drawn = simulate()
    write_split(tmp_path / "split.json", drawn.shards.parts)
    read = simulate("partition=file", f"partition.path={tmp_path / 'split.json'}")
    assert all(map(np.array_equal, drawn.shards.parts, read.shards.parts))


def test_order_in_the_file_does_not_matter(tmp_path: Path) -> None:
    """Indices come out sorted."""
    assert split(tmp_path / "s.json", [[6, 4, 2, 0], [1, 3, 5, 7]]) == [[0, 2, 4, 6], [1, 3, 5, 7]]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ([[0, 1, 2, 3], [4, 5, 6, 8]], "names example 8, but there are 8"),
        ([[0, 1, 2, 3], [3, 4, 5, 6, 7]], "repeats example 3: it is there 2 times"),
        ([[0, 1, 2, 3], [4, 5, 7]], r"leaves out 1 examples \(the first is 6\): partition.partial=true"),
        ([[0, 1, 2, 3, 4, 5, 6, 7]], r"is for 1 clients: set clients=1 \(now 2\)"),
        ([[0, 1, 2, 3, 4, 5, 6, 7], []], "client 1 would hold 0 examples"),
        ([[0, 1, 2, -3], [4]], r"\[0\]\[3\]: .*greater than or equal to 0"),
        ([[0, 1, 2.5], [4]], r"\[0\]\[2\]: .*expected a list of lists of indices"),
        ([[0, 1, True], [4]], r"\[0\]\[2\]"),
        ([[0, 1, 10**30], [4]], r"\[0\]\[2\]"),
        ({"clients": []}, "expected a list of lists of indices"),
        ("[[0, 1", "expected a list of lists of indices"),
        ("", "expected a list of lists of indices"),
    ],
)
def test_a_broken_split_is_refused(tmp_path: Path, content: object, message: str) -> None:
    """The message names the file, the place and what would be right."""
    with pytest.raises(UserError, match=message) as refused:
        split(tmp_path / "s.json", content)
    assert "client 1 would" in str(refused.value) or "s.json" in str(refused.value)


def test_a_partial_split_is_accepted_when_it_is_meant(tmp_path: Path) -> None:
    """Examples may then be left out, but none may be given out twice."""
    assert split(tmp_path / "s.json", [[0, 1], [4]], partial=True) == [[0, 1], [4]]
    with pytest.raises(UserError, match="repeats example 1: it is there 2 times"):
        split(tmp_path / "s.json", [[0, 1], [1]], partial=True)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    """The experiment is refused before anything starts."""
    with pytest.raises(UserError, match=r"no.json cannot be read"):
        Experiment.parse({"partition": {"name": "file", "path": str(tmp_path / "no.json")}})
    with pytest.raises(UserError, match=r"partition\.path is required"):
        Experiment.parse({"partition": {"name": "file"}})


def test_a_run_is_never_resumed_with_another_split(tmp_path: Path) -> None:
    """The file's digest is kept with the run, which can still be looked at when the file is gone."""
    path = tmp_path / "split.json"
    write_split(path, simulate().shards.parts)
    experiment, options = small("partition=file", f"partition.path={path}")
    list(run(experiment, options.model_copy(update={"rounds": 1}), tmp_path / "run"))
    write_split(path, simulate("seed=1").shards.parts)
    with pytest.raises(UserError, match="has changed"):
        list(resume(tmp_path / "run", experiment, options))
    path.unlink()
    assert RunDirectory.open(tmp_path / "run").settings()[0].partition == experiment.partition


def test_a_split_file_has_one_client_a_line(tmp_path: Path) -> None:
    """So that people can read and compare it."""
    write_split(tmp_path / "s.json", Parts.of([[0, 2], [1]]))
    assert (tmp_path / "s.json").read_text() == "[\n[0, 2],\n[1]\n]\n"
    assert [part.tolist() for part in read_split(tmp_path / "s.json")] == [[0, 2], [1]]
