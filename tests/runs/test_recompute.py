from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from small import digest, small

from feddecorr.core.files import load_tensors
from feddecorr.methods import mean_weights
from feddecorr.runs.directory import RunDirectory
from feddecorr.runs.evaluation import Evaluator
from feddecorr.runs.pipeline import run
from feddecorr.runs.recompute import state_of
from feddecorr.server.federation import Simulation
from feddecorr.server.rounds import sample_clients

quiet: Callable[[str], None] = lambda _text: None  # noqa: E731 - a word for it


@pytest.mark.parametrize("number", [1, 2, 3])
def test_the_mean_of_the_local_models_made_again_is_the_global_model(tmp_path: Path, number: int) -> None:
    """Under FedAvg, to the last bit, for the newest round and for older ones, with part of the clients."""
    words = ("participation=0.75", "batchnorm=local")
    expected = [record.state for record in run(*small(*words))][number - 1]
    list(run(*small(*words), tmp_path / "run"))
    directory = RunDirectory.open(tmp_path / "run")
    simulation = Simulation(directory.settings()[0])
    with state_of(directory, simulation, directory.settings()[1], number, quiet) as state:
        weights = mean_weights(state.train(sample_clients(simulation.federation, number)))
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
        "method=scaffold model=mlp model.widths=[] clients=6 partition.minimum=3 training.clients_per_batch=2",
    ],
)
def test_local_models_made_again_are_those_that_the_run_recorded(tmp_path: Path, words: str) -> None:
    """Whatever clients remember, and whoever they trained with: what the run measured is found again, bit for bit."""
    experiment, options = small(*words.split(), "evaluation.clients=true", "participation=0.75")
    *_, last = run(experiment, options, tmp_path / "run")
    directory = RunDirectory.open(tmp_path / "run")
    simulation = Simulation(directory.settings()[0])
    evaluate = Evaluator(simulation.task, simulation.dataset.test)
    drawn = sample_clients(simulation.federation, 3)
    assert list(last.local_models) == sorted(drawn)
    with state_of(directory, simulation, directory.settings()[1], 3, quiet) as state:
        for update in state.train(drawn[1:]):  # any part of them
            assert evaluate(update, classes=True).recorded() == last.local_models[update.client].recorded()


def test_what_is_kept_is_the_state_before_the_newest_round(tmp_path: Path) -> None:
    """And no more of it than that, however long the run."""
    states = [record.state for record in run(*small("rounds=4"), tmp_path / "run")]
    kept = load_tensors(tmp_path / "run" / "previous" / "weights.safetensors")
    assert all(torch.equal(tensor, states[2][name]) for name, tensor in kept.items())
