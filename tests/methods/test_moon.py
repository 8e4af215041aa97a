import math

import pytest
import torch
from plain import close, same, send, train, weights_of
from small import digest, small
from torch import Tensor, nn
from torch.nn.functional import cosine_similarity, cross_entropy

from feddecorr.config.experiment import Experiment
from feddecorr.core.messages import Broadcast, Update
from feddecorr.core.states import State
from feddecorr.runs.pipeline import run
from feddecorr.server.federation import Simulation
from feddecorr.training.client import METHOD, Client

ONE_STEP = ["method=moon", "rounds=2", "training.epochs=1", "training.batch=1000"]


def two_rounds(experiment: Experiment) -> tuple[Simulation, Broadcast, State, Update, Update]:
    """Return what client 2 is sent in its second round, what it remembers then, and its two updates."""
    simulation = Simulation(experiment)
    client, server = Client(simulation.task), simulation.federation.start()
    first, memory = client(send(server), simulation.shards[2], {})
    other, _ = client(send(server), simulation.shards[0], {})
    sent = Broadcast(
        2, experiment.method.aggregate(server, [first, other], simulation.federation.info(1)).weights, other.buffers, {}
    )
    return simulation, sent, memory, first, client(sent, simulation.shards[2], memory)[0]


@pytest.mark.parametrize("temperature", [0.5, 0.1])
def test_the_second_round_contrasts_the_global_with_the_last_model(temperature: float) -> None:
    """Against cross-entropy over the two similarities, with models that keep their BatchNorm in evaluation mode."""
    experiment = small(
        "method=moon", "method.mu=2", f"method.temperature={temperature}", "model.projection=5"
    ).experiment
    simulation, sent, memory, _, update = two_rounds(experiment)

    def frozen(state: State) -> nn.Module:
        model = simulation.task.build_model()
        model.load_state_dict(state)
        return model.eval()

    globe = frozen({**sent.weights, **sent.buffers})
    last = frozen({name.removeprefix(METHOD): tensor for name, tensor in memory.items()})

    def represent(model: nn.Module, x: Tensor) -> Tensor:
        representation: Tensor = nn.Sequential(*list(model.children())[:-1])(x)
        return representation

    def loss(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        z = represent(model, x)
        with torch.no_grad():
            towards, away = represent(globe, x), represent(last, x)
        pair = torch.stack([cosine_similarity(z, towards), cosine_similarity(z, away)], dim=1) / temperature
        logits = list(model.children())[-1](z)
        return cross_entropy(logits, y) + 2 * cross_entropy(pair, torch.zeros(len(x), dtype=torch.long))

    assert close(update.weights, weights_of(train(experiment, sent, 2, loss)), tolerance=1e-4)


def test_the_temperature_changes_the_loss() -> None:
    """Unless the variant is the released one, which never uses it."""

    def contrast(*words: str) -> float:
        *_, record = run(*small(*ONE_STEP, *words))
        return record.terms["contrast"]

    assert contrast("method.temperature=0.5") != contrast("method.temperature=0.25")
    released = contrast("method.temperature=0.5", "method.variant=released")
    assert released == contrast("method.temperature=0.25", "method.variant=released")
    assert released == contrast("method.temperature=1")


def test_before_its_first_round_a_client_has_no_contrast() -> None:
    """The term is log 2 and pulls nowhere: the round is FedAvg's."""
    record = next(run(*small("method=moon", "method.mu=3")))
    assert record.terms["contrast"] == pytest.approx(3 * math.log(2))
    assert digest(record.state) == digest(next(run(*small())).state)


def test_a_client_remembers_its_model_with_its_statistics() -> None:
    """And sends none of it."""
    _, _, memory, first, second = two_rounds(small("method=moon").experiment)
    kept = {name.removeprefix(METHOD): tensor for name, tensor in memory.items()}
    assert same(kept, {**first.weights, **first.buffers})
    assert any(name.endswith("running_var") for name in kept)
    assert second.extra == {}


def test_the_last_models_statistics_matter() -> None:
    """With those of another model the update is another one."""
    simulation, sent, memory, _, update = two_rounds(small("method=moon").experiment)
    wrong = {name: tensor + 1 if name.endswith("running_mean") else tensor for name, tensor in memory.items()}
    assert not same(Client(simulation.task)(sent, simulation.shards[2], wrong)[0].weights, update.weights)
