"""Every method on Flower's simulation: one SuperLink, one Ray, for all tests of this file."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import grpc
import psutil
import pytest
from small import digest, result, simulate, small

from feddecorr.config.experiment import Experiment
from feddecorr.core.client_memory import Memories
from feddecorr.errors import RunError
from feddecorr.flower.engine import FlowerSimulation, start_simulation
from feddecorr.flower.payload import HOME
from feddecorr.methods import METHODS
from feddecorr.runs.pipeline import resume, run
from feddecorr.server.federation import RunClients, Simulation

WORDS = ["participation=0.75", "regularizers=feddecorr", "evaluation.clients=true", "rounds=2"]


@pytest.fixture(scope="module")
def session() -> Iterator[FlowerSimulation]:
    """Return the one simulation."""
    with start_simulation(simulate().shards, workers=2) as found:
        yield found


def family(session: FlowerSimulation) -> list[psutil.Process]:
    """Return the processes of the simulation."""
    home = str(session.home)
    return [each for each in psutil.process_iter() if _environment(each).get(HOME) == home]


def _environment(process: psutil.Process) -> dict[str, str]:
    try:
        return process.environ()
    except psutil.Error:
        return {}


class Through:
    """A connection to the clients of a simulation that runs already."""

    def __init__(self, session: FlowerSimulation, experiment: Experiment) -> None:
        self.federation = Simulation(experiment).federation
        self._session = session

    def open(self, memories: Memories) -> AbstractContextManager[RunClients]:
        """Start nothing."""
        return nullcontext(self._session.run_clients(self.federation.task, memories))


@pytest.mark.parametrize("name", [*METHODS.table, "outside:Remembering"])
def test_flower_gives_the_bits_of_serial(session: FlowerSimulation, name: str) -> None:
    """With FedDecorr, four clients of whom three are sampled, and BatchNorm."""
    experiment, options = small(f"method={name}", *WORDS)
    assert result(run(experiment, options, through=Through(session, experiment))) == result(run(experiment, options))


@pytest.mark.parametrize("words", [["batchnorm=local"], ["training.precision=bf16"], ["model=outside:Half"]])
def test_types_of_tensors_survive(session: FlowerSimulation, words: list[str]) -> None:
    """Counters of BatchNorm stay whole numbers, and bfloat16 stays bfloat16."""
    experiment, options = small("method=moon", "rounds=2", *words)
    assert result(run(experiment, options, through=Through(session, experiment))) == result(run(experiment, options))


@pytest.mark.parametrize(
    ("words", "megabytes"), [(["model=mobilenetv2"], 9), (["model=mlp", "model.widths=[3000,3000,16]"], 36)]
)
def test_large_models_go_through(session: FlowerSimulation, words: list[str], megabytes: int) -> None:
    experiment, options = small("training.steps=1", "rounds=1", "participation=0.5", *words)
    (found,) = run(experiment, options, through=Through(session, experiment))
    (expected,) = run(experiment, options)
    assert sum(tensor.nbytes for tensor in found.state.values()) > megabytes * 1e6
    assert digest(found.state) == digest(expected.state)


def test_a_round_that_was_not_read_to_its_end_leaves_nothing(session: FlowerSimulation) -> None:
    experiment, options = small("method=outside:Impatient")
    assert result(run(experiment, options, through=Through(session, experiment))) == result(run(experiment, options))


def test_a_client_that_raises_is_named_with_its_own_traceback(session: FlowerSimulation, tmp_path: Path) -> None:
    experiment, options = small("method=outside:Failing")
    records = run(experiment, options, tmp_path / "run", through=Through(session, experiment))
    next(records)
    with pytest.raises(RunError, match="client 1 failed in round 2: ZeroDivisionError: on purpose") as caught:
        next(records)
    assert "outside.py" in str(caught.value.__cause__)
    repaired, repaired_options = small("method=outside:Failing", "missing=continue")
    found = list(run(repaired, repaired_options, through=Through(session, repaired)))
    assert [list(record.missing) for record in found] == [[], [1], []]


def test_an_interrupted_run_goes_on_with_the_same_bits(session: FlowerSimulation, tmp_path: Path) -> None:
    """What clients remember is in the run's directory, whoever runs them: the engine may change on the way."""
    experiment, options = small("method=scaffold", "regularizers=feddecorr", "rounds=4")
    first = run(experiment, options, tmp_path / "run", through=Through(session, experiment))
    found = [next(first), next(first)]
    first.close()
    middle = resume(tmp_path / "run")
    found.append(next(middle))
    middle.close()
    found += resume(tmp_path / "run", through=Through(session, experiment))
    assert result(found) == result(run(experiment, options))


def test_an_actor_that_is_killed_is_replaced(session: FlowerSimulation) -> None:
    """One in each round: nobody is missing, and the bits are those of serial."""
    experiment, options = small("method=scaffold", "rounds=3")
    found = []
    for record in run(experiment, options, through=Through(session, experiment)):
        found.append(record)
        actors = [each for each in family(session) if "ClientAppActor" in " ".join(each.cmdline())]
        assert actors
        actors[0].kill()
    assert [record.missing for record in found] == [{}, {}, {}]
    assert result(found) == result(run(experiment, options))


def listening(process: psutil.Process) -> list[tuple[str, int]]:
    """Return the addresses at which a process takes connections."""
    found = process.net_connections(kind="tcp")
    return [(each.laddr.ip, each.laddr.port) for each in found if each.status == psutil.CONN_LISTEN]


def test_nothing_listens_beyond_this_machine(session: FlowerSimulation) -> None:
    addresses = {host for process in family(session) for host, _ in listening(process)}
    assert addresses
    assert addresses <= {"127.0.0.1", "::ffff:127.0.0.1", "::1"}


def test_a_stranger_on_this_machine_cannot_speak_to_ray(session: FlowerSimulation) -> None:
    """Only who can read the token can; that is in a folder of the user's own."""
    assert stat.S_IMODE(session.home.stat().st_mode) == 0o700
    token = (session.home / "token").read_text()
    (gcs,) = (each for each in family(session) if "gcs_server" in each.name())
    (port,) = {port for _, port in listening(gcs)}

    def ask(*credentials: tuple[str, str]) -> grpc.StatusCode:
        with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
            call = channel.unary_unary("/ray.rpc.NodeInfoGcsService/GetAllNodeInfo")
            try:
                call(b"", metadata=credentials, timeout=60)
            except grpc.RpcError as error:
                return error.code()
        return grpc.StatusCode.OK

    assert ask() == grpc.StatusCode.UNAUTHENTICATED
    assert ask(("authorization", f"Bearer {'0' * 64}")) == grpc.StatusCode.UNAUTHENTICATED
    assert ask(("authorization", f"Bearer {token}")) != grpc.StatusCode.UNAUTHENTICATED
