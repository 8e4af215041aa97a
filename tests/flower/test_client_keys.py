"""In a federation whose nodes have keys, a client's number stays with the key that had it first."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from flwr.proto.node_pb2 import NodeInfo
from local_grid import LocalGrid
from small import Small, small

from feddecorr.deployment.server_app import Deployment
from feddecorr.errors import RunError
from feddecorr.flower import connected_nodes
from feddecorr.runs.pipeline import ensure

WORDS = ["clients=3", "engine=flower", "engine.wait=0.01", "engine.authenticated=true", "rounds=2"]


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connected_nodes, "POLL_INTERVAL", 0.001)


class Authenticated(LocalGrid):
    """A grid that tells the keys of its nodes, as that of a SuperLink does."""

    def __init__(self, configs: dict[int, dict[str, Any]], keys: dict[int, bytes]) -> None:
        super().__init__(configs)
        self.keys = keys

    def get_nodes(self) -> Iterable[NodeInfo]:
        """Return who is listed, with keys."""
        return [NodeInfo(node_id=node, public_key=self.keys.get(node, b"")) for node in self.configs]


def grid(tmp_path: Path, clients: dict[int, int], keys: dict[int, bytes]) -> Authenticated:
    """Return nodes that say they are these clients."""
    return Authenticated({node: {"client": client, "memory": str(tmp_path)} for node, client in clients.items()}, keys)


KEYS = {node: f"key {node}".encode() for node in (7, 8, 9, 66)}


def test_a_node_cannot_claim_the_number_of_another_key(tmp_path: Path) -> None:
    """Neither while the run goes on nor when it is taken up again; the right one can come back on another node."""
    experiment, options = small(*WORDS, "missing=continue")
    there, said = grid(tmp_path, {7: 0, 8: 1, 9: 2}, KEYS), list[str]()
    connection = Deployment(there, experiment, options, tmp_path / "run", test=None, log=said.append)
    records = ensure(experiment, options, tmp_path / "run", through=connection)
    assert next(records).missing == {}
    config = there.configs.pop(8)
    there.configs[66] = config
    assert list(next(records).missing) == [1]
    assert any("node 66 is left out: client 1 belongs to the key" in line for line in said)

    records.close()
    further = Small(experiment, options.model_copy(update={"rounds": 4}))
    again = grid(tmp_path, {7: 0, 66: 1, 9: 2}, KEYS)
    said.clear()
    connection = Deployment(again, *further, tmp_path / "run", test=None, log=said.append)
    records = ensure(*further, tmp_path / "run", through=connection)
    assert list(next(records).missing) == [1]
    records.close()
    assert any("node 66 is left out: client 1 belongs to the key" in line for line in said)

    back = grid(tmp_path, {7: 0, 88: 1, 9: 2}, {**KEYS, 88: KEYS[8]})
    connection = Deployment(back, *further, tmp_path / "run", test=None, log=said.append)
    assert [record.missing for record in ensure(*further, tmp_path / "run", through=connection)] == [{}]


@pytest.mark.parametrize("policy", ["continue", "fail"])
def test_a_node_cannot_fail_in_the_name_of_another_key(policy: str, tmp_path: Path) -> None:
    """While the client's own node is away."""
    experiment, options = small(*WORDS, f"missing={policy}")
    there, said = grid(tmp_path, {7: 0, 8: 1, 9: 2}, KEYS), list[str]()
    connection = Deployment(there, experiment, options, tmp_path / "run", test=None, log=said.append)
    records = ensure(experiment, options, tmp_path / "run", through=connection)
    next(records)
    away = there.configs.pop(8)
    there.configs[66] = {**away, "data": "npz:/there/is/none.npz"}
    if policy == "fail":
        with pytest.raises(RunError, match="client 1 failed in round 2: its node did not connect within"):
            next(records)
    else:
        assert next(records).missing == {1: "its node was not connected"}
    assert any("node 66 is left out: client 1 belongs to the key" in line for line in said)


def test_a_key_is_one_client(tmp_path: Path) -> None:
    there, said = grid(tmp_path, {7: 0, 8: 1, 9: 2}, {**KEYS, 9: KEYS[8]}), list[str]()
    with pytest.raises(RunError, match="did not connect"):
        Deployment(there, *small(*WORDS), tmp_path / "run", test=None, log=said.append)
    assert any("its key belongs to client" in line for line in said)


def test_without_keys_nobody_is_taken_where_keys_are_asked_for(tmp_path: Path) -> None:
    there, said = grid(tmp_path, {7: 0, 8: 1, 9: 2}, {}), list[str]()
    with pytest.raises(RunError, match="did not connect"):
        Deployment(there, *small(*WORDS), tmp_path / "run", test=None, log=said.append)
    assert sum("Flower reports no key for it" in line for line in said) == 3


def test_where_nodes_have_no_lasting_keys_numbers_are_free(tmp_path: Path) -> None:
    """A SuperLink that does not authenticate gives a node another key whenever it starts."""
    experiment, options = small(*WORDS, "engine.authenticated=false", "missing=continue")
    there = grid(tmp_path, {7: 0, 8: 1, 9: 2}, KEYS)
    connection = Deployment(there, experiment, options, tmp_path / "run", test=None, log=lambda _: None)
    records = ensure(experiment, options, tmp_path / "run", through=connection)
    next(records)
    there.configs[66] = there.configs.pop(8)
    assert next(records).missing == {}
    assert not list((tmp_path / "run").rglob("keys.json"))
