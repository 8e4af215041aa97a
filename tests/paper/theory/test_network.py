import numpy as np
import pytest
import torch
from linear_networks import random_data, random_network
from numpy.random import RandomState

from feddecorr.errors import UserError
from feddecorr.paper.theory.network import (
    check,
    class_gradient_matrix,
    class_means_matrix,
    gradients,
    layer_gradients,
    loss,
    probabilities,
    product,
    product_gradient,
    representation_covariance,
)


@pytest.mark.parametrize("layers", [1, 2, 4])
def test_gradients_are_those_of_automatic_differentiation(layers: int) -> None:
    """Loss and gradients equal PyTorch's, for the cross-entropy summed over samples."""
    stream = RandomState(layers)
    x, y = random_data(stream, inputs=6, classes=4, samples=9)
    weights = random_network(stream, [6, *[5] * layers, 4])
    tensors = [torch.from_numpy(matrix).requires_grad_() for matrix in weights]
    logits = torch.linalg.multi_dot([*reversed(tensors), torch.from_numpy(x)])
    summed = torch.nn.functional.cross_entropy(logits.T, torch.from_numpy(y.argmax(0)), reduction="sum")
    summed.backward()
    assert loss(weights, x, y) == pytest.approx(summed.item(), rel=1e-12)
    for found, tensor in zip(gradients(weights, x, y), tensors, strict=True):
        assert tensor.grad is not None
        np.testing.assert_allclose(found, tensor.grad.numpy(), rtol=1e-10, atol=1e-12)


def test_the_gradient_by_the_product_gives_those_of_its_layers() -> None:
    """∂ℓ/∂W_j follows from ∂ℓ/∂Π alone."""
    stream = RandomState(0)
    x, y = random_data(stream, inputs=5, classes=3, samples=8)
    weights = random_network(stream, [5, 4, 6, 3])
    for one, other in zip(
        layer_gradients(weights[:-1], product_gradient(weights, x, y)), gradients(weights, x, y), strict=False
    ):
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-14)


def test_large_logits_do_not_overflow() -> None:
    """Probabilities and loss stay finite where exponentials would not."""
    weights = (np.array([[1e3]]), np.array([[1.0], [-1.0]]))
    x, y = np.array([[1.0]]), np.array([[0.0], [1.0]])
    np.testing.assert_array_equal(probabilities(weights, x), [[1.0], [0.0]])
    assert loss(weights, x, y) == pytest.approx(2e3)


def test_G_adds_up_over_samples() -> None:
    """G is the mean over samples of (y_i − γ_i) X_iᵀ."""
    stream = RandomState(1)
    x, y = random_data(stream, inputs=5, classes=4, samples=11)
    weights = random_network(stream, [5, 4, 4])
    gamma = probabilities(weights, x)
    mean = np.mean([np.outer(y[:, i] - gamma[:, i], x[:, i]) for i in range(11)], axis=0)
    np.testing.assert_allclose(class_gradient_matrix(weights, x, y), mean, atol=1e-14)


def test_G_as_printed_is_G_where_the_inputs_of_a_class_are_the_same() -> None:
    """Σ_c μ_c (e_c − γ̄_c) X̄_cᵀ = (y − γ)Xᵀ/N without variation within classes, for classes of any size."""
    stream = RandomState(2)
    _, y = random_data(stream, inputs=5, classes=4, samples=11)
    x = stream.normal(size=(5, 4)) @ y
    weights = random_network(stream, [5, 4, 4])
    np.testing.assert_allclose(
        class_means_matrix(weights, x, y), class_gradient_matrix(weights, x, y), rtol=1e-12, atol=1e-15
    )


def test_G_as_printed_lacks_the_covariance_within_classes() -> None:
    """G = Σ_c μ_c [(e_c − γ̄_c) X̄_cᵀ − Cov_c(γ, X)], and the second part is not small."""
    stream = RandomState(3)
    x, y = random_data(stream, inputs=5, classes=3, samples=30)
    weights = random_network(stream, [5, 4, 3])
    gamma = probabilities(weights, x)
    missing = np.zeros((3, 5))
    for members in y.astype(bool):
        together = np.cov(gamma[:, members], x[:, members], bias=True)[:3, 3:]
        missing += members.mean() * together
    true = class_gradient_matrix(weights, x, y)
    np.testing.assert_allclose(class_means_matrix(weights, x, y) - missing, true, atol=1e-14)
    assert np.linalg.norm(missing) > 0.3 * np.linalg.norm(true)


def test_a_class_without_samples_adds_nothing_to_G() -> None:
    """As printed, G sums over the classes that there are; the missing one still has its row of probabilities."""
    stream = RandomState(4)
    _, present = random_data(stream, inputs=5, classes=3, samples=9)
    y = np.vstack([present, np.zeros((1, 9))])
    x = stream.normal(size=(5, 4)) @ y
    weights = random_network(stream, [5, 4, 4])
    g = class_means_matrix(weights, x, y)
    np.testing.assert_allclose(g, class_gradient_matrix(weights, x, y), rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(g[3], -probabilities(weights, x)[3] @ x.T / 9, atol=1e-14)


def test_G_has_rank_below_the_number_of_classes() -> None:
    """1ᵀG = 0, because y_i and γ_i both sum to one: one left direction never grows."""
    stream = RandomState(5)
    x, y = random_data(stream, inputs=8, classes=4, samples=20)
    weights = random_network(stream, [8, 6, 4])
    g = class_gradient_matrix(weights, x, y)
    np.testing.assert_allclose(g.sum(0), 0, atol=1e-15)
    assert np.linalg.matrix_rank(g) == 3


def test_the_covariance_of_representations_is_that_of_numpy() -> None:
    """Σ has 1/N, and is Π Cov(X) Πᵀ (equation 5)."""
    stream = RandomState(6)
    x, _ = random_data(stream, inputs=5, classes=3, samples=9)
    weights = random_network(stream, [5, 4, 3])
    below = product(weights[:-1])
    np.testing.assert_allclose(
        representation_covariance(weights, x), below @ np.cov(x, bias=True) @ below.T, atol=1e-13
    )


def test_arrays_that_do_not_fit_are_refused() -> None:
    """The offending matrix and its sizes are named."""
    stream = RandomState(7)
    x, y = random_data(stream, inputs=5, classes=3, samples=9)
    weights = random_network(stream, [5, 4, 3])
    with pytest.raises(UserError, match="W_2 takes 6 inputs, but 4 come from below"):
        check((weights[0], np.zeros((3, 6))), x, y)
    with pytest.raises(UserError, match="at least one layer and a classifier"):
        check(weights[:1], x, y)
    with pytest.raises(UserError, match=r"labels have the shape \(3, 8\)"):
        check(weights, x, y[:, :8])
