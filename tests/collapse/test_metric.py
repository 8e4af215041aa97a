import importlib
import sys
from pathlib import Path
from types import ModuleType
from typing import Any, cast

import pytest
import pytorch_lightning as lightning
import torch
from metric_processes import SIZES, measure, samples
from torch.utils.data import DataLoader, TensorDataset
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


def test_a_call_returns_what_the_batch_alone_gives(home: ModuleType) -> None:
    """And the batch counts with all others, before and after it."""
    metric, alone = home.CollapseMetric(5, 3), home.CollapseMetric(5, 3)
    alone.update(Z[20:40], Y[20:40])
    metric.update(Z[:20], Y[:20])
    torch.testing.assert_close(metric(Z[20:40], Y[20:40]), alone.compute())
    metric.update(Z[40:], Y[40:])
    torch.testing.assert_close(metric.compute(), of_all(home.CollapseMetric(5, 3)))


def test_what_is_refused_counts_for_nothing(home: ModuleType) -> None:
    metric = home.CollapseMetric(5, 3)
    for call in (metric.update, metric):
        for wrong in ((Z[:9] * torch.nan, Y[:9]), (Z[:9],), (Z[:9], Y[:9] + 1), (Z[:9], Y[:8])):
            with pytest.raises(UserError):
                call(*wrong)
    torch.testing.assert_close(of_all(metric), of_all(home.CollapseMetric(5, 3)))


def test_its_memory_depends_on_features_and_classes_alone(home: ModuleType) -> None:
    metric = home.CollapseMetric(5, 3)
    for _ in range(3):
        assert sum(each.numel() for each in metric.state_dict().values()) == 5**2 + 4 * 5 + 2 * 3 + 1
        of_all(metric)


def test_arrays_and_half_precision_are_features(home: ModuleType) -> None:
    metric = home.CollapseMetric(5, 3, measures="effective_rank")
    metric.update(Z[:40].numpy()[::-1], Y[:40].numpy().astype("uint8")[::-1])
    metric.update(Z[40:].bfloat16(), Y[40:])
    expected = feddecorr.effective_rank(torch.cat([Z[:40], Z[40:].bfloat16().float()]))
    torch.testing.assert_close(metric.compute(), expected)


def test_it_works_in_a_collection_that_shares_states() -> None:
    one: Any = installed.CollapseMetric(5, measures="effective_rank")
    other: Any = installed.CollapseMetric(5, measures=["rankme", "effective_rank"])
    collection = MetricCollection({"one": one, "other": other})
    batch = collection(Z[:30])
    collection.update(Z[30:])
    assert float(batch["rankme"]) == pytest.approx(float(feddecorr.rankme(Z[:30])))
    found = collection.compute()
    assert float(found["one"]) == pytest.approx(float(feddecorr.effective_rank(Z)))
    assert float(found["rankme"]) == pytest.approx(float(feddecorr.rankme(Z)))


class Module(lightning.LightningModule):
    """Logs a metric of its own, and those of a collection."""

    def __init__(self) -> None:
        super().__init__()
        self.rank: Any = installed.CollapseMetric(5, measures="effective_rank")
        self.others = MetricCollection(
            {name: cast("Any", installed.CollapseMetric(5, 3, measures=name)) for name in ("rankme", "nc1_variability")}
        )

    def validation_step(self, batch: Any, _index: int) -> None:
        self.rank(batch[0])
        self.others.update(*batch)
        self.log("rank", self.rank)
        self.log_dict(self.others)


@pytest.mark.filterwarnings("ignore")
def test_lightning_logs_it_and_keeps_it_in_checkpoints(tmp_path: Path) -> None:
    """Each validation counts for itself; sums of one that was interrupted are in the checkpoint."""
    module, loader = Module(), DataLoader(TensorDataset(Z, Y), 30)
    trainer = lightning.Trainer(accelerator="cpu", logger=False, enable_progress_bar=False, default_root_dir=tmp_path)
    for _ in range(2):
        (logged,) = trainer.validate(module, loader, verbose=False)
        assert logged["rank"] == pytest.approx(float(feddecorr.effective_rank(Z)))
        assert logged["rankme"] == pytest.approx(float(feddecorr.rankme(Z)))
        assert logged["nc1_variability"] == pytest.approx(float(feddecorr.neural_collapse(Z, Y)["nc1_variability"]))
    module.rank.update(Z[:30])
    trainer.save_checkpoint(tmp_path / "it.ckpt")
    again = Module.load_from_checkpoint(tmp_path / "it.ckpt", weights_only=True)
    again.rank.update(Z[30:])
    assert float(again.rank.compute()) == pytest.approx(float(feddecorr.effective_rank(Z)))


def test_two_processes_equal_one(tmp_path: Path) -> None:
    """With torchmetrics and without; a call returns what each process has by itself."""
    in_two_processes(measure, tmp_path)
    expected = of_all(installed.CollapseMetric(5, 3))
    for rank, mine in enumerate(zip(Z.split(SIZES), Y.split(SIZES), strict=True)):
        alone: Any = installed.CollapseMetric(5, 3)
        alone.update(*mine)
        found = torch.load(tmp_path / f"{rank}.pt", weights_only=True)
        torch.testing.assert_close(found, 2 * [alone.compute(), expected])
