import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_up import over_seeds, summary
from scipy import stats

from feddecorr.errors import UserError
from feddecorr.results.pairing import compare_runs
from feddecorr.results.sample import Sample
from feddecorr.results.summary import smooth

PAIRS = st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=3, max_size=12)


@given(PAIRS)
def test_paired_statistics_are_those_of_a_paired_t_test(pairs: list[tuple[float, float]]) -> None:
    """The interval is scipy's, and excludes zero just where its test rejects at five percent."""
    first, second = ([pair[place] for pair in pairs] for place in (0, 1))
    differences = [b - a for a, b in pairs]
    if max(differences) - min(differences) < 1e-3:
        return
    found = Sample(dict(enumerate(second))).minus(Sample(dict(enumerate(first))))
    test = stats.ttest_rel(second, first)
    interval = test.confidence_interval(0.95)
    assert (found.low, found.high) == pytest.approx((interval.low, interval.high), abs=1e-6)
    assert found.wins == sum(b > a for a, b in pairs)
    if abs(test.pvalue - 0.05) > 1e-6:
        assert (found.low > 0 or found.high < 0) == (test.pvalue < 0.05)


def test_runs_are_paired_by_seed_and_compared_by_every_statistic() -> None:
    """Accuracy that climbs: the last round, the mean of the last ten and the best tell different stories."""
    climbing = [0.1] * 8 + [0.1 * number for number in range(1, 9)] + [0.9, 0.9, 0.9, 0.6]
    long = "rounds=20 training.schedule=cosine training.schedule.over=20"
    runs = [
        *over_seeds(f"{long} regularizers=none", [0.5, 0.6, 0.7]),
        *(summary(f"{long} regularizers=feddecorr seed={seed}", accuracy=climbing) for seed in (2, 1, 0)),
    ]
    (found,) = compare_runs(runs, by=["method"], pair="regularizers")
    assert (found.first, found.seeds) == ("none", (0, 1, 2))
    assert found.labels["method"] == "fedavg"
    assert found.names == ("FedAvg", "FedAvg + FedDecorr")
    means = {name: paired.mean for name, paired in found.statistics.items()}
    smoothed = smooth(list(enumerate(climbing, start=1)))[-1][1]
    wanted = {"last": 0.0, "last_ten": 0.66 - 0.6, "best": 0.3, "transient": 1.4 / 11 - 0.6, "smoothed": smoothed - 0.6}
    assert means == pytest.approx(wanted)
    assert found.statistics["best"].wins == 3


def test_what_differs_in_anything_else_is_never_pooled() -> None:
    """Another alpha is another comparison, which is kept apart without being asked for, in the order of alpha."""
    runs = [
        run
        for alpha in (0.5, "inf", 0.1)
        for words in ("none", "feddecorr")
        for run in over_seeds(f"partition.alpha={alpha} regularizers={words}", [0.5, 0.5])
    ]
    found = compare_runs(runs, by=["method"], pair="regularizers")
    assert [comparison.labels["partition.alpha"] for comparison in found] == [0.1, 0.5, "inf"]
    assert [comparison.words for comparison in found] == [{"α": "0.1"}, {"α": "0.5"}, {"α": "∞"}]


def test_a_run_that_is_not_finished_is_not_compared() -> None:
    """Its last rounds would be earlier ones."""
    whole, *_ = over_seeds("regularizers=none", [0.5])
    cut = summary("regularizers=feddecorr seed=0", accuracy=[0.5] * 5)
    assert compare_runs([whole, cut], by=[], pair="regularizers") == []


def test_who_computed_and_what_else_was_looked_at_does_not_matter() -> None:
    """Engine and local evaluation change no number that is compared."""
    without = summary("engine=pool regularizers=none")
    beside = summary("evaluation.clients=true regularizers=feddecorr")
    assert len(compare_runs([without, beside], by=[], pair="regularizers")) == 1


def test_a_comparison_is_json_also_of_one_seed() -> None:
    """Ends that are not known are null."""
    (found,) = compare_runs(
        [*over_seeds("regularizers=none", [0.5]), *over_seeds("regularizers=feddecorr", [0.6])],
        by=[],
        pair="regularizers",
    )
    document = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert document["statistics"]["last"]["low"] is None
    assert document["statistics"]["last"]["mean"] == pytest.approx(0.1)


def test_a_setting_that_no_run_has_is_refused() -> None:
    """By its name."""
    with pytest.raises(UserError, match="no run has a setting"):
        compare_runs(over_seeds("", [0.5]), by=["partition.beta"], pair="regularizers")
