import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.stats import spearmanr

from feddecorr.collapse import spectrum
from feddecorr.collapse.averaging import Blame, Suspect, rank_correlation, rank_within
from feddecorr.collapse.statistics import Statistics

SUSPECT = Suspect(
    client=0,
    examples=10,
    classes=2,
    effective_classes=1.5,
    sent=9.0,
    local=6.0,
    own_sent=4.0,
    own_local=3.5,
    without=7.0,
)


def blame(*suspects: Suspect, average: float = 6.5) -> Blame:
    return Blame.of("a", average, suspects)


def test_whose_training_took_the_most_is_first() -> None:
    """Equal ones in the order of their numbers."""
    others = [replace(SUSPECT, client=client, local=local) for client, local in ((3, 2.0), (2, 6.0), (1, 9.5))]
    found = blame(SUSPECT, *others)
    assert [each.client for each in found.suspects] == [3, 0, 2, 1]
    assert "Client 3 lost most in training: 7.0 of the 9.0 dimensions that it was sent" in found.answer()[1]
    assert "on its own classes, 4.0 became 3.5" in found.answer()[1]


def test_whose_removal_raises_the_rank_most_is_named() -> None:
    found = blame(SUSPECT, replace(SUSPECT, client=5, local=8.0, without=8.25))
    assert "without client 5 it would have 8.2, more than without any other" in " ".join(found.answer())
    assert [found.raised(each) for each in found.suspects] == [0.5, 1.75]
    kept = blame(replace(SUSPECT, without=6.0))
    assert "more than without any one client" in " ".join(kept.answer())
    alone = blame(replace(SUSPECT, without=None))
    assert "without" not in " ".join(alone.answer())


def test_nobody_is_blamed_for_nothing() -> None:
    assert "No client's training took dimensions" in " ".join(blame(replace(SUSPECT, local=9.0)).answer())


def test_what_goes_together_is_said() -> None:
    """The fewer classes, the more is lost; sizes that are all equal say nothing."""
    some = [replace(SUSPECT, client=k, effective_classes=float(k + 1), local=float(k)) for k in range(6)]
    said = " ".join(blame(*some).answer())
    assert "The fewer classes a client holds, the more dimensions its training takes (rank correlation -1.00)." in said
    assert "examples a client holds" not in said
    assert blame(*some).correlations()["lost", "examples"] is None
    assert blame(*some[:4]).correlations()["lost", "effective_classes"] is None  # too few


def test_the_table_and_the_document_hold_it_all() -> None:
    found = blame(SUSPECT, replace(SUSPECT, client=1, own_sent=None, own_local=None, without=None))
    assert all(len(row) == len(found.HEADINGS) for row in found.rows())
    assert found.rows()[1][-5:] == ["–"] * 5
    document = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert document["clients"][0] == {**document["clients"][0], "lost": 3.0, "own_lost": 0.5, "raised": 0.5}
    assert document["correlations"]["lost_by_examples"] is None


@pytest.mark.parametrize("ties", [False, True])
def test_rank_correlation_is_spearmans(ties: bool) -> None:
    """Against SciPy, with and without equal numbers."""
    stream = np.random.default_rng(0)
    x, y = stream.normal(size=30), stream.normal(size=30)
    if ties:
        x, y = x.round(), y.round()
    assert rank_correlation(x.tolist(), y.tolist()) == pytest.approx(spearmanr(x, y).statistic)
    assert rank_correlation([None, *x[1:].tolist()], y.tolist()) is None


def test_the_rank_on_some_classes_is_that_of_their_samples() -> None:
    """By the samples themselves, in parts and as a whole; classes without samples add nothing."""
    stream = torch.Generator().manual_seed(0)
    z, labels = torch.randn(60, 7, generator=stream).double(), torch.arange(60) % 4
    z[labels == 1] *= torch.linspace(0, 3, 7)
    kept = z[(labels == 1) | (labels == 3)]
    expected = spectrum.effective_rank(spectrum.singular_values(torch.cov(kept.T, correction=0)))
    parts = Statistics.of(z[:25], labels[:25]) + Statistics.of(z[25:], labels[25:])
    for statistics in (Statistics.of(z, labels), parts):
        assert rank_within(statistics, [1, 3, 8]) == pytest.approx(expected)
    assert rank_within(Statistics.of(z), [1]) is None
    assert rank_within(parts, [8]) is None
