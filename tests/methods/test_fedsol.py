import pytest
import torch
from plain import batches, close, send
from small import simulate, small
from torch import Tensor
from torch.nn.functional import cross_entropy, softmax

from feddecorr.core.randomness import threads
from feddecorr.server.federation import Simulation
from feddecorr.training.client import Client


def divergence(mine: Tensor, theirs: Tensor) -> Tensor:
    """Return the mean of KL(theirs ‖ mine) over the samples, of probabilities softened by 3."""
    p, q = softmax(theirs / 3, 1), softmax(mine / 3, 1)
    return (p * (p / q).log()).sum(1).mean()


@threads(1)
@pytest.mark.parametrize("adaptive", [True, False])
def test_the_gradient_is_taken_where_the_global_model_is_forgotten(adaptive: bool) -> None:
    """Against two passes a step written out, with a copy of the global model."""
    words = ["method.rho=0.6", f"method.adaptive={str(adaptive).lower()}"]
    experiment = small("method=fedsol", *words, "training.momentum=0", "training.weight_decay=0").experiment
    simulation = Simulation(experiment)
    sent = send(simulation.federation.start())
    model, globe = simulation.task.build_model().train(), simulation.task.build_model().eval()
    anchors = [parameter.detach().clone() for parameter in model.parameters()]
    parameters = list(model.parameters())
    for x, y in batches(experiment, 0, 1):
        slopes = torch.autograd.grad(divergence(model(x), globe(x).detach()), parameters)
        length = torch.cat([slope.flatten() for slope in slopes]).norm()
        here = [parameter.detach().clone() for parameter in parameters]
        with torch.no_grad():
            for parameter, anchor, slope in zip(parameters, anchors, slopes, strict=True):
                gap = (parameter - anchor).abs()
                scale = gap / gap.square().sum(0, keepdim=True).sqrt().clamp(min=1e-12) if adaptive else 1.0
                parameter.add_(scale * 0.6 * slope / (length + 1e-12))
        gradients = torch.autograd.grad(cross_entropy(model(x), y), parameters)
        with torch.no_grad():
            for parameter, before, gradient in zip(parameters, here, gradients, strict=True):
                parameter.copy_(before - experiment.training.lr * gradient)
    update, _ = Client(simulation.task)(sent, simulation.shards[0], {})
    assert close(update.weights, {name: tensor.detach() for name, tensor in model.named_parameters()}, 1e-4)


def test_forgetting_is_no_term_of_the_objective() -> None:
    """It only says where gradients are taken; the recorded objective is that of FedAvg."""
    simulation = simulate("method=fedsol")
    update, _ = Client(simulation.task)(send(simulation.federation.start()), simulation.shards[0], {})
    assert update.metrics.keys() == {"cross_entropy"}


def test_the_pass_beside_leaves_no_trace_in_the_statistics() -> None:
    """BatchNorm has counted one pass for each step."""
    simulation = simulate("method=fedsol")
    update, _ = Client(simulation.task)(send(simulation.federation.start()), simulation.shards[0], {})
    counters = [tensor for name, tensor in update.buffers.items() if name.endswith("num_batches_tracked")]
    assert [int(counter) for counter in counters] == [len(batches(small().experiment, 0, 1))] * 2
