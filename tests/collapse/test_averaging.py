import json
import math

import pytest
import torch

from feddecorr.collapse.averaging import (
    AveragedRound,
    Averaging,
    Way,
    averaging_effect,
    geometric_mean,
    mean_by_layer,
    tail_of,
)
from feddecorr.collapse.measures import Measures, Principal, measure_spread
from feddecorr.collapse.spectrum import tail_share
from feddecorr.collapse.statistics import Moments


def spread(*variances: float) -> Measures:
    """Return the measures of representations with exactly these variances."""
    d = len(variances)
    z = torch.eye(d, dtype=torch.float64) * torch.tensor(variances, dtype=torch.float64).sqrt()
    return measure_spread(Principal(Moments.of(torch.cat([z, -z]))))


def reported(local: float, averaged: float, layers: dict[str, tuple[float, float]] | None = None) -> AveragedRound:
    found = Averaging(3, local, averaged, 0.2, 0.1)
    way = Way(4, [0.0, 1.0], [local, averaged], [0.5, None])
    return AveragedRound("a", found, averaged, {4: local}, {4: 0.2}, [way], layers or {})


def test_equal_models_lose_nothing_by_being_averaged() -> None:
    """Their mean is each of them, and the effect is zero."""
    model = spread(4, 2, 1, 1)
    found = Averaging.of([model, model], model, classes=3)
    assert found.local_effective_rank == pytest.approx(found.averaged_effective_rank)
    assert found.local_tail == found.averaged_tail == pytest.approx(2 / 8)
    assert averaging_effect([model.effective_rank] * 2, model.effective_rank) == pytest.approx(0, abs=1e-12)
    assert "averaging itself changes little" in " ".join(found.sentences())


def test_ranks_are_averaged_as_ratios() -> None:
    """By hand: 1 and 4 have the mean 2; halving it is a loss of log 2."""
    flat, line, plane = spread(1, 1, 1, 1), spread(1, 0, 0, 0), spread(1, 1, 0, 0)
    found = Averaging.of([flat, line], line, classes=2)
    assert found.local_effective_rank == pytest.approx(2)
    assert averaging_effect([4.0, 1.0], 1.0) == pytest.approx(-math.log(2))
    assert (found.local_tail, found.averaged_tail) == pytest.approx((3 / 8, 0))
    assert Averaging.of([line], plane, 2).local_effective_rank == pytest.approx(1)


def test_what_has_no_dimension_has_no_ratio() -> None:
    assert geometric_mean([0.0, 4.0]) == 0
    assert averaging_effect([0.0, 4.0], 1.0) is None
    assert averaging_effect([4.0], 0.0) is None
    assert averaging_effect([], 1.0) is None
    assert "adds all of them" in " ".join(reported(0.0, 2.0).answer())


@pytest.mark.parametrize(
    ("local", "averaged", "words"),
    [
        (10.0, 6.0, "averaging itself takes away 4.0 of them (40 %)"),
        (10.0, 12.0, "averaging adds 2.0 (20 %)"),
        (10.0, 9.8, "averaging itself changes little"),
    ],
)
def test_the_answer_is_said(local: float, averaged: float, words: str) -> None:
    assert words in " ".join(reported(local, averaged).answer())


def test_the_layer_that_loses_most_is_named() -> None:
    """By the part of its dimensions; layers that gain are not."""
    found = reported(10.0, 6.0, {"first": (20.0, 18.0), "second": (4.0, 2.0), "third": (3.0, 5.0)})
    assert "what 'second' takes in: 4.0 dimensions in local models, 2.0" in found.answer()[-1]
    assert "Layer by layer" not in " ".join(reported(10.0, 6.0, {"third": (3.0, 5.0)}).answer())


def test_tables_and_the_document_hold_it_all() -> None:
    found = reported(10.0, 6.0, {"first": (20.0, 18.0)})
    assert [row[0] for row in found.rows()] == ["client 4", "mean of the clients'", "their average"]
    assert all(len(row) == len(found.HEADINGS) for row in found.rows())
    assert all(len(row) == len(found.LAYER_HEADINGS) for row in found.layer_rows())
    document = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert document["averaging"]["local_effective_rank"] == 10
    assert document["ways"][0]["effective_ranks"] == [10, 6]


def test_layers_are_averaged_one_by_one() -> None:
    found = mean_by_layer([{"a": 1.0, "b": 2.0}, {"a": 4.0, "b": 2.0}], {"a": 3.0, "b": 1.0})
    assert list(found) == ["a", "b"]
    assert found["a"] == pytest.approx((2, 3))
    assert found["b"] == pytest.approx((2, 1))


def test_the_tail_is_what_lies_beyond() -> None:
    """All of it, some, none, and of no variance none."""
    values = torch.tensor([4.0, 3.0, 2.0, 1.0])
    assert [tail_share(values, count) for count in (0, 1, 4, 9)] == pytest.approx([1, 0.6, 0, 0])
    assert tail_share(torch.zeros(3), 1) == 0
    assert tail_of(spread(4, 3, 2, 1), classes=2) == pytest.approx(0.6)
