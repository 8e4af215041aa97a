import pytest
import torch
from torch import Tensor, nn
from torch.func import grad, vmap

from feddecorr.objective.terms import Pass, Term, combine, cross_entropy, linear, proximal

STREAM = torch.Generator().manual_seed(1)
WEIGHTS = {name: torch.randn(3, 2, dtype=torch.float64, generator=STREAM) for name in ("a", "b")}
OTHERS = [torch.randn(3, 2, dtype=torch.float64, generator=STREAM) for _ in range(2)]


def value_and_gradient(term: Term, factor: float) -> tuple[Tensor, list[Tensor]]:
    parameters = {name: nn.Parameter(weight.clone()) for name, weight in WEIGHTS.items()}
    nothing = torch.zeros(1)
    value = term(Pass(nothing, nothing, nothing, nothing, parameters))
    return value, list(torch.autograd.grad(factor * value, list(parameters.values())))


@pytest.mark.parametrize("factor", [1.0, -2.5])
def test_the_known_gradients_are_those_of_autograd(factor: float) -> None:
    """Also inside of a larger expression."""
    written = {
        "proximal": lambda p: 0.7 / 2 * sum((w - o).square().sum() for w, o in zip(p, OTHERS, strict=True)),
        "linear": lambda p: sum((w * o).sum() for w, o in zip(p, OTHERS, strict=True)),
    }
    for name, term in (("proximal", proximal(0.7, OTHERS)), ("linear", linear(OTHERS))):
        parameters = [weight.clone().requires_grad_() for weight in WEIGHTS.values()]
        expected = written[name](parameters)
        value, gradient = value_and_gradient(term, factor)
        assert torch.allclose(value, expected)
        for mine, theirs in zip(gradient, torch.autograd.grad(factor * expected, parameters), strict=True):
            assert torch.allclose(mine, theirs)


def test_a_term_can_be_asked_again_and_again() -> None:
    """What it is given is never changed."""
    before = [other.clone() for other in OTHERS]
    for term in (proximal(2.0, OTHERS), linear(OTHERS)):
        first, second = value_and_gradient(term, 1.0), value_and_gradient(term, 1.0)
        assert torch.equal(first[0], second[0])
        assert all(torch.equal(*pair) for pair in zip(first[1], second[1], strict=True))
    assert all(torch.equal(*pair) for pair in zip(before, OTHERS, strict=True))


@pytest.mark.parametrize("term", [proximal(0.7, OTHERS), linear(OTHERS)])
def test_several_clients_at_once_are_the_clients_one_by_one(term: Term) -> None:
    """Under torch.func, with the clients' parameters stacked."""
    stacked = {name: torch.randn(5, 3, 2, dtype=torch.float64, generator=STREAM) for name in WEIGHTS}

    def objective(parameters: dict[str, Tensor]) -> Tensor:
        nothing = torch.zeros(1)
        return 3 * term(Pass(nothing, nothing, nothing, nothing, parameters))

    together = vmap(grad(objective))(stacked)
    for client in range(5):
        alone = grad(objective)({name: tensor[client] for name, tensor in stacked.items()})
        for name, slope in alone.items():
            assert torch.allclose(together[name][client], slope)
            assert slope.abs().max() > 0


def test_later_terms_replace_earlier_ones_in_their_place() -> None:
    """In the order in which names come up first, since sums depend on it in their last bits; None takes a term away."""
    first, second = linear(OTHERS), proximal(1.0, OTHERS)
    found = combine({"cross_entropy": cross_entropy, "a": first}, {"b": second}, {"cross_entropy": second, "a": None})
    assert list(found.items()) == [("cross_entropy", second), ("b", second)]


def test_the_classification_loss_of_several_clients_is_that_of_each() -> None:
    logits, labels = torch.randn(3, 5, 4, dtype=torch.float64), torch.randint(4, (3, 5))
    several = cross_entropy(Pass(logits, labels, logits, logits, {}))
    each = [cross_entropy(Pass(x, y, x, x, {})) for x, y in zip(logits, labels, strict=True)]
    torch.testing.assert_close(several, torch.stack(each), rtol=1e-12, atol=0)
