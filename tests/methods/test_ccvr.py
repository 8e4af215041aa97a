from collections.abc import Iterable
from dataclasses import replace

import pytest
import torch
from plain import send
from small import simulate, small
from torch import Tensor

from feddecorr.collapse.statistics import Moments
from feddecorr.core.messages import Update
from feddecorr.errors import UserError
from feddecorr.methods import METHODS
from feddecorr.methods.ccvr import draw, train_classifier
from feddecorr.runs.pipeline import run
from feddecorr.training.client import Client

HEAD = ("classifier.weight", "classifier.bias")
LAST = ("method=ccvr", "method.calibration_round=3")


def test_until_the_calibration_it_is_fedavg_and_then_only_the_classifier_changes() -> None:
    """To the last bit: weights of the body and BatchNorm's statistics are those of the round before."""
    first, second, third = run(*small(*LAST))
    plain = list(run(*small()))
    for mine, theirs in zip((first, second), plain, strict=False):
        assert all(torch.equal(tensor, theirs.state[name]) for name, tensor in mine.state.items())
    assert {name for name in third.state if not torch.equal(third.state[name], second.state[name])} == set(HEAD)


def updates(words: Iterable[str]) -> list[Update]:
    simulation = simulate(*words)
    sent = send(simulation.federation.start(), 3)
    return [Client(simulation.task)(sent, simulation.shards[client], {})[0] for client in range(4)]


def test_merged_moments_are_those_of_everybodys_representations() -> None:
    """Against mean and covariance of all images of a class, by the model that was sent, in evaluation mode."""
    simulation = simulate(*LAST)
    sent = updates(LAST)
    parts = [simulation.shards[client].images for client in range(4)]
    model = simulation.task.build_model().eval()
    with torch.no_grad():
        z = torch.cat([model.get_submodule("features")(simulation.task.normalize(part.pixels)) for part in parts])
    y = torch.cat([part.labels for part in parts])
    for label in range(4):
        counts = [float(each.extra["counts"][label]) for each in sent]
        means = [each.extra["means"][label].double() for each in sent]
        mine = z[y == label].double()
        mean = sum(n * m for n, m in zip(counts, means, strict=True)) / sum(counts)
        within = sum(each.extra["scatters"][label].double() for each in sent)
        between = sum(n * torch.outer(m - mean, m - mean) for n, m in zip(counts, means, strict=True))
        assert sum(counts) == len(mine)
        torch.testing.assert_close(mean, mine.mean(0), rtol=1e-4, atol=1e-5)
        torch.testing.assert_close((within + between) / len(mine), mine.T.cov(correction=0), rtol=1e-3, atol=1e-5)


def test_virtual_features_have_the_moments_that_they_are_drawn_from() -> None:
    """Also where the covariance has no full rank."""
    z = torch.randn(3, 5, generator=torch.Generator().manual_seed(0)).double()
    drawn = draw(Moments.of(z), 200_000, torch.Generator().manual_seed(1))
    torch.testing.assert_close(drawn.mean(0), z.mean(0), rtol=0, atol=0.01)
    torch.testing.assert_close(drawn.T.cov(), z.T.cov(correction=0), rtol=0, atol=0.02)


def descend(x: Tensor, y: Tensor, steps: int = 400) -> tuple[Tensor, Tensor]:
    return train_classifier(x, y, x.new_zeros(3, x.shape[1]), x.new_zeros(3), steps=steps, lr=1.0)


def test_the_classifier_goes_down_to_the_minimum_whatever_the_scale_of_the_features() -> None:
    """There the gradient vanishes; features times 1000 and moved by 50 give the same decisions."""
    stream = torch.Generator().manual_seed(2)
    y = torch.arange(3).repeat(50)
    x = torch.randn(150, 2, generator=stream).double() + torch.tensor([[0.0, 2], [2, 0], [-1, -1]])[y].double()
    weight, bias = descend(x, y, 3000)
    weight.requires_grad_()
    bias.requires_grad_()
    torch.nn.functional.cross_entropy(x @ weight.T + bias, y).backward()
    assert weight.grad is not None
    assert float(weight.grad.abs().max()) < 1e-3
    other, offset = descend(1000 * x + 50, y, 3000)
    torch.testing.assert_close((1000 * x + 50) @ other.T + offset, x @ weight.T + bias, rtol=1e-6, atol=1e-6)


def test_a_biased_classifier_is_put_right() -> None:
    """Zero weights and a bias that says class 0 always: after the calibration, better than chance on all four."""
    words = [*LAST, "data.train=400", "data.test=200", "partition=homogeneous", "method.calibration_round=1"]
    experiment, _ = small(*words)
    simulation = simulate(*words)
    start = simulation.federation.start()
    spoilt = {**start.weights, HEAD[0]: torch.zeros_like(start.weights[HEAD[0]])}
    spoilt[HEAD[1]] = torch.tensor([9.0, 0, 0, 0])
    server = type(start)(spoilt, start.buffers)
    played = [Client(simulation.task)(send(server), simulation.shards[client], {})[0] for client in range(4)]
    moved = experiment.method.aggregate(server, played, simulation.federation.info(1))
    model = simulation.task.build_model().eval()
    model.load_state_dict({**moved.weights, **moved.buffers})
    test = simulation.dataset.test
    with torch.no_grad():
        right = model(simulation.task.normalize(test.pixels)).argmax(1) == test.labels
    assert float(right.float().mean()) > 0.4


def test_moments_are_refused_where_only_weights_are_private() -> None:
    """In a run that calibrates; one that ends before sends nothing else."""
    words = ["method=ccvr", "transforms=private", "model.norm=group", "transforms.private.seed=1"]
    assert len(list(run(*small(*words, "rounds=2")))) == 2
    with pytest.raises(UserError, match="differential privacy protects only the weights"):
        list(run(*small(*words, "rounds=2", "method.calibration_round=2")))


def test_a_class_that_nobody_has_keeps_its_row() -> None:
    sent = updates([*LAST, "method.calibration_round=3"])
    simulation = simulate(*LAST)
    kept = torch.tensor([1.0, 1, 0, 1])
    lacking = [replace(each, extra={**each.extra, "counts": each.extra["counts"] * kept}) for each in sent]
    start = simulation.federation.start()
    moved = METHODS.parse({"name": "ccvr", "calibration_round": 3}).aggregate(
        start, lacking, simulation.federation.info(3)
    )
    same = [bool(torch.equal(moved.weights[HEAD[0]][row], start.weights[HEAD[0]][row])) for row in range(4)]
    assert same == [False, False, True, False]
