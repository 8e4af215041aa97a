import math

from small import small

from feddecorr.studies.costs import kind
from feddecorr.studies.probing import measure


def test_a_measurement_knows_every_kind_whose_data_are_there() -> None:
    """Also those whose network and objective were never measured together."""
    varied = ["", "method=moon", "model=mlp", "model=mlp method=moon regularizers=feddecorr", "data=npz:nowhere.npz"]
    experiments = [small(*words.split()) for words in varied]
    found = measure(experiments, seconds=0.5)
    assert found.keys() == {kind(experiment) for experiment in experiments[:-1]}
    assert all(cost.image > 0 and cost.evaluation >= 0 and math.isfinite(cost.image) for cost in found.values())


def test_it_tells_how_far_it_is() -> None:
    """Of one network, and of one objective beside FedAvg."""
    told: list[tuple[int, int]] = []
    measure([small(), small("method=moon")], 0.1, lambda done, total: told.append((done, total)))
    assert told == [(0, 2), (1, 2)]


def test_without_data_nothing_is_known() -> None:
    assert measure([small("data=npz:nowhere.npz")], seconds=0.1) == {}
