"""The three adaptive server optimizers, against NumPy loops over their published lines."""

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray
from plain import info, number, update

from feddecorr.core.messages import Server
from feddecorr.methods import Method
from feddecorr.methods.adaptive import FedAdagrad, FedAdam, FedYogi

Array = NDArray[np.float64]
LR, BETA1, BETA2, TAU = 0.3, 0.6, 0.8, 0.05

RULES: list[tuple[Method, Callable[[Array, Array], Array]]] = [
    (FedAdagrad(lr=LR, beta1=BETA1, tau=TAU), lambda v, d: v + d**2),
    (FedAdam(lr=LR, beta1=BETA1, beta2=BETA2, tau=TAU), lambda v, d: BETA2 * v + (1 - BETA2) * d**2),
    (FedYogi(lr=LR, beta1=BETA1, beta2=BETA2, tau=TAU), lambda v, d: v - (1 - BETA2) * d**2 * np.sign(v - d**2)),
]


@pytest.mark.parametrize(("method", "rule"), RULES)
def test_four_rounds_by_the_published_lines(method: Method, rule: Callable[[Array, Array], Array]) -> None:
    """M ← β₁m + (1−β₁)Δ, v by the rule from τ², w ← w + η·m/(√v + τ)."""
    x, m, v = np.array([1.0, -2.0]), np.zeros(2), np.full(2, TAU**2)
    server = method.start(Server(number(*x), {}), info(1, 3))
    for targets in ([3.0, 1.0], [0.5, 0.5], [-4.0, 2.0], [0.01, 0.0]):
        one, three = np.array(targets), np.array(targets[::-1])
        updates = [update(6, 1, number(*one)), update(2, 3, number(*three))]
        server = method.aggregate(server, updates, info())
        delta = (one + 3 * three) / 4 - x
        m = BETA1 * m + (1 - BETA1) * delta
        v = rule(v, delta)
        x = x + LR * m / (np.sqrt(v) + TAU)
        assert server.weights["w"].numpy() == pytest.approx(x, rel=1e-10)


def test_the_rules_differ() -> None:
    """After the same two rounds the three servers stand at three places."""
    places = set()
    for method, _ in RULES:
        server = method.start(Server(number(1.0), {}), info(1))
        for target in (4.0, 3.0):
            server = method.aggregate(server, [update(0, 1, number(target))], info())
        places.add(float(server.weights["w"]))
    assert len(places) == 3


@pytest.mark.parametrize("kind", [FedAdagrad, FedAdam, FedYogi])
def test_where_tau_outweighs_everything_the_step_is_plain(kind: type[FedAdagrad | FedAdam | FedYogi]) -> None:
    """√v is then τ too, because v begins at τ²: with η = 2τ and without a first moment, the step is FedAvg's."""
    still = {"beta2": 1 - 1e-9} if "beta2" in kind.model_fields else {}
    method = kind.model_validate({"lr": 2e6, "beta1": 0.0, "tau": 1e6, **still})
    server = method.start(Server(number(1.0), {}), info(1))
    moved = method.aggregate(server, [update(0, 1, number(4.0))], info())
    assert float(moved.weights["w"]) == pytest.approx(4.0, rel=1e-6)
