from collections.abc import Mapping

import pytest
import torch
from pydantic import PrivateAttr
from small import simulate, small
from torch.nn.functional import cross_entropy

from feddecorr.core.messages import Broadcast
from feddecorr.core.states import State
from feddecorr.errors import RunError
from feddecorr.methods import Method
from feddecorr.objective.terms import ClientContext, Pass, Term
from feddecorr.server.federation import Simulation
from feddecorr.server.rounds import federate
from feddecorr.training.client import Client

ONE_STEP = ["clients=1", "training.epochs=1", "training.batch=1000", "training.momentum=0", "training.weight_decay=0"]


def first_broadcast(simulation: Simulation) -> Broadcast:
    server = simulation.federation.start()
    return Broadcast(1, server.weights, server.buffers, server.shared)


def by_hand(simulation: Simulation, lr: float) -> State:
    """Take one step of plain SGD on all training images, in the order in which the client takes them."""
    model = simulation.task.build_model()
    model.train()
    seen: list[torch.Tensor] = []
    client = Client(simulation.task)
    client.model.register_forward_pre_hook(lambda _module, inputs: seen.append(inputs[0]))
    client(first_broadcast(simulation), simulation.shards[0], {})
    images = simulation.dataset.normalize(simulation.dataset.train.pixels)
    order = [int((images - x).flatten(1).abs().sum(1).argmin()) for x in seen[0]]
    cross_entropy(model(seen[0]), simulation.dataset.train.labels[order]).backward()
    with torch.no_grad():
        for parameter in model.parameters():
            assert parameter.grad is not None
            parameter.add_(parameter.grad, alpha=-lr)
    return model.state_dict()


@pytest.mark.parametrize("model", ["convnet", "mlp"])
def test_one_client_with_one_step_is_plain_sgd_bit_for_bit(model: str) -> None:
    """BatchNorm's statistics included."""
    torch.set_num_threads(1)
    simulation = simulate(*ONE_STEP, f"model={model}", "rounds=1")
    client = Client(simulation.task)
    rounds = federate(
        simulation.federation.start(),
        simulation.federation,
        lambda sent, clients: (client(sent, simulation.shards[number], {})[0] for number in clients),
        rounds=range(1, 2),
    )
    server = next(rounds).server
    expected = by_hand(simulation, lr=0.05)
    assert {**server.weights, **server.buffers}.keys() == expected.keys()
    for name, tensor in {**server.weights, **server.buffers}.items():
        assert torch.equal(tensor, expected[name]), name


def test_training_in_given_room_gives_the_same_bits_there() -> None:
    simulation = simulate()
    sent = first_broadcast(simulation)
    expected, _ = Client(simulation.task)(sent, simulation.shards[0], {})
    out_buffers = {
        "weights": {name: torch.full_like(tensor, torch.nan) for name, tensor in expected.weights.items()},
        "buffers": {name: torch.zeros_like(tensor) for name, tensor in expected.buffers.items()},
    }
    Client(simulation.task)(sent, simulation.shards[0], {}, out_buffers)
    for section, state in {"weights": expected.weights, "buffers": expected.buffers}.items():
        assert all(torch.equal(out_buffers[section][name], tensor) for name, tensor in state.items())


def test_what_the_server_sent_is_left_alone() -> None:
    simulation = simulate()
    sent = first_broadcast(simulation)
    before = {name: tensor.clone() for name, tensor in sent.weights.items()}
    Client(simulation.task)(sent, simulation.shards[0], {})
    assert all(torch.equal(sent.weights[name], tensor) for name, tensor in before.items())


def test_the_same_job_gives_the_same_bits_whatever_came_before() -> None:
    simulation = simulate()
    fresh, _ = Client(simulation.task)(first_broadcast(simulation), simulation.shards[2], {})
    used_client = Client(simulation.task)
    used_client(first_broadcast(simulation), simulation.shards[0], {})
    used, _ = used_client(first_broadcast(simulation), simulation.shards[2], {})
    assert all(torch.equal(fresh.weights[name], tensor) for name, tensor in used.weights.items())


def test_without_beta_there_is_no_regularizer() -> None:
    plain = simulate()
    zero = simulate("regularizers.feddecorr.beta=0")
    expected, _ = Client(plain.task)(first_broadcast(plain), plain.shards[0], {})
    found, _ = Client(zero.task)(first_broadcast(zero), zero.shards[0], {})
    assert all(torch.equal(expected.weights[name], tensor) for name, tensor in found.weights.items())


def test_every_term_is_recorded_by_name() -> None:
    simulation = simulate("regularizers.feddecorr.beta=0.3")
    update, _ = Client(simulation.task)(first_broadcast(simulation), simulation.shards[0], {})
    assert set(update.metrics) == {"cross_entropy", "feddecorr"}
    assert all(value > 0 for value in update.metrics.values())


def test_local_statistics_stay_with_the_client() -> None:
    """With batchnorm=local, a client continues from its own BatchNorm statistics, not from what is sent."""
    simulation = simulate("batchnorm=local")
    sent = first_broadcast(simulation)
    client = Client(simulation.task)
    _, memory = client(sent, simulation.shards[0], {})
    assert {name.removeprefix("buffers/") for name in memory} == set(sent.buffers)
    after_own, _ = client(sent, simulation.shards[0], memory)
    after_sent, _ = client(sent, simulation.shards[0], {})
    mean = next(name for name in sent.buffers if name.endswith("running_mean"))
    assert not torch.equal(after_own.buffers[mean], after_sent.buffers[mean])
    count = mean.replace("running_mean", "num_batches_tracked")
    assert int(after_own.buffers[count]) == 2 * int(after_sent.buffers[count])


def test_averaged_statistics_are_not_remembered() -> None:
    simulation = simulate()
    _, memory = Client(simulation.task)(first_broadcast(simulation), simulation.shards[0], {})
    assert memory == {}


def test_a_diverging_client_is_an_error() -> None:
    simulation = simulate("training.lr=1e30")
    with pytest.raises(RunError, match=r"lower training\.lr"):
        Client(simulation.task)(first_broadcast(simulation), simulation.shards[0], {})


def test_frozen_parameters_stay_as_they_are() -> None:
    """Not even weight decay moves them."""
    simulation = simulate("training.weight_decay=0.1")
    client = Client(simulation.task)
    frozen = next(iter(client.parameters))
    client.parameters[frozen].requires_grad_(False)
    sent = first_broadcast(simulation)
    update, _ = client(sent, simulation.shards[0], {})
    assert torch.equal(update.weights[frozen], sent.weights[frozen])
    assert not all(torch.equal(update.weights[name], tensor) for name, tensor in sent.weights.items())


class Looking(Method):
    """Hands every pass on to a list."""

    _passes: list[Pass] = PrivateAttr(default_factory=list)

    def terms(self, context: ClientContext) -> Mapping[str, Term]:  # noqa: ARG002 - nothing else matters
        """Look, and add nothing."""

        def look(forward: Pass) -> torch.Tensor:
            self._passes.append(forward)
            return forward.z.new_zeros(())

        return {"look": look}


@pytest.mark.parametrize("augment", ["none", "flip"])
def test_a_pass_says_which_images_come_as_they_are(augment: str) -> None:
    """Places are those in the shard; an image that is augmented has none."""
    looking = Looking()
    simulation = Simulation(small(f"data.augment={augment}").experiment.model_copy(update={"method": looking}))
    Client(simulation.task)(first_broadcast(simulation), simulation.shards[1], {})
    images = simulation.shards[1].images
    assert looking._passes
    for forward in looking._passes:
        if augment == "flip":
            assert forward.places is None
            continue
        assert forward.places is not None
        assert torch.equal(forward.x, simulation.dataset.normalize(images.pixels[forward.places.host]))
        assert torch.equal(forward.y, images.labels[forward.places.host])
