"""Users' own studies."""

import pytest
from made_up import results

from feddecorr.errors import UserError
from feddecorr.paper.figures import per_round
from feddecorr.paper.grid import Grid, settings_of
from feddecorr.paper.scales import SMOKE
from feddecorr.paper.tables import accuracy, gains
from feddecorr.results.study import Labels, Table


def rates_that_make_sense(labels: Labels) -> bool:
    """Leave out the large rate without FedDecorr."""
    return labels["training.lr"] != 0.1 or labels["regularizer"] == "feddecorr"


RATES = Grid(
    name="rates",
    shows="learning rates",
    place="mine",
    axes={"data": ("digits",), "training.lr": (0.01, 0.1), "regularizer": ("none", "feddecorr"), "alpha": (0.1,)},
    makes=(accuracy(), gains(), per_round("accuracy", panels=("training.lr",), what="accuracy")),
    settings="training.batch=8",
    wants=rates_that_make_sense,
)


def test_any_setting_can_be_a_label() -> None:
    """Its name is its key, and combinations that make no sense are left out."""
    arms = RATES.arms("smoke", 2)
    assert len(arms) == 3 * 2
    assert {arm.experiment.training.lr for arm in arms} == {0.01, 0.1}
    assert all(arm.experiment.training.batch == 8 for arm in arms)
    tables = [finding for finding in RATES.findings(results(arms), "smoke") if isinstance(finding, Table)]
    assert [len(table.rows) for table in tables] == [3, 1]


def test_a_scale_may_replace_the_values_of_an_axis() -> None:
    """For every study that it names, unless it says otherwise for this one; a user's own study keeps its values."""
    assert SMOKE.values("cifar10", "alpha", (0.1,)) == SMOKE.grids["*"]["alpha"]
    assert SMOKE.values("clients", "alpha", (0.1,)) == (0.05,)
    assert SMOKE.values("clients", "training.lr", (0.1,)) == (0.1,)
    assert SMOKE.values("rates", "alpha", (0.1,)) == (0.1,)


def test_without_the_term_the_scale_of_the_loss_means_nothing() -> None:
    """Beta zero is FedAvg, in either."""
    labels: list[Labels] = [{"normalization": name, "beta": 0} for name in ("released", "paper")]
    one, other = (settings_of(SMOKE, each) for each in labels)
    assert one == other == settings_of(SMOKE, {"regularizer": "none"})


def test_a_label_that_no_setting_has_is_refused() -> None:
    """With the nearest right one."""
    with pytest.raises(UserError, match="did you mean 'momentum'"):
        settings_of(SMOKE, {"training.momentun": 0.5})
