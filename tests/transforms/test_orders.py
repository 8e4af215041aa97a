"""Which transforms go with which, in which order: an order that breaks what one of them promises is refused by name."""

from __future__ import annotations

from itertools import permutations

import pytest
from small import small

from feddecorr.errors import UserError
from feddecorr.transforms import TRANSFORMS

ROBUST = ("median", "trimmed_mean", "geometric_median", "krum")
FEW = ("clients=9", "data.train=200", "transforms.krum.hostile=1", "transforms.attack.clients=1")

REFUSED = {
    **{(rule, "private"): f"under {rule} one client changes the others' updates" for rule in ROBUST},
    **{("private", other): "after private there is only one noisy sum" for other in TRANSFORMS.table},
    **{(other, "locally_private"): "put locally_private first" for other in TRANSFORMS.table},
    ("locally_private", "private"): "adds noise twice",
    ("private", "locally_private"): "after private there is only one noisy sum",
}


def words(*names: str) -> list[str]:
    options = [word for word in FEW if not word.startswith("transforms.") or word.split(".")[1] in names]
    return [f"transforms={','.join(names)}", *options]


@pytest.mark.parametrize("pair", list(permutations(TRANSFORMS.table, 2)), ids=",".join)
def test_every_pair_is_taken_or_refused_with_a_reason(pair: tuple[str, str]) -> None:
    if pair not in REFUSED:
        assert list(small(*words(*pair)).experiment.transforms) == list(pair)
        return
    with pytest.raises(UserError, match=REFUSED[pair]):
        small(*words(*pair))


def test_what_stands_between_does_not_hide_it() -> None:
    with pytest.raises(UserError, match="transforms=median,private breaks the privacy guarantee"):
        small(*words("attack", "median", "clip", "private"))
    assert list(small(*words("attack", "clip", "private")).experiment.transforms) == ["attack", "clip", "private"]


@pytest.mark.parametrize("name", ROBUST)
def test_what_needs_clients_in_every_round_is_refused_with_a_draw_that_may_have_none(name: str) -> None:
    with pytest.raises(UserError, match=f"transforms={name} needs clients in every round: say sampling=fixed"):
        small(*words(name), "sampling=poisson")
