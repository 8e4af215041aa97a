from feddecorr.paper.theory.studies.class_sweep import study_sweep
from feddecorr.paper.theory_settings import ClassSweep


def test_ranks_fall_together_from_all_classes_to_one() -> None:
    """With every class that is taken away, G, the product and the representations lose rank; one class leaves one."""
    steps = study_sweep(ClassSweep(dim=6, classes=4, samples=80)).document["steps"]
    assert [step["frequent"] for step in steps] == [4, 3, 2, 1]
    assert steps[-1]["class_sizes"] == [80, 0, 0, 0]
    for key in ("gradient", "product", "covariance"):
        ranks = [step["effective_rank"][key] for step in steps]
        assert ranks == sorted(ranks, reverse=True)
        assert ranks[-1] < 0.7 * ranks[0]
    assert steps[0]["grown"] == 3
    assert steps[-1]["grown"] == 1
