from collections.abc import Iterable

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

import feddecorr
from feddecorr import Diagnosis, diagnose
from feddecorr.errors import UserError


def network() -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return nn.Sequential(nn.Linear(5, 12), nn.BatchNorm1d(12), nn.ReLU(), nn.Dropout(0.5), nn.Linear(12, 3))


def data(n: int = 90) -> tuple[Tensor, Tensor]:
    stream = torch.Generator().manual_seed(1)
    return torch.randn(n, 5, generator=stream), torch.randint(3, (n,), generator=stream)


def loader() -> Iterable[tuple[Tensor, Tensor]]:
    x, y = data()
    return list(zip(x.split(32), y.split(32), strict=True))


def test_a_diagnosis_is_of_what_the_classifier_takes_in() -> None:
    """In evaluation mode, over a plain DataLoader; every measure is an attribute."""
    model = network()
    x, y = data()
    found = diagnose(model, DataLoader(TensorDataset(x, y), batch_size=16))
    model.eval()
    with torch.no_grad():
        z, logits = model[:-1](x), model(x)  # type: ignore[index]  # it is a Sequential
    expected = np.linalg.svd(np.cov(z.double().numpy().T, bias=True), compute_uv=False)
    np.testing.assert_allclose(found.singular_values, expected, atol=1e-6)
    assert found.accuracy == pytest.approx(float((logits.argmax(1) == y).double().mean()))
    assert found.classifier_alignment is not None
    assert found.layer_singular_values is not None
    assert list(found.layer_singular_values) == ["0", "4"]


def test_the_model_is_the_same_after_as_before() -> None:
    """Weights, BatchNorm statistics, modes of single modules, hooks: nothing is changed."""
    model = network()
    model.get_submodule("1").eval()
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    diagnose(model, loader())
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())
    assert [module.training for module in model] == [True, False, True, True, True]  # type: ignore[attr-defined]  # it is a Sequential
    assert not any(module._forward_pre_hooks for module in model.modules())


def test_batches_may_be_bare_or_mappings() -> None:
    """The representations do not depend on how a loader wraps its inputs; without labels, classes are None."""

    class Named(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = network()

        def forward(self, *, values: Tensor) -> Tensor:
            logits: Tensor = self.inner(values)
            return logits

    x, y = data()
    bare, pair = diagnose(network(), [x]), diagnose(network(), [(x, y)])
    named = diagnose(Named(), [{"values": x, "labels": y}])
    assert bare.singular_values == pair.singular_values == named.singular_values
    assert bare.nc1_variability is bare.accuracy is None
    assert named.nc4_disagreement == pair.nc4_disagreement is not None


def test_another_layer_can_be_named_and_an_unknown_one_lists_all() -> None:
    """The message names every layer there is."""
    assert diagnose(network(), loader(), layer="0").dimensions == 5
    with pytest.raises(UserError, match="its layers: 0, 1, 2, 3, 4"):
        diagnose(network(), loader(), layer="nine")


def test_bad_batches_are_refused() -> None:
    """No batch, other things than tensors, labels of another length, diverged models."""
    x, y = data()
    with pytest.raises(UserError, match="no batch"):
        diagnose(network(), [])
    with pytest.raises(UserError, match="not str"):
        diagnose(network(), ["word"])
    with pytest.raises(UserError, match="90 samples need as many labels"):
        diagnose(network(), [(x, y[:80])])
    with pytest.raises(UserError, match="NaN or infinity"):
        diagnose(network(), [(x * float("nan"), y)])
    with pytest.raises(UserError, match="at least two"):
        diagnose(network(), [(x[:1], y[:1])])


def test_the_package_offers_it() -> None:
    """`feddecorr.diagnose` and `feddecorr.Diagnosis` are found without other imports."""
    assert isinstance(feddecorr.diagnose(network(), loader()), Diagnosis)
