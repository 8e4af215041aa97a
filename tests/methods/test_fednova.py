import pytest
from plain import close, info, number, same, update
from small import digest, small

from feddecorr.core.messages import Server
from feddecorr.methods import mean_weights
from feddecorr.methods.fednova import FedNova
from feddecorr.runs.pipeline import run


def test_a_round_by_hand() -> None:
    """From 1, client 3 (30 examples) took 2 steps of 2, client 1 (10 examples) took 8 steps of −1.

    p = 3/4, 1/4; mean change per step 3/4·2 − 1/4·1 = 5/4; mean number of steps 3/4·2 + 1/4·8 = 7/2;
    1 + 7/2·5/4 = 43/8. The ids are no positions.
    """
    updates = [update(3, 30, number(1 + 4.0), amount=2.0), update(1, 10, number(1 - 8.0), amount=8.0)]
    assert close(FedNova().aggregate(Server(number(1.0), {}), updates, info()).weights, number(43 / 8), 1e-12)


def test_with_equal_work_it_is_fedavg_to_the_last_bit() -> None:
    """Whatever the amount."""
    updates = [update(4, 3, number(1 / 3), 7.3), update(9, 7, number(1e-3), 7.3), update(2, 5, number(5e5), 7.3)]
    assert same(FedNova().aggregate(Server(number(0.1), {}), updates, info()).weights, mean_weights(updates))
    equal = ["partition=homogeneous", "participation=0.5"]
    assert digest(next(run(*small("method=fednova", *equal))).state) == digest(next(run(*small(*equal))).state)


def test_a_client_that_works_more_does_not_pull_more() -> None:
    """Twice the steps in the same direction leave the direction of the round as it was."""
    server = Server(number(0.0, 0.0), {})
    for steps in (1.0, 2.0, 50.0):
        updates = [update(0, 1, number(1.0, 0.0), 1.0), update(1, 1, number(0.0, steps), steps)]
        moved = FedNova().aggregate(server, updates, info()).weights["w"]
        assert float(moved[0] / moved[1]) == pytest.approx(1.0)


def test_statistics_are_averaged_never_extrapolated() -> None:
    """They are those of FedAvg in the first round, although the clients' work differs."""
    nova, plain = next(run(*small("method=fednova"))), next(run(*small()))
    assert digest(nova.state) != digest(plain.state)
    for name in nova.state:
        if "running" in name or "tracked" in name:
            assert bool((nova.state[name] == plain.state[name]).all())
