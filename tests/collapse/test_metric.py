import importlib
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from metric_processes import SIZES, measure, samples
from torchmetrics import Metric, MetricCollection
from two_processes import in_two_processes

import feddecorr
from feddecorr import UserError
from feddecorr.collapse import metric as installed

Z, Y = samples()


@pytest.fixture(params=["torchmetrics", "plain"])
def home(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Return the module as it is with torchmetrics, and as it is without."""
    if request.param == "torchmetrics":
        assert issubclass(installed.CollapseMetric, Metric)
        return installed
    monkeypatch.setitem(sys.modules, "torchmetrics", None)
    spec = importlib.util.spec_from_file_location("metric_alone", installed.__file__)
    assert spec is not None
    assert spec.loader is not None
    alone = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(alone)
    assert not issubclass(alone.CollapseMetric, Metric)
    return alone


def of_all(metric: Any) -> dict[str, torch.Tensor]:
    metric.update(Z[:30], Y[:30])
    metric.update(Z[30:], Y[30:])
    found: dict[str, torch.Tensor] = metric.compute()
    return found


def test_batches_add_up_to_the_measures_of_all_samples(home: ModuleType) -> None:
    found = of_all(home.CollapseMetric(5, 3))
    whole = feddecorr.Diagnosis.of_features("z", [feddecorr.Batch(Z, Y)])
    assert {name: float(value) for name, value in found.items()} == pytest.approx(
        {name: getattr(whole, name) for name in found}
    )
    torch.testing.assert_close(found["effective_rank"], feddecorr.effective_rank(Z))


def test_it_begins_anew_and_moves_through_checkpoints(home: ModuleType) -> None:
    one, other = home.CollapseMetric(5, 3), home.CollapseMetric(5, 3)
    expected = of_all(one)
    one.update(Z[:7] * 3, Y[:7])
    one.reset()
    one.update(Z[:30], Y[:30])
    other.load_state_dict(one.state_dict())
    other.update(Z[30:], Y[30:])
    torch.testing.assert_close(other.compute(), expected)


def test_a_cast_of_the_model_around_it_costs_no_digits(home: ModuleType) -> None:
    metric = home.CollapseMetric(5, 3)
    expected = of_all(metric)
    torch.nn.Sequential(metric).half()
    assert metric.products.dtype == torch.float64
    torch.testing.assert_close(metric.compute(), expected)


def test_features_that_never_vary_change_nothing(home: ModuleType) -> None:
    """Though sums know a constant only up to rounding."""
    metric = home.CollapseMetric(6, measures=["effective_rank", "mean_squared_correlation", "numerical_rank"])
    metric.update(torch.cat([Z, torch.full((80, 1), 0.1)], 1))
    assert metric.compute()["effective_rank"] == pytest.approx(float(feddecorr.effective_rank(Z)))
    assert metric.compute()["numerical_rank"] == 5


def test_of_one_sample_nothing_can_be_told(home: ModuleType) -> None:
    metric = home.CollapseMetric(5)
    metric.update(Z[:1])
    assert torch.isnan(torch.stack(list(metric.compute().values()))).all()


def test_what_does_not_fit_is_refused(home: ModuleType) -> None:
    with pytest.raises(UserError, match="did you mean 'effective_rank'"):
        home.CollapseMetric(5, measures=["efective_rank"])
    with pytest.raises(UserError, match="features=4, but there are 5"):
        home.CollapseMetric(4).update(Z)
    with pytest.raises(UserError, match="needs labels"):
        home.CollapseMetric(5, 3).update(Z)
    with pytest.raises(UserError, match="from 0 to 1, not from 0 to 2"):
        home.CollapseMetric(5, 2).update(Z, Y)


def test_it_works_in_a_collection_and_batch_by_batch() -> None:
    """`forward` returns the batch's own measures."""
    metric: Any = installed.CollapseMetric(5, measures=["effective_rank", "rankme"])
    collection = MetricCollection({"collapse": metric})
    batch = collection(Z[:30])
    collection.update(Z[30:])
    assert float(batch["effective_rank"]) == pytest.approx(float(feddecorr.effective_rank(Z[:30])))
    assert float(collection.compute()["rankme"]) == pytest.approx(float(feddecorr.rankme(Z)))


def test_two_processes_equal_one(tmp_path: Path) -> None:
    """With torchmetrics and without."""
    in_two_processes(measure, tmp_path)
    expected = of_all(installed.CollapseMetric(5, 3))
    for rank in range(len(SIZES)):
        found = torch.load(tmp_path / f"{rank}.pt", weights_only=True)
        torch.testing.assert_close(found, [expected, expected])
