"""When features die, there is one warning."""

import warnings

import pytest
import torch
from torch import Tensor

from feddecorr.loss.module import EVERY, DyingFeatures, DyingWatch, FedDecorrLoss, dead_share


def batch(dead: int, n: int = 16, d: int = 20) -> Tensor:
    """Return a batch in which some features are constant."""
    z = torch.randn(n, d, generator=torch.Generator().manual_seed(dead))
    z[:, :dead] = 0.5
    return z


def train(loss: FedDecorrLoss, *dead: int, n: int = 16) -> None:
    """Give the loss as many batches as it lets pass between two looks, of each of these kinds."""
    for count in dead:
        for _ in range(EVERY):
            loss(batch(count, n))


def test_the_share_of_dead_features_is_counted() -> None:
    assert dead_share(batch(5)) == 0.25
    assert dead_share(torch.zeros(3, 4)) == 1.0


def test_a_rise_above_the_start_is_reported_once_with_the_option() -> None:
    loss = FedDecorrLoss()
    train(loss, 2)
    with pytest.warns(
        DyingFeatures, match=r'60 % .* \(10 % at the start\).*FedDecorrLoss\(dying="counted"\)'
    ) as reported:
        train(loss, 12, 12, 16, 16)
    assert len(reported) == 1


@pytest.mark.parametrize("shares", [[0.5, 0.5, 0.5], [0.1, 0.15, 0.19], [0.0, 0.9, 0.0, 0.9, 0.0], [0.8, 0.2, 0.3]])
def test_what_was_dead_before_or_is_so_by_chance_is_no_reason_to_warn(shares: list[float]) -> None:
    watch = DyingWatch("…")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for share in shares:
            watch.see(share)


def test_the_start_is_found_out_only_where_it_is_needed() -> None:
    """To find it out takes a look at the first weights; shares below what counts ask for none."""
    asked = []
    watch = DyingWatch("…", lambda: asked.append(True) or 0.4)  # type: ignore[func-returns-value]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for share in (0.0, 0.05, 0.09):
            watch.see(share)
        assert not asked
        for share in (0.2, 0.45, 0.49):
            watch.see(share)
    assert asked == [True]
    watch.see(0.6)
    with pytest.warns(DyingFeatures, match=r"60 % .* \(40 % at the start\)"):
        watch.see(0.6)


def test_nobody_is_warned_of_small_batches_nor_out_of_training_nor_where_it_is_seen_to() -> None:
    """In a few samples much is constant, and nothing dies of it."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        loss = FedDecorrLoss()
        train(loss, 2)
        train(loss, 12, 12, n=4)
        train(loss.eval(), 12, 12)
        train(FedDecorrLoss(dying="counted"), 2, 12, 12)


def test_looking_changes_nothing() -> None:
    """The loss of every batch has the same bits, whether it is looked at or not."""
    loss = FedDecorrLoss()
    assert all(torch.equal(loss(batch(3)), loss.eval()(batch(3))) for _ in range(3))
