"""Betas of different scales, and the page that translates published ones."""

import re

import pytest
import torch
from command_line import CommandLine
from hypothesis import given
from hypothesis import strategies as st
from pages import ROOT

from feddecorr.errors import UserError
from feddecorr.loss.beta import OTHER_LOSSES, SCALES, LossScale, convert_beta
from feddecorr.loss.decorrelation import Normalization, feddecorr
from feddecorr.objective.regularizers import REGULARIZERS

PAGE = (ROOT / "docs" / "which-feddecorr.md").read_text()

scales = st.builds(LossScale, st.sampled_from(sorted(SCALES)), st.integers(3, 500), st.integers(2, 2000))


def slope(z: torch.Tensor, normalization: Normalization) -> torch.Tensor:
    z = z.clone().requires_grad_()
    (found,) = torch.autograd.grad(feddecorr(z, normalization), z)
    return found


@pytest.mark.parametrize(("n", "d"), [(64, 16), (5, 32), (3, 2)])
def test_translated_losses_have_the_same_gradient(n: int, d: int) -> None:
    z = torch.randn(n, d, dtype=torch.float64, generator=torch.Generator().manual_seed(n))
    beta = convert_beta(0.1, LossScale("released", n, d), LossScale("paper", n, d))
    torch.testing.assert_close(0.1 * slope(z, "released"), beta * slope(z, "paper"), rtol=1e-4, atol=1e-9)


@pytest.mark.parametrize("normalization", ["paper", "released"])
def test_between_batches_a_correlation_keeps_its_weight(normalization: Normalization) -> None:
    """The same samples, each of them several times, have the same correlations in a larger batch."""
    z = torch.randn(8, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    beta = convert_beta(0.1, LossScale(normalization, 8, 6), LossScale(normalization, 32, 6))
    small, large = slope(z, normalization), slope(z.repeat(4, 1), normalization)
    torch.testing.assert_close(0.1 * small, beta * large.unflatten(0, (4, 8)).sum(0), rtol=1e-4, atol=1e-9)


@given(beta=st.floats(0, 100), one=scales, other=scales)
def test_there_and_back_is_the_same(beta: float, one: LossScale, other: LossScale) -> None:
    assert convert_beta(convert_beta(beta, one, other), other, one) == pytest.approx(beta)


@pytest.mark.parametrize("loss", OTHER_LOSSES)
def test_other_losses_are_refused_with_the_reason(loss: str) -> None:
    with pytest.raises(UserError, match=f"'{loss}' cannot be translated: .*function|covariances"):
        LossScale(loss, 64, 512)


def test_every_regularizer_of_one_batch_is_either_a_scale_or_refused() -> None:
    """Those over pairs of samples or of variances have another weight by name and are reported as unknown."""
    known = {"feddecorr", "vicreg_variance", "uniformity", "supervised_contrastive", *OTHER_LOSSES}
    assert set(REGULARIZERS.table) <= known
    with pytest.raises(UserError, match="there is no scale 'realeased': did you mean 'released'"):
        LossScale("realeased", 64, 512)


def test_what_has_no_strength_is_refused() -> None:
    with pytest.raises(UserError, match="a batch of 2 cannot be translated"):
        LossScale("paper", 2, 512)
    with pytest.raises(UserError, match="at least 2 dimensions, not 1"):
        LossScale("paper", 64, 1)
    for beta in (-0.1, float("nan"), float("inf")):
        with pytest.raises(UserError, match="not negative"):
            convert_beta(beta, LossScale("paper", 64, 512), LossScale("released", 64, 512))


def test_the_command_prints_what_the_function_gives(feddecorr: CommandLine) -> None:
    words = ["convert-beta", "0.1", "--from", "released", "--to", "paper", "--batch", "64", "--dimensions", "512"]
    assert feddecorr(*words).out == "6.2137\n"
    document = feddecorr(*words, "--to-batch", "32", "--to-dimensions", "64", "--json").document
    assert document["to"] == {"normalization": "paper", "batch": 32, "dimensions": 64}
    assert document["beta"] == convert_beta(0.1, LossScale("released", 64, 512), LossScale("paper", 32, 64))
    refused = feddecorr(*words, "--to-batch", "0")
    assert (refused.code, refused.out) == (2, "")


def test_the_page_says_what_the_commands_print(feddecorr: CommandLine) -> None:
    commands = re.findall(r"^feddecorr (convert-beta .*)$", PAGE, re.MULTILINE)
    (said,) = re.findall(r"^prints (\S+) and (\S+)\. ", PAGE, re.MULTILINE)
    assert [feddecorr(*command.split()).out.strip() for command in commands] == list(said)


def test_the_table_of_published_betas_is_right() -> None:
    """Every row that can be translated is, to the digits that it shows."""
    row = r"^\| .* \| (paper|released) \| (\S+) \| (\d+) \| (\S+) \| (\S+) \|$"
    found = [(*map(float, numbers), scale) for scale, *numbers in re.findall(row, PAGE, re.MULTILINE)]
    assert found
    for beta, batch, released, share, scale in found:
        used = LossScale(scale, int(batch), 512)
        assert released == pytest.approx(convert_beta(beta, used, LossScale("released", int(batch), 512)), rel=0.02)
        assert share == pytest.approx(convert_beta(beta, used, LossScale("released", 64, 512)) / 0.1, rel=0.02)
    shares = [share for *_, share, _ in found]
    assert re.search(rf"a factor of about {max(shares) / min(shares):.1g}\.".replace("2e+02", "200"), PAGE)
