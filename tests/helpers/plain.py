"""Local training written out plainly, as an independent implementation to compare the client with."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from feddecorr.config.experiment import Experiment
from feddecorr.core.messages import Broadcast, RoundInfo, Server, Update
from feddecorr.core.randomness import threads
from feddecorr.core.states import State
from feddecorr.methods import Method
from feddecorr.objective.terms import ClientContext, Pass, Term
from feddecorr.server.federation import Simulation
from feddecorr.training.client import Client

Batch = tuple[Tensor, Tensor]
Loss = Callable[[nn.Module, Tensor, Tensor], Tensor]

SEEN: list[Batch] = []


class Watching(Method):
    """FedAvg that keeps the batches it sees."""

    def terms(self, context: ClientContext) -> Mapping[str, Term]:
        """Look at the batch and go on as usual."""

        def watch(forward: Pass) -> Tensor:
            SEEN.append((forward.x, forward.y))
            return cross_entropy(forward.logits, forward.y)

        return {"cross_entropy": watch}


def batches(experiment: Experiment, client: int, number: int) -> list[Batch]:
    """Return the batches of a client in a round; they do not depend on the method."""
    simulation = Simulation(experiment.model_copy(update={"method": Watching()}))
    SEEN.clear()
    Client(simulation.task)(send(simulation.federation.start(), number), simulation.shards[client], {})
    return list(SEEN)


def send(server: Server, number: int = 1) -> Broadcast:
    """Return what clients get in a round."""
    return Broadcast.of(number, server)


def info(*sizes: int, number: int = 1) -> RoundInfo:
    """Return what the server's hooks are given, for clients with these numbers of examples."""
    return RoundInfo(number, 0, np.array(sizes or (1,)))


def classify(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    """Return the cross-entropy."""
    return cross_entropy(model(x), y)


@threads(1)
def train(experiment: Experiment, sent: Broadcast, client: int, loss: Loss = classify) -> nn.Module:
    """Return the model after SGD on the client's batches, one parameter after another."""
    model = Simulation(experiment).task.build_model()
    model.load_state_dict({**sent.weights, **sent.buffers})
    model.train()
    training = experiment.training
    velocity = [torch.zeros_like(parameter) for parameter in model.parameters()]
    for x, y in batches(experiment, client, sent.round):
        gradients = torch.autograd.grad(loss(model, x, y), list(model.parameters()))
        with torch.no_grad():
            for parameter, gradient, v in zip(model.parameters(), gradients, velocity, strict=True):
                v.mul_(training.momentum).add_(gradient + training.weight_decay * parameter)
                parameter.sub_(training.lr * v)
    return model


def close(one: Mapping[str, Tensor], other: Mapping[str, Tensor], tolerance: float = 1e-5) -> bool:
    """Return whether two states agree up to rounding."""
    return one.keys() == other.keys() and all(
        torch.allclose(one[name], other[name], rtol=tolerance, atol=tolerance) for name in one
    )


def same(one: Mapping[str, Tensor], other: Mapping[str, Tensor]) -> bool:
    """Return whether two states agree to the last bit."""
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


def weights_of(model: nn.Module) -> State:
    """Return the parameters by name."""
    return {name: parameter.detach() for name, parameter in model.named_parameters()}


def number(*values: float) -> State:
    """Return a state of one vector."""
    return {"w": torch.tensor(values, dtype=torch.float64)}


def update(client: int, examples: int, weights: State, amount: float = 1.0) -> Update:
    """Return what a client sends that has no BatchNorm."""
    return Update(1, client, examples, amount, weights, {}, {}, {})
