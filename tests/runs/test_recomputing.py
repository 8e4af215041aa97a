from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from small import digest, small

from feddecorr.errors import UserError
from feddecorr.federation import Simulation
from feddecorr.files import load_tensors
from feddecorr.methods import mean_weights
from feddecorr.rounds import draw_clients
from feddecorr.runs.directory import RunDirectory
from feddecorr.runs.evaluation import Evaluator
from feddecorr.runs.pipeline import run
from feddecorr.runs.recomputing import Wanted, diagnose_run, state_of

quiet: Callable[[str], None] = lambda _text: None  # noqa: E731 - a word for it


@pytest.mark.parametrize("number", [1, 2, 3])
def test_the_mean_of_the_local_models_made_again_is_the_global_model(tmp_path: Path, number: int) -> None:
    """Under FedAvg, to the last bit, for the newest round and for older ones, with part of the clients."""
    words = ("participation=0.75", "buffers=local")
    expected = [record.state for record in run(small(*words))][number - 1]
    list(run(small(*words), tmp_path / "run"))
    directory = RunDirectory.open(tmp_path / "run")
    simulation = Simulation(directory.experiment())
    with state_of(directory, simulation, number, quiet) as state:
        weights = mean_weights(state.train(draw_clients(simulation.federation, number)))
        after = state.after()
    assert digest(weights) == digest({name: expected[name] for name in weights})
    assert digest(after) == digest(expected)


@pytest.mark.parametrize(
    "words",
    [
        "method=fedavg",
        "method=scaffold",
        "method=moon",
        "method=fedacg",
        "method=scaffold model=mlp model.widths=[] clients=6 partition.minimum=3 training.together=2",
    ],
)
def test_local_models_made_again_are_those_that_the_run_recorded(tmp_path: Path, words: str) -> None:
    """Whatever clients remember, and beside whom they trained: what the run measured is found again, bit for bit."""
    experiment = small(*words.split(), "evaluation.clients=true", "participation=0.75")
    *_, last = run(experiment, tmp_path / "run")
    directory = RunDirectory.open(tmp_path / "run")
    simulation = Simulation(directory.experiment())
    evaluate = Evaluator(simulation.task, simulation.dataset.test)
    drawn = draw_clients(simulation.federation, 3)
    assert list(last.local_models) == sorted(drawn)
    with state_of(directory, simulation, 3, quiet) as state:
        for update in state.train(drawn[1:]):  # any part of them
            assert evaluate(update, classes=True).recorded() == last.local_models[update.client].recorded()


def test_looking_changes_nothing_in_the_run(tmp_path: Path) -> None:
    """Training again happens elsewhere: every file of the run keeps its bytes."""
    out = tmp_path / "run"
    list(run(small("method=scaffold"), out))
    before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    diagnose_run(RunDirectory.open(out), Wanted(local=True), "a", quiet)
    assert {path: path.read_bytes() for path in out.rglob("*") if path.is_file()} == before


def test_a_run_is_diagnosed_with_its_clients(tmp_path: Path) -> None:
    """The global model as it was recorded, then the asked clients', compared with it."""
    *_, last = run(small(), tmp_path / "run")
    first, *local = diagnose_run(RunDirectory.open(tmp_path / "run"), Wanted(local=True, clients=[3, 0]), "a", quiet)
    assert first.singular_values == pytest.approx(last.singular_values)
    assert first.accuracy == last.accuracy
    assert [each.client for each in local] == [0, 3]
    assert all(each.reference == first.name and 0 < (each.linear_cka or 0) <= 1 for each in local)


def test_training_images_can_be_looked_at_too(tmp_path: Path) -> None:
    """All of them."""
    list(run(small("rounds=1"), tmp_path / "run"))
    (found,) = diagnose_run(RunDirectory.open(tmp_path / "run"), Wanted(on="train"), "a", quiet)
    assert found.samples == 120


def test_rounds_and_clients_that_are_not_there_are_named(tmp_path: Path) -> None:
    """A round beyond the last, and a client that did not take part."""
    list(run(small("participation=0.5", "rounds=1"), tmp_path / "run"))
    directory = RunDirectory.open(tmp_path / "run")
    drawn = draw_clients(Simulation(directory.experiment()).federation, 1)
    absent = next(client for client in range(4) if client not in drawn)
    with pytest.raises(UserError, match="rounds 1 to 1, not 7"):
        diagnose_run(directory, Wanted(round=7), "a", quiet)
    with pytest.raises(UserError, match=f"client {absent} did not train in round 1"):
        diagnose_run(directory, Wanted(local=True, clients=[absent]), "a", quiet)


def test_what_is_kept_is_the_state_before_the_newest_round(tmp_path: Path) -> None:
    """And no more of it than that, however long the run."""
    states = [record.state for record in run(small("rounds=4"), tmp_path / "run")]
    kept = load_tensors(tmp_path / "run" / "previous" / "weights.safetensors")
    assert all(torch.equal(tensor, states[2][name]) for name, tensor in kept.items())
