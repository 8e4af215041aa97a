from functools import reduce
from operator import add

import pytest
import torch
from torch import Tensor, nn

from feddecorr import diagnose
from feddecorr.core.evidence import Evidence
from feddecorr.errors import UserError

Part = tuple[Tensor, Tensor]


@pytest.fixture
def model() -> nn.Module:
    """Return a network with twelve features; in double precision, so that only the merging rounds."""
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(20, 12), nn.ReLU(), nn.Linear(12, 4)).double()


@pytest.fixture
def parts() -> list[Part]:
    """Return what four holders have, each of its own kind and size."""
    torch.manual_seed(1)
    return [(torch.randn(n, 20).double() + shift, torch.randint(4, (n,))) for shift, n in enumerate([3, 50, 1, 20])]


def test_what_parts_tell_together_is_what_the_whole_tells(model: nn.Module, parts: list[Part]) -> None:
    """Every measure of the spectrum, and the accuracy; no holder saw another's samples."""
    merged = reduce(add, (Evidence.of(model, [part]) for part in parts)).diagnosis()
    whole = diagnose(model, [tuple(map(torch.cat, zip(*parts, strict=True)))])
    assert merged.accuracy == whole.accuracy
    assert merged.samples == whole.samples == 74
    for name, value in merged.recorded().items():
        assert getattr(whole, name) == pytest.approx(value, rel=1e-9, abs=1e-12), name
    assert merged.singular_values == pytest.approx(whole.singular_values, rel=1e-9, abs=1e-12)


def test_bytes_keep_every_bit(model: nn.Module, parts: list[Part]) -> None:
    sent = Evidence.of(model, [parts[1]])
    got = Evidence.from_bytes(sent.to_bytes())
    assert (got.right, got.moments.count) == (sent.right, 50)
    assert torch.equal(got.moments.mean, sent.moments.mean)
    assert torch.equal(got.moments.scatter, sent.moments.scatter)
    unlabelled = Evidence.of(model, [parts[1][0]])
    assert Evidence.from_bytes(unlabelled.to_bytes()).right is None
    assert (sent + unlabelled).right is None


def test_it_has_the_size_of_a_covariance_however_many_samples_there_are(model: nn.Module) -> None:
    sizes = {len(Evidence.of(model, [torch.randn(n, 20).double()]).to_bytes()) for n in (5, 500)}
    assert len(sizes) == 1


WRONG = {
    "a name is missing": lambda state: state.pop("mean"),
    "another type": lambda state: state.update(mean=state["mean"].float()),
    "shapes that do not fit": lambda state: state.update(mean=state["mean"][:3].clone()),
    "no samples": lambda state: state["counts"].fill_(0),
    "more right decisions than samples": lambda state: state["counts"][1].fill_(51),
    "NaN": lambda state: state["scatter"].fill_(torch.nan),
    "a mean that cannot be squared": lambda state: state["mean"].fill_(1e200),
    "a negative variance": lambda state: state["scatter"].fill_diagonal_(-1),
    "no symmetry": lambda state: state["scatter"][0, 1].add_(1),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_no_samples_have_is_refused(model: nn.Module, parts: list[Part], name: str) -> None:
    state = Evidence.of(model, [parts[1]]).to_state()
    WRONG[name](state)
    with pytest.raises(UserError):
        Evidence.from_state(state)


def test_other_bytes_and_other_features_are_refused(model: nn.Module, parts: list[Part]) -> None:
    with pytest.raises(UserError, match="no evidence that can be read"):
        Evidence.from_bytes(b"anything")
    other = Evidence.of(nn.Sequential(nn.Linear(20, 5), nn.Linear(5, 4)).double(), [parts[0]])
    with pytest.raises(UserError, match="12 features cannot be merged with 5"):
        Evidence.of(model, [parts[0]]) + other
    with pytest.raises(UserError, match="no samples"):
        Evidence.of(model, [])
