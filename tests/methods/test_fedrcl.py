import torch
from plain import close, send, train, weights_of
from small import digest, small
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from feddecorr.runs.pipeline import run
from feddecorr.server.federation import Simulation
from feddecorr.training.client import Client


def contrast(z: Tensor, y: Tensor, temperature: float, beta: float, threshold: float) -> Tensor:
    """Return the relaxed contrast, sample by sample."""
    units = z / z.norm(dim=1, keepdim=True)
    terms = []
    for i in range(len(z)):
        others = [j for j in range(len(z)) if j != i]
        alike = [j for j in others if y[j] == y[i]]
        if not alike:
            continue
        cosines = {j: units[i] @ units[j] for j in others}
        total = torch.stack([(cosines[j] / temperature).exp() for j in others]).sum()
        pulls = [-((cosines[j] / temperature).exp() / total).log() for j in alike]
        near = [((cosines[j] - 1) / temperature).exp() for j in alike if cosines[j] > threshold]
        penalty = (1 + sum(near)).log() if near else torch.zeros(())
        terms.append(torch.stack(pulls).mean() + beta * penalty)
    return torch.stack(terms).mean() if terms else torch.zeros(())


def test_both_levels_of_the_network_are_contrasted() -> None:
    """Against the contrast written out, of the first convolution's averaged maps and of the representation."""
    options = ["method.weight=0.5", "method.temperature=0.4", "method.beta=0.3", "method.threshold=0.6"]
    experiment = small("method=fedrcl", *options).experiment
    simulation = Simulation(experiment)
    sent = send(simulation.federation.start())

    def loss(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        layers = list(model.get_submodule("features").children())
        first = nn.Sequential(*layers[:3])(x)
        z = nn.Sequential(*layers[3:])(first)
        levels = [contrast(each, y, 0.4, 0.3, 0.6) for each in (first.mean((2, 3)), z)]
        return cross_entropy(model.get_submodule("classifier")(z), y) + 0.5 * (levels[0] + levels[1]) / 2

    update, _ = Client(simulation.task)(sent, simulation.shards[1], {})
    assert close(update.weights, weights_of(train(experiment, sent, 1, loss)), 1e-4)


def test_on_the_last_level_it_is_the_regularizer() -> None:
    """FedAvg with `supervised_contrastive`, to the last bit."""
    options = {"weight": 0.3, "temperature": 0.2, "beta": 0.5, "threshold": 0.4}
    words = [f"method.{name}={value}" for name, value in options.items()]
    *_, method = run(*small("method=fedrcl", "method.levels=last", *words))
    words = [f"regularizers.supervised_contrastive.{name}={value}" for name, value in options.items()]
    *_, regularized = run(*small(*words))
    assert digest(method.state) == digest(regularized.state)
    assert method.terms["contrast"] == regularized.terms["supervised_contrastive"]
