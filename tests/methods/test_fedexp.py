import pytest
from plain import close, info, number, same, update

from feddecorr.core.messages import Server
from feddecorr.methods import mean_weights
from feddecorr.methods.fedexp import FedExP


def test_a_round_by_hand() -> None:
    """From 0, changes (4, 0) and (0, 4) of 1 and 3 examples: mean (1, 3), Σp‖Δᵢ‖² = 16, ‖Δ‖² = 10.

    With ε = 2/3, η = 16 / (2·(10 + 2/3)) = 3/4, less than 1, so the round is the mean's. With three clients
    that share nothing, (6,0,0), (0,6,0), (0,0,6): 36 / (2·(12 + 2/3)) = 54/38.
    """
    two = [update(5, 1, number(4.0, 0.0)), update(3, 3, number(0.0, 4.0))]
    assert same(FedExP(epsilon=2 / 3).aggregate(Server(number(0.0, 0.0), {}), two, info()).weights, mean_weights(two))
    three = [update(i, 1, number(*[6.0 * (i == j) for j in range(3)])) for i in range(3)]
    moved = FedExP(epsilon=2 / 3).aggregate(Server(number(0.0, 0.0, 0.0), {}), three, info()).weights
    assert close(moved, number(*[2 * 54 / 38] * 3), 1e-12)


def test_clients_that_agree_give_the_mean_to_the_last_bit() -> None:
    """The factor is then 1/2 and is raised to 1."""
    updates = [update(0, 3, number(0.1)), update(1, 4, number(0.1))]
    assert same(FedExP().aggregate(Server(number(1 / 3), {}), updates, info()).weights, number(0.1))


@pytest.mark.parametrize("clients", [4, 10, 40])
def test_the_more_clients_disagree_the_further_the_server_goes(clients: int) -> None:
    """N orthogonal changes of the same length: half of n times the mean."""
    updates = [update(i, 1, number(*[float(i == j) for j in range(clients)])) for i in range(clients)]
    moved = FedExP(epsilon=1e-12).aggregate(Server(number(*[0.0] * clients), {}), updates, info()).weights["w"]
    assert float(moved[0]) == pytest.approx(0.5, rel=1e-6)


def test_counters_among_the_weights_would_hide_all_disagreement() -> None:
    """Ten orthogonal changes go five means far; with a counter that grew by 100 everywhere, just one.

    That is why only weights count, and BatchNorm's counters of batches, which the released code counts too, don't.
    """
    ways = [[float(i == j) for j in range(10)] for i in range(10)]
    changes = [update(i, 1, number(*way)) for i, way in enumerate(ways)]
    counted = [update(i, 1, number(*way, 100.0)) for i, way in enumerate(ways)]
    far = FedExP(epsilon=1e-12).aggregate(Server(number(*[0.0] * 10), {}), changes, info()).weights["w"]
    near = FedExP(epsilon=1e-12).aggregate(Server(number(*[0.0] * 11), {}), counted, info()).weights["w"]
    assert float(far[0]) == pytest.approx(5 * 0.1, rel=1e-6)
    assert float(near[0]) == pytest.approx(0.1)
