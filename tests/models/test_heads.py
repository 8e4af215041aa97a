"""Heads: every network with every way from its vectors to logits."""

from __future__ import annotations

from pathlib import Path
from typing import Any, get_args

import pytest
import torch
from small import digest, result, small
from torch import Tensor, nn
from torch.nn.functional import cosine_similarity, cross_entropy

from feddecorr.collapse.representation import capture_representations, find_classifier
from feddecorr.core.randomness import seeded
from feddecorr.errors import UserError
from feddecorr.methods import METHODS
from feddecorr.models import MODELS
from feddecorr.models.heads import CLASSIFIERS, Head, LayerNormLinear, NormalizedLinear, SimplexLinear, simplex
from feddecorr.runs.diagnosis import Wanted, examine
from feddecorr.runs.directory import RunDirectory
from feddecorr.runs.pipeline import run

HEADS: tuple[Head, ...] = get_args(Head)
OTHERS = [head for head in HEADS if head != "linear"]
NETWORKS = [name for name, kind in MODELS.table.items() if kind.argument is None and name != "custom"]
SHAPE = (3, 8, 8)

every_head = pytest.mark.parametrize("head", HEADS)
every_network = pytest.mark.parametrize("name", NETWORKS)


def build(name: str, classes: int = 5, **options: Any) -> nn.Module:
    with seeded(0, "test"):
        return MODELS.parse({"name": name, **options}).build(SHAPE, classes)


def random(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(1))


def test_every_head_that_can_be_asked_for_can_be_built() -> None:
    assert set(CLASSIFIERS) == set(HEADS)


@every_head
@every_network
def test_the_representation_is_what_the_classifier_takes_in(name: str, head: str) -> None:
    """For every network with every head, and of the width that it has without one."""
    model = build(name, head=head)
    with capture_representations(model) as seen:
        logits = model(random(4, *SHAPE))
    assert seen.z.shape[1] == find_classifier(build(name)).in_features
    assert torch.equal(find_classifier(model)(seen.z), logits)


@every_head
@every_network
def test_features_do_not_know_the_head(name: str, head: str) -> None:
    """Their first weights are those of the same network with a linear head, to the last bit."""
    plain, other = (build(name, head=each).get_submodule("features").state_dict() for each in ("linear", head))
    assert digest(plain) == digest(other)


@every_head
@pytest.mark.parametrize("projection", [None, 16])
def test_every_parameter_is_trained(head: str, projection: int | None) -> None:
    model = build("convnet", head=head, projection=projection)
    loss = cross_entropy(model(random(6, *SHAPE)), torch.arange(6) % 5)
    trained = [each for name, each in model.named_parameters() if (head, name) != ("prototypes", "classifier.weight")]
    gradients = torch.autograd.grad(loss, trained)
    assert all(gradient.isfinite().all() and gradient.any() for gradient in gradients)


@every_head
def test_a_projection_head_stands_before_the_classifier(head: str) -> None:
    """With any head, the representation is the projected one."""
    model = build("convnet", head=head, projection=16)
    with capture_representations(model) as seen:
        model(random(2, *SHAPE))
    assert seen.z.shape == (2, 16)
    assert isinstance(model.get_submodule("projection"), nn.Sequential)


def test_normalized_logits_by_hand() -> None:
    """(3, 4) becomes (0.6, 0.8), of which the rows make 0.6 and 1.6, and a temperature of 0.5 twice that."""
    layer = NormalizedLinear(2, 2, 0.5)
    layer.weight.data = torch.tensor([[1.0, 0.0], [0.0, 2.0]])
    torch.testing.assert_close(layer(torch.tensor([[3.0, 4.0]])), torch.tensor([[1.2, 3.2]]))


@pytest.mark.parametrize("layer", [NormalizedLinear(6, 3, 0.1), SimplexLinear(6, 3, 0.1)], ids=["normalized", "etf"])
def test_the_length_of_a_representation_means_nothing(layer: nn.Module) -> None:
    z = random(5, 6)
    torch.testing.assert_close(layer(z * torch.tensor([[0.1], [1.0], [7.0], [100.0], [1e4]])), layer(z))


def test_layer_norm_is_that_of_pytorch() -> None:
    """Before a linear layer with the same weights; a constant added to all features means nothing."""
    layer = LayerNormLinear(6, 3)
    plain = nn.Linear(6, 3)
    plain.load_state_dict(layer.state_dict())
    z = random(5, 6)
    expected = plain(nn.LayerNorm(6, elementwise_affine=False)(z))
    torch.testing.assert_close(layer(z), expected)
    torch.testing.assert_close(layer(z + 3), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("head", OTHERS)
def test_a_representation_of_zeros_has_a_finite_gradient(head: Head) -> None:
    """As of a sample that no feature answers to."""
    z = torch.zeros(2, 6, requires_grad=True)
    (gradient,) = torch.autograd.grad(cross_entropy(CLASSIFIERS[head](6, 3, 0.1)(z), torch.tensor([0, 1])), z)
    assert gradient.isfinite().all()


@pytest.mark.parametrize(("width", "classes"), [(512, 10), (64, 64), (9, 10), (1, 2), (2, 2), (100, 3)])
def test_a_simplex_is_one(width: int, classes: int) -> None:
    """Rows have length 1 and pairwise the cosine −1/(C−1), also in the fewest dimensions that can hold it."""
    rows = simplex(width, classes).double()
    expected = (classes * torch.eye(classes) - 1).double() / (classes - 1)
    torch.testing.assert_close(rows @ rows.T, expected, rtol=0, atol=1e-6)
    torch.testing.assert_close(rows.sum(0), torch.zeros(width).double(), rtol=0, atol=1e-5)


def test_a_simplex_is_turned_by_the_seed() -> None:
    """The same seed gives the same, another seed another."""
    first, again, other = (
        digest(dict(build_seeded(seed).get_submodule("classifier").named_buffers())) for seed in (0, 0, 1)
    )
    assert first == again != other


def build_seeded(seed: int) -> nn.Module:
    with seeded(seed, "model"):
        return MODELS.parse({"name": "mlp", "head": "etf"}).build(SHAPE, 5)


def test_too_many_classes_for_a_simplex_are_refused() -> None:
    """With what would be right."""
    with pytest.raises(UserError, match=r"9 classes have no simplex in 7 dimensions: it takes from 2 to 8"):
        build("mlp", classes=9, widths=[7], head="etf")
    assert build("mlp", classes=9, widths=[7], head="etf", projection=8)(random(2, *SHAPE)).shape == (2, 9)


def test_simplex_logits_are_scaled_cosines() -> None:
    """The scale begins at one over the temperature, and is learned."""
    layer = SimplexLinear(6, 3, 0.25)
    z = random(5, 6)
    expected = 4 * cosine_similarity(z[:, None], layer.weight[None], dim=2)
    torch.testing.assert_close(layer(z), expected)
    assert dict(layer.named_parameters()).keys() == {"scale"}


OF_A_SIMPLEX = [name for name, kind in METHODS.table.items() if kind.requires.get("model.head", "etf") == "etf"]


@pytest.mark.parametrize("method", OF_A_SIMPLEX)
def test_nothing_moves_a_simplex(method: str) -> None:
    """Whatever the method does at clients and server, the classifier stays as it began, to the last bit."""
    experiment, options = small(f"method={method}", "model.head=etf", "regularizers=feddecorr", "participation=0.75")
    *_, last = run(experiment, options)
    with seeded(experiment.seed, "model"):
        start = experiment.model.build((1, 8, 8), 4).state_dict()
    assert torch.equal(last.state["classifier.weight"], start["classifier.weight"])
    moved = not torch.equal(last.state["classifier.scale"], start["classifier.scale"])
    assert moved == (experiment.method.trains(1) == "network")


@pytest.mark.parametrize("head", OTHERS)
def test_every_engine_trains_every_head(head: str) -> None:
    """To the same bits."""
    words = [f"model.head={head}", "regularizers=feddecorr", "rounds=2"]
    alone, pooled = (result(run(*small(*words, engine))) for engine in ("engine=serial", "engine=pool"))
    assert alone == pooled


@pytest.mark.parametrize("head", OTHERS)
def test_every_head_is_diagnosed(tmp_path: Path, head: str) -> None:
    """With what needs the classifier's rows, and as the run recorded it."""
    *_, last = run(*small(f"model.head={head}", "rounds=1"), tmp_path / "run")
    (found,) = examine(RunDirectory.open(tmp_path / "run"), Wanted(), "a", lambda _text: None).diagnoses
    assert found.singular_values == pytest.approx(last.singular_values)
    assert found.nc3_duality_gap is not None
    assert found.classifier_alignment is not None


def test_a_temperature_is_for_heads_that_have_one() -> None:
    """Elsewhere it would do nothing, and is refused."""
    for head in ("linear", "layer_norm"):
        with pytest.raises(
            UserError, match=f"the head '{head}' has no temperature: normalized, etf, prototypes have one"
        ):
            small(f"model.head={head}", "model.temperature=0.5")
    assert small("model.head=etf", "model.temperature=0.5").experiment.model.temperature == 0.5


def test_half_precision_is_not_that_of_lengths() -> None:
    """Under bf16, long vectors are still scaled to length 1, and logits are float32."""
    (full,), (half,) = (
        run(*small("model.head=normalized", "rounds=1", f"training.precision={precision}"))
        for precision in ("fp32", "bf16")
    )
    assert full.loss == pytest.approx(half.loss, rel=0.1)
