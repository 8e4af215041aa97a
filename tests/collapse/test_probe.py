import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits
from sklearn.linear_model import Ridge
from sklearn.neighbors import KNeighborsClassifier

import feddecorr
from feddecorr import UserError
from feddecorr.collapse import probe as home

X, Y = load_digits(return_X_y=True)
DATA = (X[:1200], Y[:1200], X[1200:], Y[1200:])


def test_both_probes_are_those_of_scikit_learn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where moments are merged from several parts."""
    monkeypatch.setattr(home, "CHUNK", 500)
    found = feddecorr.probe(*DATA)
    strength = 1e-3 * 1200 * X[:1200].var(0).mean()
    decided = Ridge(strength).fit(X[:1200], np.eye(10)[Y[:1200]]).predict(X[1200:]).argmax(1)
    assert found.linear == pytest.approx((decided == Y[1200:]).mean())
    near = KNeighborsClassifier(20, metric="cosine", weights=lambda distances: np.exp((1 - distances) / 0.07))
    assert found.knn == pytest.approx(near.fit(X[:1200], Y[:1200]).score(X[1200:], Y[1200:]), abs=1e-3)
    assert min(found) > 0.85


def test_scale_matters_not_and_labels_are_names() -> None:
    train_z, train_y, test_z, test_y = DATA
    assert feddecorr.probe(1e-3 * train_z, 7 - 3 * train_y, 1e-3 * test_z, 7 - 3 * test_y) == feddecorr.probe(*DATA)


def test_separate_classes_are_told_apart_and_collapsed_features_tell_the_most_frequent() -> None:
    y = torch.arange(40) % 4
    assert feddecorr.probe(torch.eye(4)[y], y, torch.eye(4)[y], y) == (1, 1)
    often = torch.tensor([0] * 30 + [1] * 10)
    assert feddecorr.probe(torch.ones(40, 3), often, torch.ones(40, 3), often).linear == 0.75


def test_what_does_not_fit_is_refused() -> None:
    z, y = torch.randn(6, 3), torch.arange(6) % 2
    with pytest.raises(UserError, match="training has 3 features, the test 2"):
        feddecorr.probe(z, y, z[:, :2], y)
    with pytest.raises(UserError, match="same label"):
        feddecorr.probe(z, 0 * y, z, y)
    with pytest.raises(UserError, match="above zero"):
        feddecorr.probe(z, y, z, y, ridge=0)
    with pytest.raises(UserError, match="samples to learn"):
        feddecorr.probe(z[:0], y[:0], z, y)
