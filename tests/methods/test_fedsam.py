import torch
from plain import batches, close, send
from small import simulate, small
from torch.nn.functional import cross_entropy

from feddecorr.core.randomness import threads
from feddecorr.server.federation import Simulation
from feddecorr.training.client import Client


@threads(1)
def test_the_gradient_is_taken_uphill() -> None:
    """Against two forward and backward passes a step, with the norm over all weights together."""
    experiment = small("method=fedsam", "method.rho=0.2", "training.momentum=0", "training.weight_decay=0").experiment
    simulation = Simulation(experiment)
    sent = send(simulation.federation.start())
    model = simulation.task.build_model().train()
    parameters = list(model.parameters())
    for x, y in batches(experiment, 0, 1):
        first = torch.autograd.grad(cross_entropy(model(x), y), parameters)
        norm = torch.cat([gradient.flatten() for gradient in first]).norm()
        here = [parameter.detach().clone() for parameter in parameters]
        with torch.no_grad():
            for parameter, gradient in zip(parameters, first, strict=True):
                parameter.add_(gradient, alpha=0.2 / float(norm))
        second = torch.autograd.grad(cross_entropy(model(x), y), parameters)
        with torch.no_grad():
            for parameter, before, gradient in zip(parameters, here, second, strict=True):
                parameter.copy_(before - experiment.training.lr * gradient)
    update, _ = Client(simulation.task)(sent, simulation.shards[0], {})
    assert close(update.weights, {name: tensor.detach() for name, tensor in model.named_parameters()}, 1e-4)


def test_the_pass_uphill_leaves_no_trace_in_the_statistics() -> None:
    """BatchNorm has counted one pass for each step."""
    simulation = simulate("method=fedsam")
    update, _ = Client(simulation.task)(send(simulation.federation.start()), simulation.shards[0], {})
    steps = len(batches(small().experiment, 0, 1))
    counters = [tensor for name, tensor in update.buffers.items() if name.endswith("num_batches_tracked")]
    assert [int(counter) for counter in counters] == [steps] * 2
