from pathlib import Path

import numpy as np
import pytest
from small import simulate

from feddecorr.runs.directory import read_roster, write_roster
from feddecorr.server.federation import Roster


@pytest.mark.parametrize("words", [[], ["partition=homogeneous", "partition.minimum=1", "clients=120"]], ids=str)
def test_a_roster_survives_being_written(tmp_path: Path, words: list[str]) -> None:
    roster = simulate(*words).federation.roster
    write_roster(tmp_path / "r.safetensors", roster)
    again = read_roster(tmp_path / "r.safetensors")
    assert np.array_equal(again.sizes, roster.sizes)
    assert again.labels is not None
    assert roster.labels is not None
    assert np.array_equal(again.labels.table(), roster.labels.table())


def test_a_server_need_not_know_labels(tmp_path: Path) -> None:
    write_roster(tmp_path / "r.safetensors", Roster(np.array([3, 2**30])))
    again = read_roster(tmp_path / "r.safetensors")
    assert again.sizes.tolist() == [3, 2**30]
    assert again.labels is None
