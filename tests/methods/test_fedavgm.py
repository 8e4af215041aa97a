import pytest
import torch
from plain import info, number, update

from feddecorr.core.messages import Server
from feddecorr.methods.fedavgm import FedAvgM


def walk(method: FedAvgM, means: list[float]) -> list[float]:
    """Return the server's weight after rounds in which the clients' mean moved by the given changes."""
    server = method.start(Server(number(1.0), {}), info(1, 1))
    places = []
    for mean in means:
        here = float(server.weights["w"])
        server = method.aggregate(
            server, [update(0, 1, number(here + mean - 1)), update(1, 1, number(here + mean + 1))], info()
        )
        places.append(float(server.weights["w"]))
    return places


def test_three_rounds_by_hand() -> None:
    """V ← v/2 + Δ: 4, 2 + 1, 1.5 + 0, so w goes from 1 to 5, 8 and 9.5."""
    assert walk(FedAvgM(momentum=0.5), [4.0, 1.0, 0.0]) == pytest.approx([5.0, 8.0, 9.5])


def test_three_rounds_as_released_by_hand() -> None:
    """V ← v/2 + Δ/2: 2, 1 + 0.5, 0.75 + 0, so w goes from 1 to 3, 4.5 and 5.25."""
    assert walk(FedAvgM(momentum=0.5, variant="released"), [4.0, 1.0, 0.0]) == pytest.approx([3.0, 4.5, 5.25])


def test_in_the_long_run_the_published_one_goes_further() -> None:
    """Under a steady change the two move by Δ/(1 − ρ) and by Δ."""
    steps = [1.0] * 200
    published = walk(FedAvgM(momentum=0.9), steps)
    released = walk(FedAvgM(momentum=0.9, variant="released"), steps)
    assert published[-1] - published[-2] == pytest.approx(10)
    assert released[-1] - released[-2] == pytest.approx(1)


def test_statistics_get_no_momentum() -> None:
    """They are not the method's: it has no velocity for them."""
    server = Server(number(1.0), {"running_var": torch.ones(1)})
    assert FedAvgM().start(server, info(1)).memory.keys() == {"w"}
