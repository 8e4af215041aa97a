"""The flow, the FedDecorr term in it, and the progress that it reports."""

from itertools import pairwise

import numpy as np
import pytest
import torch
from linear_networks import random_data, random_network
from numpy.random import RandomState

from feddecorr.errors import RunError, UserError
from feddecorr.loss.decorrelation import Normalization, feddecorr
from feddecorr.paper.theory.network import decorrelation_term, flow, gradients, integrate, loss, partial_progress


def test_a_flow_and_its_return_end_where_they_began() -> None:
    """Forwards and then backwards in time is no motion at all."""
    stream = RandomState(0)
    x, y = random_data(stream, inputs=5, classes=3, samples=12)
    start = random_network(stream, [5, 4, 4, 3])
    end = flow(start, x, y, [0.0, 0.2])[-1]
    for there, back in zip(start, flow(end, x, y, [0.2, 0.0])[-1], strict=True):
        np.testing.assert_allclose(back, there, atol=1e-10)
    assert max(np.abs(one - two).max() for one, two in zip(start, end, strict=True)) > 0.1


def test_the_loss_falls_by_the_square_of_the_gradient() -> None:
    """dℓ/dt = −Σ_j ‖∂ℓ/∂W_j‖², here integrated by Simpson's rule."""
    stream = RandomState(1)
    x, y = random_data(stream, inputs=5, classes=3, samples=12)
    times = np.linspace(0, 0.1, 41)
    trajectory = flow(random_network(stream, [5, 4, 3]), x, y, times)
    speeds = np.array([sum((g**2).sum() for g in gradients(weights, x, y)) for weights in trajectory])
    simpson = np.array([1, *[4, 2] * 19, 4, 1]) * 0.1 / 40 / 3
    fallen = loss(trajectory[0], x, y) - loss(trajectory[-1], x, y)
    assert fallen == pytest.approx(simpson @ speeds, rel=1e-6)


def test_differences_of_neighbouring_layers_never_change() -> None:
    """W_{j+1}ᵀW_{j+1} − W_jW_jᵀ is kept for every neighbouring pair, the classifier too, from any start."""
    stream = RandomState(2)
    x, y = random_data(stream, inputs=6, classes=4, samples=20)
    start = random_network(stream, [6, 5, 5, 5, 4])
    end = flow(start, x, y, [0.0, 0.5])[-1]
    for (below, above), (then_below, then_above) in zip(pairwise(end), pairwise(start), strict=True):
        kept = then_above.T @ then_above - then_below @ then_below.T
        np.testing.assert_allclose(above.T @ above - below @ below.T, kept, atol=1e-11)
    assert np.abs(end[1].T @ end[1] - start[1].T @ start[1]).max() > 0.1


def test_a_term_on_the_representations_moves_the_layers_but_not_the_classifier() -> None:
    """What a term adds to the velocity reaches W_1 … W_L by the chain rule; W_{L+1} doesn't see it."""
    stream = RandomState(3)
    x, y = random_data(stream, inputs=5, classes=3, samples=12)
    weights = random_network(stream, [5, 4, 4, 3])
    without, with_term = gradients(weights, x, y), gradients(weights, x, y, lambda z: z)
    z = weights[1] @ weights[0] @ x
    np.testing.assert_allclose(with_term[1] - without[1], z @ x.T @ weights[0].T, atol=1e-12)
    np.testing.assert_allclose(with_term[0] - without[0], weights[1].T @ z @ x.T, atol=1e-12)
    np.testing.assert_array_equal(with_term[2], without[2])


def test_a_network_that_does_not_fit_the_data_is_refused() -> None:
    """The door is before the solver."""
    stream = RandomState(4)
    x, y = random_data(stream, inputs=5, classes=3, samples=12)
    with pytest.raises(UserError, match="W_1 takes 4 inputs, but 5 come from below"):
        flow(random_network(stream, [4, 4, 3]), x, y, [0.0, 1.0])


@pytest.mark.parametrize("times", [[0.0, 0.02, 0.05, 0.3], [0.3, 0.1, 0.0]])
def test_progress_is_reported_for_every_step_before_what_lies_in_it(times: list[float]) -> None:
    """Shares rise to one, forwards and backwards, and the weights come while the flow goes on."""
    stream = RandomState(5)
    x, y = random_data(stream, inputs=5, classes=3, samples=12)
    shares: list[float] = []
    heard = [shares[-1] for _ in integrate(random_network(stream, [5, 4, 3]), x, y, times, progress=shares.append)]
    assert len(heard) == len(times)
    assert all(share >= abs(time - times[0]) / 0.3 - 1e-12 for share, time in zip(heard, times, strict=True))
    assert heard[0] < heard[-1] == shares[-1] == 1
    assert len(shares) > len(times)
    assert shares == sorted(shares)


def test_one_time_alone_is_the_start() -> None:
    stream = RandomState(6)
    x, y = random_data(stream, inputs=5, classes=3, samples=12)
    start = random_network(stream, [5, 4, 3])
    (only,) = flow(start, x, y, [2.0])
    for there, here in zip(start, only, strict=True):
        np.testing.assert_array_equal(there, here)


@pytest.mark.parametrize("times", [[0.0, 0.2, 0.1, 0.3], [0.0, 0.1, 0.1], [0.3, 0.4, 0.0]])
def test_times_out_of_order_are_refused(times: list[float]) -> None:
    stream = RandomState(7)
    x, y = random_data(stream, inputs=5, classes=3, samples=12)
    with pytest.raises(UserError, match="in order"):
        flow(random_network(stream, [5, 4, 3]), x, y, times)


def test_a_flow_that_runs_away_says_how_far_it_came() -> None:
    """A term that pulls with the cube of the representations reaches infinity in finite time."""
    stream = RandomState(8)
    x, y = random_data(stream, inputs=5, classes=3, samples=12)
    with pytest.raises(RunError, match="beyond time 0"):
        flow(random_network(stream, [5, 4, 3]), x, y, [0.0, 10.0], lambda z: -(z**3))


@pytest.mark.parametrize("normalization", ["paper", "released"])
def test_the_term_is_the_gradient_of_the_project_s_loss(normalization: Normalization) -> None:
    """Differences of N·β·L along a random direction."""
    stream = RandomState(0)
    z, direction = stream.normal(size=(4, 9)), stream.normal(size=(4, 9))
    step = 1e-6

    def loss(at: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> float:
        return 9 * 0.3 * feddecorr(torch.from_numpy(at.T.copy()), normalization).item()

    slope = (loss(z + step * direction) - loss(z - step * direction)) / (2 * step)
    found = decorrelation_term(0.3, normalization)(z)
    assert (found * direction).sum() == pytest.approx(slope, rel=1e-6)


def test_a_part_is_heard_within_the_whole() -> None:
    """Parts of parts, too: half of the second half is three quarters."""
    heard: list[float] = []
    second = partial_progress(heard.append, 0.5, 1)
    second(0)
    second(0.5)
    partial_progress(second, 0, 0.5)(1)
    second(1)
    assert heard == [0.5, 0.75, 0.75, 1]
