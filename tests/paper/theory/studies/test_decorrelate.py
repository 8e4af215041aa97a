import numpy as np

from feddecorr.paper.theory.studies.decorrelate import study_decorrelate
from feddecorr.paper.theory_settings import Decorrelate

SMALL = {"dim": 8, "classes": 4, "samples": 60, "time": 5.0, "points": 5}


def test_small_singular_values_grow_with_the_term_only() -> None:
    """Those that the classifier doesn't see rest without the term and grow with it; Lemma 2 holds in both."""
    flows = study_decorrelate(Decorrelate(beta=2.0, **SMALL)).document["flows"]
    unseen = slice(4, None)
    without, with_term = (np.array(flows[name]["singular_values"]["end"]) for name in ("without", "with"))
    np.testing.assert_allclose(without[unseen], 0.25, atol=1e-10)
    assert (with_term[unseen] > 0.27).all()
    assert flows["with"]["effective_rank"]["product"] > flows["without"]["effective_rank"]["product"] + 0.5
    assert max(found["lemma2_error"] for found in flows.values()) < 1e-6


def test_a_weight_of_zero_is_no_term() -> None:
    """Both flows are the same."""
    flows = study_decorrelate(Decorrelate(beta=0.0, **SMALL)).document["flows"]
    np.testing.assert_allclose(
        flows["with"]["singular_values"]["end"], flows["without"]["singular_values"]["end"], rtol=1e-9
    )
