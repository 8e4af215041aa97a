from dataclasses import replace

import pytest
import torch
from benchmarks.references import FILE, text
from torch import Tensor, nn

from feddecorr import Diagnosis, diagnose
from feddecorr.collapse.statistics import Batch
from feddecorr.collapse.verdict import VERDICTS, Recorded, looks_untrained, recorded


def classes_in(dimensions: int, *, classes: int = 20, spread: float = 0.3, width: int = 32) -> Diagnosis:
    """Return the diagnosis of classes whose means lie in some of the features, with noise in all of them."""
    stream = torch.Generator().manual_seed(0)
    means = torch.zeros(classes, width, dtype=torch.float64)
    means[:, :dimensions] = torch.randn(classes, dimensions, generator=stream, dtype=torch.float64)
    labels = torch.arange(50 * classes) % classes
    z = means[labels] + spread * torch.randn(len(labels), width, generator=stream, dtype=torch.float64)
    return Diagnosis.of_features("mine", [Batch(z, labels)])


def rank_of(values: Tensor) -> float:
    """Return exp of the entropy, written out."""
    shares = values / values.sum()
    return float((-(shares * shares.log())[shares > 0].sum()).exp())


@pytest.mark.parametrize("dimensions", [1, 4, 19])
def test_the_score_is_the_share_of_dimensions_that_class_means_leave_unused(dimensions: int) -> None:
    found = classes_in(dimensions, spread=1e-6)
    stream = torch.Generator().manual_seed(0)
    means = torch.randn(20, dimensions, generator=stream, dtype=torch.float64)
    expected = rank_of(torch.linalg.eigvalsh((means - means.mean(0)).T @ (means - means.mean(0))).clamp(min=0))
    assert found.class_mean_rank == pytest.approx(expected, rel=1e-5)
    assert found.collapse_score == pytest.approx(1 - expected / 19, rel=1e-5)


def test_the_score_does_not_depend_on_scale_or_rotation() -> None:
    stream = torch.Generator().manual_seed(0)
    z, labels = torch.randn(400, 8, generator=stream, dtype=torch.float64), torch.arange(400) % 10
    turned = 100 * z @ torch.linalg.qr(torch.randn(8, 8, generator=stream, dtype=torch.float64)).Q
    scores = [Diagnosis.of_features("mine", [Batch(each, labels)]).collapse_score for each in (z, turned)]
    assert scores[0] == pytest.approx(scores[1])


def test_a_simplex_has_the_score_zero_and_equal_representations_have_one() -> None:
    labels = torch.arange(60) % 6
    assert Diagnosis.of_features("a", [Batch(torch.eye(6)[labels], labels)]).collapse_score == pytest.approx(0)
    equal = Diagnosis.of_features("b", [Batch(torch.ones(60, 6), labels)])
    assert (equal.collapse_score, equal.verdict()) == (1, "total collapse")


def test_words_follow_what_classes_need() -> None:
    """A few dimensions are a collapse for twenty classes, and enough for three; tight classes are a good sign."""
    assert classes_in(2).verdict() == "collapsed"
    assert classes_in(2, classes=3).verdict() == "not collapsed"
    assert classes_in(19).verdict() == "not collapsed"
    assert classes_in(19, spread=0.05).verdict() == "neural collapse"
    assert "20 classes need no more than 19 dimensions" in " ".join(classes_in(2).answer())


def test_without_labels_another_model_tells() -> None:
    """And without both nothing does: then it is said what would."""
    found = replace(classes_in(4), classes=None, collapse_score=None, class_mean_rank=None, within_class_share=None)
    assert found.verdict() == "cannot tell"
    assert "--labels" in " ".join(found.answer())
    ranks = {"collapsed": 3.0, "narrower": 1.4, "not collapsed": 1.1}
    for word, factor in ranks.items():
        reference = replace(found, name="other", effective_rank=factor * found.effective_rank)
        assert found.verdict(reference) == word
        assert found.verdict(replace(reference, untrained=True)) == "cannot tell"


def test_narrower_than_a_model_of_its_kind_is_no_collapse_yet() -> None:
    found = classes_in(19)
    assert found.verdict(replace(found, name="other", effective_rank=1.5 * found.effective_rank)) == "narrower"


def network(norm: type[nn.Module] = nn.BatchNorm2d) -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(1, 16, 3), norm(16), nn.ReLU(), nn.Flatten(), nn.Linear(16 * 36, 10))


@pytest.mark.parametrize("norm", [nn.BatchNorm2d, nn.Identity])
def test_an_untrained_network_is_called_so_until_it_is_trained(norm: type[nn.Module]) -> None:
    stream = torch.Generator().manual_seed(0)
    x, y = torch.randn(256, 1, 8, 8, generator=stream), torch.arange(256) % 10
    before = torch.get_rng_state()
    for seed in range(3):
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            model = network(norm)
        assert diagnose(model, [(x, y)]).verdict() == "untrained"
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
        for _ in range(30):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()
        assert looks_untrained(model) is False
    assert torch.equal(torch.get_rng_state(), before)


def test_of_a_network_without_layers_nothing_is_known() -> None:
    assert looks_untrained(nn.Sequential(nn.ReLU())) is None


def test_the_table_of_recorded_runs_is_that_of_the_records() -> None:
    """If not, `make quotes` writes it anew."""
    assert FILE.read_text() == text()


def test_recorded_runs_are_compared_with_only_where_they_are_of_the_same_kind() -> None:
    assert recorded(128, 10) is recorded(110, 10) is not None
    assert recorded(1000, 10) is recorded(128, 11) is recorded(128, None) is None
    words = Recorded(128, 10, [1.0, 2.0, 3.0], [2.0, 3.0]).compare(2.5)
    assert "3 recorded runs" in words
    assert "2 had a lower effective rank; on homogeneous data it was 2 to 3" in words


def test_every_verdict_is_explained(request: pytest.FixtureRequest) -> None:
    page = (request.config.rootpath / "docs" / "diagnosis.md").read_text()
    assert all(f"| `{word}` |" in page for word in VERDICTS)
