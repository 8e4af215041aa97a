from functools import partial

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits
from sklearn.linear_model import Ridge
from sklearn.neighbors import KNeighborsClassifier

import feddecorr
from feddecorr import UserError
from feddecorr.collapse import probe as home
from feddecorr.collapse.probe import Probed
from feddecorr.collapse.statistics import chunks

X, Y = load_digits(return_X_y=True)
DATA = (X[:1200], Y[:1200], X[1200:], Y[1200:])


def test_both_probes_are_those_of_scikit_learn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where moments are merged from several parts."""
    monkeypatch.setattr(home, "chunks", partial(chunks, size=500))
    monkeypatch.setattr(home, "COSINES", 1 << 16)
    found = feddecorr.probe(*DATA)
    strength = 1e-3 * 1200 * X[:1200].var(0).mean()
    decided = Ridge(strength).fit(X[:1200], np.eye(10)[Y[:1200]]).predict(X[1200:]).argmax(1)
    assert found.linear == pytest.approx((decided == Y[1200:]).mean())
    near = KNeighborsClassifier(20, metric="cosine", weights=lambda distances: np.exp((1 - distances) / 0.07))
    assert found.knn == pytest.approx(near.fit(X[:1200], Y[:1200]).score(X[1200:], Y[1200:]), abs=1e-3)
    assert min(found.linear, found.knn or 0) > 0.85


def test_scale_matters_not_and_labels_are_names() -> None:
    train_z, train_y, test_z, test_y = DATA
    assert feddecorr.probe(1e-3 * train_z, 7 - 3 * train_y, 1e-3 * test_z, 7 - 3 * test_y) == feddecorr.probe(*DATA)


def test_separate_classes_are_distinguished_and_collapsed_features_tell_the_most_frequent() -> None:
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
    with pytest.raises(UserError, match="same label, or none"):
        feddecorr.probe(feddecorr.Statistics.of(z), None, z, y)
    with pytest.raises(UserError, match="give None"):
        feddecorr.probe(feddecorr.Statistics.of(z, y), y, z, y)
    with pytest.raises(UserError, match="training samples need labels"):
        feddecorr.probe(z, None, z, y)
    with pytest.raises(UserError, match="above zero"):
        feddecorr.probe(z, y, z, y, ridge=0)
    with pytest.raises(UserError, match="samples to learn"):
        feddecorr.probe(z[:0], y[:0], z, y)


def test_what_clients_gathered_gives_the_probe_of_all_their_samples() -> None:
    """Each holds two classes, and sends counts, means and covariances."""
    z, y = torch.tensor(DATA[0]), torch.tensor(DATA[1])
    held = [(y // 2 == client).nonzero()[:, 0] for client in range(5)]
    sent = [feddecorr.Statistics.of(z[mine], y[mine]).sealed() for mine in held]
    merged = sum(sent[1:], sent[0])
    assert feddecorr.probe(merged, None, *DATA[2:]) == (feddecorr.probe(*DATA).linear, None)


def features(names: str) -> tuple[feddecorr.Batch, torch.Tensor]:
    """Return labels as features, or noise, or rings that no line separates."""
    stream = torch.Generator().manual_seed(0)
    y = torch.arange(200) % 4
    noise = torch.randn(200, 3, generator=stream)
    angle = 6.28 * torch.rand(200, generator=stream)
    waves = torch.stack([(4 * angle + y * 1.57).cos(), (4 * angle + y * 1.57).sin(), angle.cos(), angle.sin()], 1)
    found = {"good": torch.eye(4)[y] + 0.01, "noise": noise, "waves": waves}
    return feddecorr.Batch(found[names], y), y


@pytest.mark.parametrize(
    ("names", "decided", "words"),
    [
        ("good", "right", "Nothing is bad"),
        ("good", "wrong", "The head is bad"),
        ("noise", "wrong", "The features are bad"),
        ("waves", "right", "The classes lie apart, but not linearly"),
    ],
)
def test_words_tell_bad_features_from_a_bad_head(names: str, decided: str, words: str) -> None:
    batch, y = features(names)
    train = feddecorr.Batch(batch.z[:100], y[:100])
    test = feddecorr.Batch(batch.z[100:], y[100:], y[100:] if decided == "right" else 0 * y[100:])
    found = Probed.of("it", train, test)
    assert any(each.startswith(words) for each in found.answer()), found.answer()
    assert found.chance == 0.25
    assert found.own == (1 if decided == "right" else 0.25)
