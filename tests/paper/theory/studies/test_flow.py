import pytest

from feddecorr.paper.theory.studies.flow import study_flow
from feddecorr.paper.theory_settings import Flow

SMALL = {"dim": 6, "classes": 4, "samples": 40, "points": 5}


@pytest.mark.parametrize("start", ["aligned", "turned"])
def test_the_theorem_holds_for_balanced_and_imbalanced_classes(start: str) -> None:
    """Both flows agree with the theorem to 1e-6, by the chain rule and by differences."""
    document = study_flow(Flow(start=start, **SMALL)).document
    assert document["largest_relative_error"] < 1e-6
    assert set(document["flows"]) == {"balanced", "imbalanced"}
    assert document["flows"]["imbalanced"]["class_sizes"] == [19, 19, 1, 1]
    for found in document["flows"].values():
        assert max(found["errors"]["theorem"], found["errors"]["theorem_by_differences"]) < 1e-6
        assert found["drift_of_constants"] < 1e-10


def test_rare_classes_grow_fewer_singular_values() -> None:
    """Of as many samples, imbalanced classes make fewer singular values grow."""
    flows = study_flow(Flow(dim=8, classes=6, samples=120, points=3, imbalance=0.0)).document["flows"]
    assert flows["balanced"]["grown"] == 5
    assert flows["imbalanced"]["grown"] == 3


def test_a_random_start_reports_its_error_with_its_alignment() -> None:
    """The theorem's error is large where the alignment is poor, while Lemma 2 holds as ever."""
    document = study_flow(Flow(start="random", **SMALL)).document
    assert document["largest_relative_error"] > 0.1
    for found in document["flows"].values():
        assert found["alignment"]["start"] < 0.9
        assert found["errors"]["lemma2"] < 1e-6
        assert found["errors"]["lemma2_by_differences"] < 1e-6


def test_without_noise_the_printed_G_is_right() -> None:
    """Where the inputs of a class are the same, the theorem holds with G as printed; with noise it doesn't."""
    with_noise, without = (study_flow(Flow(noise=noise, **SMALL)).document["flows"] for noise in (0.5, 0.0))
    for name in ("balanced", "imbalanced"):
        assert without[name]["errors"]["theorem_as_printed"] < 1e-6
        assert with_noise[name]["errors"]["theorem_as_printed"] > 0.1
