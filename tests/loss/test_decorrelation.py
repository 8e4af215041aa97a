import math
import pickle
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from feddecorr.errors import UserError
from feddecorr.loss import decorrelation
from feddecorr.loss.decorrelation import Dying, Normalization, fading, feddecorr, structured_decov
from feddecorr.loss.module import FedDecorrLoss

torch.set_num_threads(1)  # tensors are tiny

Loss = Callable[[Tensor], Tensor]

LOSSES: dict[str, Loss] = {
    "paper": partial(feddecorr, normalization="paper"),
    "released": partial(feddecorr, normalization="released"),
    "paper, dying counted": partial(feddecorr, normalization="paper", dying="counted"),
    "released, dying counted": partial(feddecorr, normalization="released", dying="counted"),
    "logdet": decorrelation.logdet,
    "decov": decorrelation.decov,
    "structured_decov": partial(structured_decov, size=2),
    "singular": decorrelation.singular,
    "vicreg_covariance": decorrelation.vicreg_covariance,
    "vicreg_variance": decorrelation.vicreg_variance,
    "spectral_entropy": decorrelation.spectral_entropy,
}
examples = settings(derandomize=True, deadline=None, max_examples=40)
every_loss = pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)


def correlations(z: Tensor) -> Tensor:
    """Return the correlation matrix, with zeros for features that never vary."""
    return torch.corrcoef(z.T).reshape(z.shape[1], -1).nan_to_num()


def counted(z: Tensor) -> Tensor:
    """Return the squared correlations, each as far on the way to 1 as one of its two features has died."""
    variances = z.var(0, correction=0)
    small = 0.01 * variances.mean()
    alive = 1 - (small / (variances + small)).nan_to_num(1.0).square()
    both = torch.outer(alive, alive)
    return (both * correlations(z).square() + 1 - both).fill_diagonal_(1.0)


def covariances(z: Tensor, correction: int = 0) -> Tensor:
    return torch.cov(z.T, correction=correction).reshape(z.shape[1], -1)


def off_diagonal(matrix: Tensor) -> Tensor:
    return matrix[~torch.eye(len(matrix), dtype=torch.bool)]


def spectrum(z: Tensor) -> Tensor:
    values: Tensor = torch.linalg.svdvals(covariances(z))
    return values


def between_pairs(matrix: Tensor) -> Tensor:
    """Return the entries between different groups of two neighbours."""
    group = torch.arange(len(matrix)) // 2
    return matrix[group[:, None] != group]


def entropy_of_shares(values: Tensor) -> Tensor:
    entropy: Tensor = torch.special.entr(values / values.sum().clamp(min=1e-300)).sum()
    return entropy


ORACLES: dict[str, Loss] = {
    "paper": lambda z: correlations(z).square().mean(),
    "released": lambda z: (
        off_diagonal((len(z) - 1) * correlations(z)).square().mean().nan_to_num() / len(z)  # no entries, no mean
    ),
    "paper, dying counted": lambda z: counted(z).mean(),
    "released, dying counted": lambda z: (len(z) - 1) ** 2 / len(z) * off_diagonal(counted(z)).mean().nan_to_num(),
    "logdet": lambda z: -torch.logdet(0.99 * correlations(z) + 0.01 * torch.eye(z.shape[1])) / z.shape[1],
    "decov": lambda z: off_diagonal(covariances(z)).square().sum() / 2,
    "structured_decov": lambda z: between_pairs(covariances(z)).square().sum() / 2,
    "singular": lambda z: spectrum(z).var(correction=0),
    "vicreg_covariance": lambda z: off_diagonal(covariances(z, 1)).square().sum() / z.shape[1],
    "vicreg_variance": lambda z: (1 - (z.var(0) + 1e-4).sqrt()).clamp(min=0).mean(),
    "spectral_entropy": lambda z: -entropy_of_shares(spectrum(z)),
}

# Whole numbers make dead features, equal samples and exact ties likely, and no feature nearly dead.
batches = arrays(
    np.float64, array_shapes(min_dims=2, max_dims=2, min_side=2, max_side=9), elements=st.integers(-20, 20)
)


def random(n: int, d: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    """Return correlated representations of unequal scale."""
    stream = torch.Generator().manual_seed(seed)
    mixed = torch.randn(n, d, generator=stream, dtype=dtype) @ torch.randn(d, d, generator=stream, dtype=dtype)
    return mixed * torch.linspace(0.3, 1.5, d, dtype=dtype)


@pytest.mark.parametrize("name", LOSSES)
@examples
@given(values=batches)
def test_equals_an_independent_formula(name: str, values: NDArray[np.float64]) -> None:
    """Correlations by torch.corrcoef, covariances by torch.cov, spectra by a singular value decomposition."""
    z = torch.from_numpy(values)
    torch.testing.assert_close(LOSSES[name](z), ORACLES[name](z), rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("shape", [(64, 300), (300, 64)])
@pytest.mark.parametrize("name", LOSSES)
def test_float32_agrees_with_float64_at_the_size_of_real_batches(name: str, shape: tuple[int, int]) -> None:
    """On both sides of n = d."""
    z = random(*shape)
    torch.testing.assert_close(LOSSES[name](z.float()).double(), ORACLES[name](z), rtol=1e-5, atol=1e-6)


@every_loss
@pytest.mark.parametrize("shape", [(4, 7), (7, 4), (5, 5), (3, 1)])
def test_gradients_are_those_of_finite_differences(loss: Loss, shape: tuple[int, int]) -> None:
    """In float64."""
    assert torch.autograd.gradcheck(loss, (random(*shape).requires_grad_(),))


@examples
@given(values=batches)
def test_proposition_1(values: NDArray[np.float64]) -> None:
    """Singular values of a correlation matrix vary around their mean by ‖K‖²_F − d in all: equation 7."""
    live = values.std(0) > 0  # K has ones on its diagonal
    assume(live.any())
    z = torch.from_numpy(values[:, live])
    d = z.shape[1]
    scores = decorrelation.standardize(z)
    squares = d**2 * feddecorr(z, "paper")
    deviations = spectrum(scores) - spectrum(scores).mean()
    torch.testing.assert_close(deviations.square().sum(), squares - d, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(d * decorrelation.singular(scores), squares - d, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("shape", [(2, 3), (5, 9), (9, 5), (64, 512)])
def test_any_beta_translates_between_the_two_normalizations(shape: tuple[int, int]) -> None:
    """The documented relation of released and paper holds exactly where no feature is dead."""
    n, d = shape
    z = random(n, d)
    expected = (n - 1) ** 2 / n * (d * feddecorr(z, "paper") - 1) / (d - 1)
    torch.testing.assert_close(feddecorr(z, "released"), expected, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("scale", [1.0, 1e-3, 1e-5])
def test_released_is_the_computation_of_the_authors_code(scale: float) -> None:
    """Z-scores by the unbiased variance plus 1e-8, their products unscaled, off the diagonal, mean square over n."""
    z = scale * random(6, 10)
    scores = (z - z.mean(0)) / torch.sqrt(1e-8 + z.var(0))
    expected = off_diagonal(scores.T @ scores).square().mean() / len(z)
    torch.testing.assert_close(feddecorr(z, "released"), expected)


def test_equal_features_are_worst_and_uncorrelated_ones_best() -> None:
    """Derived by hand: K of all ones has the mean square 1; the identity has 1/d, and nothing off its diagonal."""
    equal = torch.tensor([[1.0], [3.0], [8.0]]).double().expand(3, 4)
    plain = torch.tensor([[1.0, 1, 1], [1, -1, -1], [-1, 1, -1], [-1, -1, 1]]).double()  # a two-level design
    torch.testing.assert_close(feddecorr(equal, "paper").item(), 1.0)
    torch.testing.assert_close(feddecorr(equal, "released").item(), 4 / 3)
    torch.testing.assert_close(feddecorr(plain, "paper").item(), 1 / 3)
    torch.testing.assert_close(feddecorr(plain, "released").item(), 0.0, rtol=0, atol=1e-15)


def test_the_log_determinant_by_hand() -> None:
    """Nothing for uncorrelated features; of equal ones K has the eigenvalues d, 0, …, 0, lifted by the shrinkage."""
    plain = torch.tensor([[1.0, 1, 1], [1, -1, -1], [-1, 1, -1], [-1, -1, 1]]).double()
    equal = torch.tensor([[1.0], [3.0], [8.0]]).double().expand(3, 4)
    torch.testing.assert_close(decorrelation.logdet(plain).item(), 0.0, rtol=0, atol=1e-7)
    expected = -(math.log(0.8 * 4 + 0.2) + 3 * math.log(0.2)) / 4
    torch.testing.assert_close(decorrelation.logdet(equal, 0.2).item(), expected, rtol=1e-6, atol=0)


@examples
@given(values=batches)
def test_the_log_determinant_vanishes_where_feddecorr_does(values: NDArray[np.float64]) -> None:
    """Where all features live, −log det K is never negative, and 0 only where no two are correlated."""
    live = values.std(0) > 0
    assume(live.any())
    z = torch.from_numpy(values[:, live])
    assert decorrelation.logdet(z) > -1e-9
    assert (decorrelation.logdet(z) < 1e-6) == (feddecorr(z, "released") < 1e-6)


def test_a_dead_feature_is_an_eigenvalue_of_zero_to_the_log_determinant() -> None:
    """Each adds −log s to the sum."""
    z = random(20, 8)
    wider = torch.cat([z, torch.full((20, 2), 7.5)], 1)
    expected = 8 * decorrelation.logdet(z, 0.3) - 2 * math.log(0.3)
    torch.testing.assert_close(10 * decorrelation.logdet(wider, 0.3), expected)


@every_loss
def test_shifting_features_changes_nothing(loss: Loss) -> None:
    """Not even by rounding that shows, if the shift is large."""
    z = random(8, 12).float().mul(1024).round().div(1024)  # so that the shifted numbers are exact
    torch.testing.assert_close(loss(z + 1000), loss(z), rtol=1e-5, atol=1e-6)


@every_loss
@examples
@given(seed=st.integers(0, 1000))
def test_the_order_of_samples_means_nothing(loss: Loss, seed: int) -> None:
    """For every member."""
    z = random(7, 5, seed)
    torch.testing.assert_close(loss(z[torch.randperm(7, generator=torch.Generator().manual_seed(seed))]), loss(z))


@pytest.mark.parametrize("name", sorted(LOSSES.keys() - {"structured_decov"}))
def test_the_order_of_features_means_nothing(name: str) -> None:
    """Only groups of neighbours know it."""
    z = random(7, 5)
    torch.testing.assert_close(LOSSES[name](z.flip(1)), LOSSES[name](z))


@pytest.mark.parametrize("name", ["paper", "released", "logdet"])
@examples
@given(scales=st.lists(st.floats(0.1, 1000), min_size=5, max_size=5), signs=st.lists(st.booleans(), min_size=5))
def test_the_scale_and_sign_of_each_feature_mean_nothing_to_correlations(
    name: str, scales: list[float], signs: list[bool]
) -> None:
    """That is what they have ahead of covariances."""
    factors = torch.tensor([scale if sign else -scale for scale, sign in zip(scales, signs, strict=False)]).double()
    z = random(7, 5)
    torch.testing.assert_close(LOSSES[name](factors * z), LOSSES[name](z), rtol=1e-5, atol=1e-8)


def test_spectral_entropy_and_scale() -> None:
    """One scale for all features leaves the effective rank as it is."""
    z = random(7, 5)
    torch.testing.assert_close(decorrelation.spectral_entropy(1000 * z), decorrelation.spectral_entropy(z))


def test_groups_of_one_make_structured_decov_decov_and_one_group_makes_it_zero() -> None:
    """The two limits, and a last group that is smaller."""
    z = random(6, 7)
    torch.testing.assert_close(structured_decov(z, 1), decorrelation.decov(z))
    assert structured_decov(z, 7) == structured_decov(z, 100) == 0
    assert 0 < structured_decov(z, 5) < structured_decov(z, 2) < decorrelation.decov(z)


def test_features_may_covary_within_a_group_for_free() -> None:
    """Only covariances between groups count."""
    pair = torch.tensor([[1.0, 1], [1, 1], [-1, -1], [-1, -1]]).double()
    other = torch.tensor([[1.0, 1], [-1, -1], [1, 1], [-1, -1]]).double()
    assert structured_decov(torch.cat([pair, other], 1), 2) == 0
    assert structured_decov(torch.cat([pair, pair], 1), 2) == 4  # half of eight ones


BATCHES: dict[str, Tensor] = {
    "dead features": torch.cat([random(6, 9).float(), torch.full((6, 3), 1000.1)], 1),
    "all features dead": torch.zeros(6, 9),
    "identical samples": random(1, 9).float().expand(6, 9),
    "two samples": random(2, 9).float(),
    "two equal samples": torch.full((2, 9), 0.1),
    "one feature": random(6, 1).float(),
    "nearly dead features": 1e-20 * random(6, 9).float(),
    "one live sample": torch.eye(6, 9)[:, :1].expand(6, 9) * 1e-6,
    "more samples than features": torch.cat([torch.zeros(12, 2), random(12, 2).float()], 1),
    "large numbers": 1e6 * random(6, 9).float(),
}


@every_loss
@pytest.mark.parametrize("batch", BATCHES.values(), ids=BATCHES)
def test_loss_and_gradient_are_finite_for_every_finite_batch(loss: Loss, batch: Tensor) -> None:
    """And no loss but the entropy is negative."""
    z = batch.clone().requires_grad_()
    value = loss(z)
    value.backward()
    assert z.grad is not None
    assert value.isfinite()
    assert z.grad.isfinite().all()
    assert value >= 0 or loss is LOSSES["spectral_entropy"]


@pytest.mark.parametrize("name", ["decov", "structured_decov", "spectral_entropy"])
@pytest.mark.parametrize("constant", [0.0, 1000.1, -1e8])
def test_a_dead_feature_counts_as_nothing(name: str, constant: float) -> None:
    """Whatever its value, to the losses that do not divide by d."""
    z = random(6, 8).float()
    dead = torch.full((6, 2), constant)
    torch.testing.assert_close(LOSSES[name](torch.cat([z, dead], 1)), LOSSES[name](z))


@pytest.mark.parametrize("constant", [0.0, 1000.1, -1e8])
def test_a_dead_feature_is_correlated_with_nothing(constant: float) -> None:
    """Two of them neither: sums of squared correlations stay as they are."""
    z = random(6, 8).float()
    wider = torch.cat([z, torch.full((6, 2), constant)], 1)
    torch.testing.assert_close(100 * feddecorr(wider, "paper"), 64 * feddecorr(z, "paper"))
    torch.testing.assert_close(90 * feddecorr(wider, "released"), 56 * feddecorr(z, "released"))


@every_loss
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
def test_a_batch_of_one_gives_zero_on_the_graph(loss: Loss, dtype: torch.dtype) -> None:
    """So that the sum with other losses can be differentiated as always."""
    z = torch.randn(1, 5, dtype=dtype, requires_grad=True)
    value = loss(z)
    value.backward()
    assert value == 0
    assert value.shape == ()
    assert value.device == z.device
    assert z.grad is not None
    assert (z.grad == 0).all()


@every_loss
@pytest.mark.parametrize("broken", [float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize("samples", [1, 3])
def test_what_is_not_finite_makes_the_loss_nan(loss: Loss, broken: float, samples: int) -> None:
    """Never a number that looks fair; and nothing is asked of the device in a step."""
    z = torch.randn(samples, 5)
    z[0, 2] = broken
    assert loss(z).isnan()


@pytest.mark.parametrize("broken", [float("nan"), float("inf"), float("-inf"), 1e30])
def test_the_module_refuses_what_is_not_finite_in_plain_words(broken: float) -> None:
    z = torch.randn(3, 5)
    z[0, 2] = broken
    with pytest.raises(UserError, match="NaN, infinity"):
        FedDecorrLoss()(z)


@every_loss
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_computed_in_float32(loss: Loss, dtype: torch.dtype) -> None:
    """Dead features included, whose epsilon would vanish in float16."""
    z = torch.cat([random(6, 8), torch.zeros(6, 2)], 1).to(dtype).requires_grad_()
    value = loss(z)
    value.backward()
    assert value.dtype == torch.float32
    assert torch.equal(value, loss(z.detach().float()))
    assert z.grad is not None
    assert z.grad.dtype == dtype
    assert z.grad.isfinite().all()


@every_loss
def test_autocast_changes_nothing(loss: Loss) -> None:
    """To the last bit, of the loss and of its gradient."""
    z = random(6, 8).float().requires_grad_()
    with torch.autocast("cpu", torch.bfloat16):
        value = loss(z)
        (inside,) = torch.autograd.grad(value, z)
    (outside,) = torch.autograd.grad(loss(z), z)
    assert torch.equal(value, loss(z))
    assert torch.equal(inside, outside)


class Largest(TorchDispatchMode):
    """Keeps the largest number of elements that any operation returned."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # torch's
        self.elements = 0

    def __torch_dispatch__(self, operation: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = operation(*args, **(kwargs or {}))
        for tensor in result if isinstance(result, tuple) else [result]:
            if isinstance(tensor, Tensor):
                self.elements = max(self.elements, tensor.numel())
        return result


@every_loss
@pytest.mark.parametrize("shape", [(6, 50), (50, 6)])
def test_the_smaller_product_is_made(loss: Loss, shape: tuple[int, int]) -> None:
    """Forward and backward, nothing is larger than the batch: no d×d matrix when n < d, no n×n when d < n."""
    z = random(*shape).requires_grad_()
    with Largest() as largest:
        torch.autograd.grad(loss(z), z)
    assert largest.elements <= z.numel()


@every_loss
@pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")  # PyTorch's compiler does it
def test_compiled_in_one_graph_it_is_the_same(loss: Loss) -> None:
    """Forward and backward, with no break of the graph, also where all else is cast to bfloat16."""
    torch.compiler.reset()
    z = random(6, 8).float().requires_grad_()
    compiled = torch.compile(loss, backend="aot_eager", fullgraph=True)
    with torch.autocast("cpu", torch.bfloat16):
        value = compiled(z)
    torch.testing.assert_close(value, loss(z))
    torch.testing.assert_close(torch.autograd.grad(value, z), torch.autograd.grad(loss(z), z))


@every_loss
def test_batches_of_several_clients_can_be_stacked(loss: Loss) -> None:
    """Under torch.func, each has the loss and the gradient that it has alone."""
    stacked = torch.stack([random(6, 8, seed) for seed in range(3)])
    values, slopes = zip(*[(loss(z), torch.func.grad(loss)(z)) for z in stacked], strict=True)
    torch.testing.assert_close(torch.func.vmap(loss)(stacked), torch.stack(values))
    torch.testing.assert_close(torch.func.vmap(torch.func.grad(loss))(stacked), torch.stack(slopes))


@every_loss
def test_maps_and_sequences_are_averaged_over_their_positions(loss: Loss) -> None:
    """(n, d, h, w) over h and w, (n, t, d) over t."""
    maps = torch.randn(6, 8, 2, 3, generator=torch.Generator().manual_seed(0)).double()
    assert torch.equal(loss(maps), loss(maps.flatten(2).mean(2)))
    torch.testing.assert_close(loss(maps.flatten(2).mT), loss(maps))


def test_other_shapes_and_integers_are_refused() -> None:
    """With the shape or type that was given."""
    with pytest.raises(UserError, match=r"\(5,\)"):
        feddecorr(torch.zeros(5))
    with pytest.raises(UserError, match="int64"):
        feddecorr(torch.zeros(5, 5, dtype=torch.int64))
    with pytest.raises(UserError, match="at least one feature, not 0"):
        structured_decov(torch.zeros(5, 5), 0)
    with pytest.raises(UserError, match="between 0 and 1, not 0"):
        decorrelation.logdet(torch.zeros(5, 5), 0)


@every_loss
def test_the_gradient_reaches_the_parameters(loss: Loss) -> None:
    """A step against it lowers the loss."""
    torch.manual_seed(0)
    layer = nn.Linear(5, 8)
    x = 0.5 * torch.randn(6, 5)
    before = loss(layer(x))
    gradients = torch.autograd.grad(before, layer.weight)[0]
    assert gradients.abs().sum() > 0
    with torch.no_grad():
        layer.weight -= 1e-2 * gradients / gradients.norm()
    assert loss(layer(x)) < before


def test_the_module_is_the_function() -> None:
    """Without any state; it can be printed, pickled and compared by eye."""
    z = random(6, 8)
    module = FedDecorrLoss()
    assert torch.equal(module(z), feddecorr(z))
    assert torch.equal(FedDecorrLoss("paper")(z), feddecorr(z, "paper"))
    assert torch.equal(pickle.loads(pickle.dumps(module))(z), module(z))  # noqa: S301 - our own bytes
    assert not module.state_dict()
    assert torch.equal(FedDecorrLoss(dying="counted")(z), feddecorr(z, dying="counted"))
    assert repr(module) == "FedDecorrLoss(normalization='released', dying='ignored')"


@pytest.mark.parametrize("make", [FedDecorrLoss, partial(feddecorr, torch.zeros(3, 4))])
def test_an_unknown_normalization_is_refused(make: Callable[[Any], object]) -> None:
    """With those that exist."""
    with pytest.raises(UserError, match="one of paper, released, not 'none'"):
        make("none")


@pytest.mark.parametrize("name", ["paper", "released"])
@pytest.mark.parametrize("dying", ["ignored", "counted"])
@pytest.mark.parametrize("shape", [(4, 7), (7, 4), (1, 3), (3, 1)])
def test_the_losses_of_several_batches_are_those_of_each(
    name: Normalization, dying: Dying, shape: tuple[int, int]
) -> None:
    """With their gradients."""
    z = torch.stack([random(*shape, seed=seed) for seed in range(3)]).requires_grad_()
    weights = torch.tensor([1.0, -2.0, 3.0])
    several = decorrelation.feddecorr_of_each(z, name, dying)
    each = torch.stack([decorrelation.feddecorr(batch, name, dying) for batch in z])
    torch.testing.assert_close(several, each, rtol=1e-10, atol=1e-12)
    slopes = [torch.autograd.grad((losses * weights).sum(), z)[0] for losses in (several, each)]
    torch.testing.assert_close(*slopes, rtol=1e-10, atol=1e-12)


def test_an_unknown_way_with_dying_features_is_refused() -> None:
    """With those that exist."""
    with pytest.raises(UserError, match="one of ignored, counted, not 'revived'"):
        FedDecorrLoss(dying="revived")  # type: ignore[arg-type]


def rarely_active(active: int, n: int = 64, d: int = 40) -> Tensor:
    """Return correlated features after ReLU, of which the first is active on few samples."""
    stream = torch.Generator().manual_seed(0)
    common = torch.randn(n, 1, generator=stream, dtype=torch.float64)
    before = common + 0.5 * torch.randn(n, d, generator=stream, dtype=torch.float64)
    threshold = before[:, 0].sort(descending=True).values[active - 1 : active + 1].mean()
    return torch.cat([before[:, :1] - threshold, before[:, 1:]], 1)


def push(before: Tensor, dying: Any) -> float:
    """Return the slope of the loss with respect to the first feature's bias before ReLU; steps go against it."""
    before = before.requires_grad_()
    (gradient,) = torch.autograd.grad(feddecorr(before.relu(), dying=dying), before)
    return float(gradient[:, 0].sum())


@pytest.mark.parametrize("active", [2, 4, 8, 16])
def test_a_correlated_feature_after_relu_is_pushed_towards_its_death(active: int) -> None:
    """A step lowers its bias, so that it is active on fewer samples; less so if dying features are counted."""
    assert push(rarely_active(active), "ignored") > push(rarely_active(active), "counted")
    assert push(rarely_active(active), "ignored") > 0


def test_a_feature_that_is_counted_as_dying_is_pushed_back_to_life() -> None:
    """Active on four of 64 samples, it has died to three quarters; a step raises its bias."""
    before = rarely_active(4)
    assert 0.7 < fading(before.relu())[0] < 0.8
    assert push(before, "counted") < 0


def test_a_feature_with_one_active_sample_is_left_alone() -> None:
    """Neither its scale nor its mean means anything to the loss, and more it does not have: no gradient."""
    before = (1000 * rarely_active(1)).requires_grad_()  # the small number next to its variance is nothing
    (gradient,) = torch.autograd.grad(feddecorr(before.relu()), before)
    assert gradient[:, 0].abs().max() < 1e-6 * gradient[:, 1:].abs().max()


def test_fading_is_of_no_scale_and_counts_the_dead() -> None:
    """By hand: variances 1, 0.01 and 0 have the mean 0.3367, of which a hundredth is half dead."""
    z = torch.tensor([[1.0, 0.1, 5.0], [-1.0, -0.1, 5.0]], dtype=torch.float64)
    small = 0.01 * (1 + 0.01 + 0) / 3
    expected = torch.tensor([small / (1 + small), small / (0.01 + small), 1.0], dtype=torch.float64)
    torch.testing.assert_close(fading(z), expected)
    torch.testing.assert_close(fading(1000 * z), expected)
    assert fading(torch.ones(4, 3)).all()


@given(batches, st.integers(0, 8))
def test_the_death_of_a_feature_never_lowers_the_loss_that_counts_it(values: np.ndarray, place: int) -> None:
    """However correlated it was: its squared correlations become 1, by both scales of the loss."""
    z = torch.from_numpy(values)
    dead = z.clone()
    dead[:, place % z.shape[1]] = 7.0
    for name in ("paper", "released"):
        before, after = (feddecorr(each, name, dying="counted") for each in (z, dead))
        assert after >= before - 1e-3 * (1 + before)  # others fade a little less when the mean of variances falls


def test_a_dead_feature_counts_as_correlated_with_every_other() -> None:
    """Of d uncorrelated features, each dead one has 2 (d − 1) of d (d − 1) entries; where all are dead, all are 1."""
    signs = torch.tensor([[1, 1, 1, 1], [1, -1, 1, -1], [1, 1, -1, -1], [1, -1, -1, 1]], dtype=torch.float64)
    z = torch.cat([signs[:, 1:], torch.full((4, 1), 3.0)], 1)  # three orthogonal features and a dead one
    unit = (4 - 1) ** 2 / 4
    assert float(feddecorr(z, dying="counted")) == pytest.approx(unit * 2 / 4, rel=1e-3)
    assert float(feddecorr(torch.ones(4, 5), dying="counted")) == pytest.approx(unit)
    assert float(feddecorr(torch.ones(4, 5), "paper", dying="counted")) == pytest.approx(1.0)


def test_counting_the_dead_changes_next_to_nothing_where_none_fades() -> None:
    """Features of one variance have faded by a hundredth, whose square is next to nothing."""
    z = torch.nn.functional.normalize(random(32, 8) - random(32, 8).mean(0), dim=0)
    assert float(feddecorr(z, dying="counted")) == pytest.approx(float(feddecorr(z)), abs=0.01)
