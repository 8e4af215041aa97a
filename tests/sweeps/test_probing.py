import math

import pytest
from small import small

from feddecorr.config.experiment import Experiment
from feddecorr.runs.pipeline import Records, run
from feddecorr.sweeps.costs import kind
from feddecorr.sweeps.probing import measure


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


def test_rounds_that_are_not_evaluated_are_measured_however_many_of_the_last_ones_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The difference between rounds without and with an evaluation is what an evaluation costs."""
    seen: list[Experiment] = []

    def watched(experiment: Experiment) -> Records:
        seen.append(experiment)
        return run(experiment)

    monkeypatch.setattr("feddecorr.sweeps.probing.run", watched)
    measure([small("evaluation.final=10", "rounds=20")], seconds=0.1)
    assert {experiment.evaluation.final for experiment in seen} == {1}
