import math
from collections.abc import Callable
from functools import partial

import pytest
import torch
from torch import Tensor, nn

from feddecorr.errors import UserError
from feddecorr.loss.contrastive import supervised_contrastive, uniformity

torch.set_num_threads(1)  # tensors are tiny

Loss = Callable[[Tensor], Tensor]

LABELS = torch.tensor([0, 1, 0, 2, 1, 0, 3])

LOSSES: dict[str, Loss] = {
    "uniformity": uniformity,
    "supervised": partial(supervised_contrastive, labels=LABELS, temperature=0.5, beta=0.0),
    "relaxed": partial(supervised_contrastive, labels=LABELS, temperature=0.5, beta=0.7, threshold=0.1),
}
every_loss = pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)


def random(d: int = 5, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(len(LABELS), d, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def cosine(u: Tensor, v: Tensor) -> float:
    return float(u @ v / (u.norm() * v.norm()))


def test_uniformity_pair_by_pair() -> None:
    """Written out for each pair of samples."""
    z = random()
    units = [row / row.norm() for row in z]
    pairs = [(u, v) for i, u in enumerate(units) for v in units[:i]]
    expected = math.log(sum(math.exp(-3 * float((u - v).square().sum())) for u, v in pairs) / len(pairs))
    assert float(uniformity(z, 3.0)) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("beta", [0.0, 0.7])
@pytest.mark.parametrize("threshold", [-1.0, 0.1, 0.99])
def test_the_contrast_pair_by_pair(beta: float, threshold: float) -> None:
    """Written out for each sample and each other one of its class; a class of one sample says nothing."""
    z, t = random(), 0.5
    samples = range(len(z))
    terms = []
    for i in samples:
        others = [j for j in samples if j != i]
        alike = [j for j in others if LABELS[j] == LABELS[i]]
        if not alike:
            continue
        s = {j: cosine(z[i], z[j]) for j in others}
        total = sum(math.exp(s[k] / t) for k in others)
        pull = sum(-math.log(math.exp(s[j] / t) / total) for j in alike) / len(alike)
        near = sum(math.exp((s[j] - 1) / t) for j in alike if s[j] > threshold)
        terms.append(pull + beta * math.log(1 + near))
    assert len(terms) == 5
    found = supervised_contrastive(z, LABELS, t, beta, threshold)
    assert float(found) == pytest.approx(sum(terms) / len(terms), rel=1e-12)


def test_uniformity_has_its_limits() -> None:
    """0 where all samples have one direction; −4t of two opposite samples; the best for d + 1 samples is a simplex."""
    ray = torch.tensor([[1.0], [2.0], [5.0]]).double() * torch.tensor([[1.0, 2.0, 3.0]]).double()
    assert float(uniformity(ray)) == pytest.approx(0, abs=1e-12)
    assert float(uniformity(torch.tensor([[1.0, 1.0], [-2.0, -2.0]]).double())) == pytest.approx(-8)
    simplex = torch.eye(4).double() - 1 / 4
    stream = torch.Generator().manual_seed(0)
    others = [torch.randn(4, 3, generator=stream).double() for _ in range(20)]
    assert all(uniformity(simplex) < uniformity(other) for other in others)


def test_the_penalty_begins_at_the_threshold() -> None:
    """Two samples of a class at the cosine 0.6: no penalty above that threshold, log(1 + e^{(0.6 − 1)/τ}) below."""
    z, labels = torch.tensor([[1.0, 0.0], [0.6, 0.8]]).double(), torch.tensor([1, 1])
    assert float(supervised_contrastive(z, labels, 0.5, 1.0, 0.61)) == pytest.approx(0, abs=1e-12)
    below = supervised_contrastive(z, labels, 0.5, 1.0, 0.59)
    assert float(below) == pytest.approx(math.log(1 + math.exp(-0.8)))


def test_the_penalty_drives_a_collapsed_class_apart() -> None:
    """Without it, samples of one class are drawn together; with it, those that are too near are not."""
    z = torch.tensor([[1.0, 0.1], [1.0, -0.1], [-1.0, 0.0]]).double().requires_grad_()
    labels = torch.tensor([0, 0, 1])
    cosines = {}
    for beta in (0.0, 50.0):
        (slope,) = torch.autograd.grad(supervised_contrastive(z, labels, 0.5, beta, 0.5), z)
        moved = z.detach() - 1e-3 * slope
        cosines[beta] = cosine(moved[0], moved[1])
    assert cosines[50.0] < cosine(z.detach()[0], z.detach()[1]) < cosines[0.0]


def test_without_two_samples_of_a_class_there_is_nothing_to_contrast() -> None:
    """Zero on the graph."""
    z = random().requires_grad_()
    value = supervised_contrastive(z, torch.arange(len(z)))
    (slope,) = torch.autograd.grad(value, z)
    assert value == 0
    assert not slope.any()


def test_labels_that_do_not_fit_are_refused() -> None:
    with pytest.raises(UserError, match=r"7 samples need as many labels, not labels of shape \(3,\)"):
        supervised_contrastive(random(), torch.arange(3))


@every_loss
@pytest.mark.parametrize("d", [2, 5, 9])
def test_gradients_are_those_of_finite_differences(loss: Loss, d: int) -> None:
    assert torch.autograd.gradcheck(loss, (random(d).requires_grad_(),))


@every_loss
def test_the_length_of_a_representation_means_nothing(loss: Loss) -> None:
    z = random()
    factors = torch.linspace(0.1, 50, len(z)).double()[:, None]
    torch.testing.assert_close(loss(factors * z), loss(z))


@every_loss
def test_turning_all_representations_means_nothing(loss: Loss) -> None:
    z = random()
    turn = torch.linalg.qr(torch.randn(5, 5, generator=torch.Generator().manual_seed(3)).double()).Q
    torch.testing.assert_close(loss(z @ turn), loss(z))


@every_loss
@pytest.mark.parametrize(
    "batch",
    [torch.zeros(7, 4), torch.ones(7, 4), 1e-30 * random(4).float(), 1e6 * random(4).float(), torch.eye(7, 4)],
    ids=["zeros", "all the same", "tiny", "large", "some zeros"],
)
def test_loss_and_gradient_are_finite_for_every_finite_batch(loss: Loss, batch: Tensor) -> None:
    z = batch.clone().requires_grad_()
    value = loss(z)
    (slope,) = torch.autograd.grad(value, z)
    assert value.isfinite()
    assert slope.isfinite().all()


@every_loss
@pytest.mark.parametrize("broken", [float("nan"), float("inf"), float("-inf")])
def test_what_is_not_finite_makes_the_loss_nan(loss: Loss, broken: float) -> None:
    z = random()
    z[3, 2] = broken  # of a class of its own
    assert loss(z).isnan()


@pytest.mark.parametrize("loss", [uniformity, partial(supervised_contrastive, labels=LABELS[:1])])
def test_a_batch_of_one_gives_zero_on_the_graph(loss: Loss) -> None:
    z = torch.randn(1, 5, requires_grad=True)
    value = loss(z)
    value.backward()
    assert value == 0
    assert z.grad is not None
    assert not z.grad.any()


@every_loss
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_computed_in_float32(loss: Loss, dtype: torch.dtype) -> None:
    z = random().to(dtype)
    assert torch.equal(loss(z), loss(z.float()))


@every_loss
def test_autocast_changes_nothing(loss: Loss) -> None:
    """To the last bit, of the loss and of its gradient."""
    z = random(dtype=torch.float32).requires_grad_()
    with torch.autocast("cpu", torch.bfloat16):
        value = loss(z)
        (inside,) = torch.autograd.grad(value, z)
    (outside,) = torch.autograd.grad(loss(z), z)
    assert torch.equal(value, loss(z))
    assert torch.equal(inside, outside)


@every_loss
@pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")  # PyTorch's compiler does it
def test_compiled_in_one_graph_it_is_the_same(loss: Loss) -> None:
    torch.compiler.reset()
    z = random(dtype=torch.float32).requires_grad_()
    value = torch.compile(loss, backend="aot_eager", fullgraph=True)(z)
    torch.testing.assert_close(value, loss(z))
    torch.testing.assert_close(torch.autograd.grad(value, z), torch.autograd.grad(loss(z), z))


@every_loss
def test_a_step_against_the_gradient_lowers_the_loss(loss: Loss) -> None:
    torch.manual_seed(0)
    layer = nn.Linear(6, 8)
    x = torch.randn(len(LABELS), 6)
    before = loss(layer(x))
    (slope,) = torch.autograd.grad(before, layer.weight)
    with torch.no_grad():
        layer.weight -= 1e-2 * slope / slope.norm()
    assert loss(layer(x)) < before
