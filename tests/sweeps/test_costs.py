import pytest
from small import SETTINGS, small

from feddecorr.sweeps.costs import Cost, Costs, kind

TRAIN, TEST = SETTINGS["data"]["train"], SETTINGS["data"]["test"]


def of_round(*words: str, cost: Cost | None = None) -> float:
    experiment = small(*words)
    found = Costs({kind(experiment): cost} if cost else {}).of_round(experiment)
    assert found is not None
    return found


def test_a_round_costs_its_images() -> None:
    """Each as often as there are epochs, and a third of it in an evaluation; two epochs are the small settings."""
    assert of_round() == pytest.approx(2 * TRAIN + TEST / 3)
    assert of_round("training.epochs=4", "participation=0.5", "evaluation.every=3") == pytest.approx(
        4 * TRAIN / 2 + TEST / 9
    )
    assert of_round("training.steps=3", "clients=8", "participation=0.5") == pytest.approx(4 * 3 * 15 + TEST / 3)
    assert of_round("evaluation.clients=true", "evaluation.every=1") == pytest.approx(2 * TRAIN + 5 * TEST / 3)
    assert of_round("evaluation.clients=true", "rounds=6") == pytest.approx(2 * TRAIN + 5 * TEST / 3 / 3)  # auto
    assert of_round("evaluation.clients=last", "evaluation.every=3", "evaluation.final=2", "rounds=6") == pytest.approx(
        2 * TRAIN + (3 + 4) * TEST / 3 / 6
    )
    assert of_round(cost=Cost(0.5, 7.0)) == pytest.approx((2 * TRAIN + TEST / 3) * 0.5 + 7.0)


def test_kinds_that_were_not_measured_count_as_the_mean_of_those_that_were() -> None:
    costs = Costs({"a": Cost(1.0, 0.0), "b": Cost(3.0, 0.0)})
    assert costs.of_round(small()) == pytest.approx(2 * of_round())


def test_data_that_are_not_there_have_no_cost() -> None:
    assert Costs({}).of_round(small("data=npz:nowhere.npz")) is None


@pytest.mark.parametrize(
    ("words", "same"),
    [
        ("regularizers=none data.noise=9", True),
        ("seed=5 rounds=9 training.lr=1 training.steps=7 clients=3 partition.alpha=9 data.train=50", True),
        ("method=moon", False),
        ("regularizers=feddecorr", False),
        ("model.widths=[4]", False),
        ("training.batch=8", False),
        ("data.size=16", False),
    ],
)
def test_runs_are_of_a_kind_if_an_image_costs_them_the_same(words: str, same: bool) -> None:
    assert (kind(small(*words.split())) == kind(small())) is same
