import pytest
import torch
from plain import batches, close, send, weights_of
from small import digest, result, small
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from feddecorr.core.randomness import threads
from feddecorr.core.states import State
from feddecorr.errors import UserError
from feddecorr.models.model import freeze_statistics, use_batch_statistics
from feddecorr.runs.pipeline import run
from feddecorr.server.federation import Simulation
from feddecorr.training.client import Client


def network() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(1, 3, 3), nn.BatchNorm2d(3), nn.ReLU(), nn.Flatten(), nn.Linear(108, 4))


def images(count: int = 10) -> Tensor:
    return 2 + torch.randn(count, 1, 8, 8, generator=torch.Generator().manual_seed(1))


def statistics_of(state: State) -> State:
    return {name: tensor for name, tensor in state.items() if "running" in name or "batches" in name}


def test_fixed_statistics_are_used_and_left_alone() -> None:
    """In training the network gives what it gives in evaluation, until it is put into training mode anew."""
    model = network()
    before = digest(dict(model.named_buffers()))
    expected = model.eval()(images())
    model.train()
    freeze_statistics(model)
    assert torch.equal(model(images()), expected)
    assert digest(dict(model.named_buffers())) == before
    assert model.training
    model.train()
    assert not torch.equal(model(images()), expected)


def test_forgotten_statistics_are_those_of_each_batch() -> None:
    """In evaluation the network gives what it gives in training, and remembers nothing of it."""
    model, other = network().eval(), network().train()
    use_batch_statistics(model, 10, 5)
    for part in images().split(5):
        assert torch.equal(model(part), other(part))
    assert not dict(model.named_buffers())


@pytest.mark.parametrize(("count", "batch"), [(11, 5), (1, 5), (10, 1)])
def test_an_image_alone_has_no_statistics(count: int, batch: int) -> None:
    """Refused, with the numbers."""
    with pytest.raises(UserError, match=rf"{count} images in batches of {batch} .* leave a batch of one"):
        use_batch_statistics(network(), count, batch)


def test_without_statistics_there_is_nothing_to_forget() -> None:
    with pytest.raises(UserError, match="keeps no BatchNorm statistics"):
        use_batch_statistics(nn.Sequential(nn.Flatten(), nn.Linear(64, 4)), 10, 5)


@threads(1)
def test_clients_train_with_the_statistics_that_they_were_sent() -> None:
    """After the given round, against SGD on a network whose BatchNorm is in evaluation mode; they come back as sent."""
    experiment = small("batchnorm=fixed", "fix_after=4", "training.momentum=0", "training.weight_decay=0").experiment
    simulation = Simulation(experiment)
    sent = send(simulation.federation.start(), 5)
    model = simulation.task.build_model().train()
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.eval()
    for x, y in batches(small("training.momentum=0", "training.weight_decay=0").experiment, 1, 5):
        gradients = torch.autograd.grad(cross_entropy(model(x), y), list(model.parameters()))
        with torch.no_grad():
            for parameter, gradient in zip(model.parameters(), gradients, strict=True):
                parameter.sub_(experiment.training.lr * gradient)
    update, _ = Client(simulation.task)(sent, simulation.shards[1], {})
    assert close(update.weights, weights_of(model), 1e-4)
    assert digest(update.buffers) == digest(sent.buffers)


def test_statistics_stay_after_the_given_round_and_not_before() -> None:
    """Up to it, the run is that with averaged statistics, to the last bit; its statistics are the last that change."""
    plain = [record.state for record in run(*small("rounds=4"))]
    fixed = [record.state for record in run(*small("rounds=4", "batchnorm=fixed", "fix_after=2"))]
    assert [digest(state) for state in plain[:2]] == [digest(state) for state in fixed[:2]]
    assert len({digest(statistics_of(state)) for state in fixed[1:]}) == 1
    assert len({digest(state) for state in fixed}) == 4  # the weights go on


def test_pooled_variances_are_larger_than_averaged_ones() -> None:
    """In the first round, where all else is the same, by the variance of the clients' means."""
    (plain,), (pooled,) = (run(*small("rounds=1", f"batchnorm={kind}")) for kind in ("average", "pooled"))
    wider = [name for name in plain.state if name.endswith("running_var")]
    assert all((pooled.state[name] > plain.state[name]).all() for name in wider)
    others = plain.state.keys() - wider
    assert all(torch.equal(pooled.state[name], plain.state[name]) for name in others)


def test_of_one_client_pooled_is_averaged() -> None:
    words = ["clients=1", "partition=homogeneous"]
    one, other = (result(run(*small(*words, f"batchnorm={kind}"))) for kind in ("average", "pooled"))
    assert one == other


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["batchnorm=fixed"], "batchnorm=fixed needs the round after which statistics stay: fix_after=ROUND"),
        (["fix_after=3"], "fix_after=3 is for batchnorm=fixed, not for batchnorm=average"),
        (["batchnorm=fixed", "fix_after=0"], "expected more than 0"),
        (["batchnorm=frozen"], "'average', 'pooled', 'fixed' or 'local'"),
    ],
)
def test_what_is_wrong_is_said(words: list[str], message: str) -> None:
    with pytest.raises(UserError, match=message):
        small(*words)
