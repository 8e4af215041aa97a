"""The callbacks of Lightning and of Hugging Face's Trainer, in the real trainers."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pytest
import pytorch_lightning as lightning
import torch
from metric_processes import SIZES, constant_first, samples, validate
from pytorch_lightning.loggers import CSVLogger
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, TensorDataset
from transformers import Trainer, TrainingArguments
from two_processes import in_two_processes

import feddecorr
from feddecorr.collapse.monitor import CollapseWarning
from feddecorr.lightning import CollapseMonitor
from feddecorr.transformers import CollapseCallback

pytestmark = pytest.mark.filterwarnings(  # Lightning warns of its own calls, of few workers, …
    "ignore::FutureWarning", "ignore::UserWarning", "error::feddecorr.collapse.monitor.CollapseWarning"
)

SAMPLES = 60


def data(collapsed: bool = False) -> TensorDataset:
    stream = torch.Generator().manual_seed(0)
    x = torch.randn(SAMPLES, 6, generator=stream)
    return TensorDataset(x[:, :1].expand(-1, 6).clone() if collapsed else x, torch.arange(SAMPLES) % 4)


class Network(nn.Module):
    """Counts its forward passes."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.body, self.head = nn.Linear(6, 5), nn.Linear(5, 4)
        self.passes = 0

    def forward(self, x: Tensor, labels: Tensor | None = None) -> Any:
        self.passes += 1
        logits = self.head(self.body(x))
        return logits if labels is None else {"loss": cross_entropy(logits, labels), "logits": logits}


class Module(lightning.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.network = Network()

    def training_step(self, batch: Any) -> Tensor:
        return cross_entropy(self.network(batch[0]), batch[1])

    def validation_step(self, batch: Any, _index: int, dataloader_idx: int = 0) -> None:  # noqa: ARG002
        self.network(batch[0])

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=1e-2)


def expected(network: Network, found: feddecorr.Diagnosis, samples: TensorDataset) -> None:
    """Hold what the callback found to a diagnosis of its own pass."""
    whole = feddecorr.diagnose(network, DataLoader(samples, 16))
    for name in ("samples", "effective_rank", "dead_features", "nc1_variability", "nc3_duality_gap"):
        assert getattr(found, name) == pytest.approx(getattr(whole, name)), name
    assert found.singular_values == pytest.approx(whole.singular_values)


@pytest.fixture
def trainer(tmp_path: Path) -> lightning.Trainer:
    return lightning.Trainer(
        max_epochs=2, accelerator="cpu", logger=CSVLogger(tmp_path), callbacks=[CollapseMonitor()],
        enable_progress_bar=False, enable_model_summary=False, enable_checkpointing=False, log_every_n_steps=1,
    )  # fmt: skip


def monitor(trainer: lightning.Trainer) -> CollapseMonitor:
    return next(each for each in trainer.callbacks if isinstance(each, CollapseMonitor))  # type: ignore[attr-defined]


def test_lightning_logs_what_a_diagnosis_finds_with_no_further_pass(trainer: lightning.Trainer) -> None:
    module, samples = Module(), data()
    trainer.fit(module, DataLoader(samples, 20), DataLoader(samples, 16))
    assert module.network.passes == 2 + 2 * (3 + 4)  # two of the sanity check, then epochs
    found = monitor(trainer).diagnosis
    assert found is not None
    expected(module.network, found, samples)
    logged = {name: float(value) for name, value in trainer.callback_metrics.items()}
    assert logged["collapse/effective_rank"] == pytest.approx(found.effective_rank)
    assert logged["collapse/singular_value_4"] == pytest.approx(found.singular_values[3])
    assert isinstance(trainer.logger, CSVLogger)
    rows = csv.DictReader(Path(trainer.logger.log_dir, "metrics.csv").read_text(encoding="utf-8").splitlines())
    assert [row["collapse/dead_features"] for row in rows] == ["0.0", "0.0"]  # of each epoch
    assert not any(layer._forward_pre_hooks for layer in module.modules())


def test_lightning_keeps_validation_sets_apart(trainer: lightning.Trainer) -> None:
    module, (one, other) = Module(), (data(), data(collapsed=True))
    with pytest.warns(CollapseWarning, match=r"validation/dataloader_idx_1, step 0: in effect 1\.0 of 5 possible"):
        trainer.validate(module, [DataLoader(one, 20), DataLoader(other, 20)], verbose=False)
    first, second = monitor(trainer).diagnoses.values()
    expected(module.network, first, one)
    assert second.effective_rank == pytest.approx(1)
    assert "collapse/effective_rank/dataloader_idx_1" in trainer.callback_metrics


def test_lightning_refuses_a_layer_that_is_not_there_before_it_trains(trainer: lightning.Trainer) -> None:
    monitor(trainer).layer = "network.haed"
    with pytest.raises(feddecorr.UserError, match=r"did you mean 'network\.head'"):
        trainer.fit(Module(), DataLoader(data(), 20))


def hugging_face(folder: Path, network: nn.Module, samples: TensorDataset, **options: Any) -> Trainer:
    def collate(examples: list[tuple[Tensor, Tensor]]) -> dict[str, Tensor]:
        x, labels = zip(*examples, strict=True)
        return {"x": torch.stack(x), "labels": torch.stack(labels)}

    arguments = TrainingArguments(
        output_dir=str(folder), num_train_epochs=2, eval_strategy="epoch", per_device_eval_batch_size=16, use_cpu=True,
        save_strategy="no", report_to="none", disable_tqdm=True, remove_unused_columns=False, learning_rate=1e-2,
        dataloader_pin_memory=False,
    )  # fmt: skip
    return Trainer(network, arguments, train_dataset=samples, eval_dataset=samples, data_collator=collate, **options)


def test_transformers_logs_what_a_diagnosis_finds_with_no_further_pass(tmp_path: Path) -> None:
    network, samples = Network(), data()
    trainer = hugging_face(tmp_path, network, samples)
    callback = CollapseCallback(trainer)
    trainer.add_callback(callback)
    trainer.train()
    assert network.passes == 2 * (8 + 4)
    assert callback.diagnosis is not None
    expected(network, callback.diagnosis, samples)
    logged = [line for line in trainer.state.log_history if "eval_effective_rank" in line]
    assert [line["epoch"] for line in logged] == [1, 2]
    assert logged[-1]["eval_singular_value_4"] == pytest.approx(callback.diagnosis.singular_values[3])
    again = trainer.evaluate()
    assert again["eval_dead_features"] == 0
    predicted = trainer.predict(samples).metrics or {}
    assert predicted["test_effective_rank"] == pytest.approx(again["eval_effective_rank"])
    callback.close()
    assert not any(layer._forward_pre_hooks for layer in network.modules())


def test_transformers_follows_a_model_that_is_made_anew(tmp_path: Path) -> None:
    trainer = hugging_face(tmp_path, None, data(), model_init=Network)  # type: ignore[arg-type]
    callback = CollapseCallback(trainer, "body", measures=["stable_rank"])
    trainer.add_callback(callback)
    trainer.train()
    assert callback.diagnosis is not None
    assert trainer.evaluate()["eval_stable_rank"] == pytest.approx(float(feddecorr.stable_rank(data().tensors[0])))


def test_a_collapse_is_warned_of_once(tmp_path: Path) -> None:
    trainer = hugging_face(tmp_path, Network(), data(collapsed=True))
    trainer.add_callback(CollapseCallback(trainer))
    with pytest.warns(CollapseWarning, match="eval, step 8: in effect 1.0 of 5 possible dimensions") as warned:
        trainer.train()
    assert len([each for each in warned if each.category is CollapseWarning]) == 1


def test_a_training_that_diverges_goes_on_with_a_warning(tmp_path: Path) -> None:
    network, samples = Network(), data()
    nn.init.constant_(network.body.weight, torch.nan)
    trainer = hugging_face(tmp_path, network, samples)
    trainer.add_callback(CollapseCallback(trainer))
    with pytest.warns(CollapseWarning, match="no diagnosis: .* the model has diverged"):
        assert "eval_effective_rank" not in trainer.evaluate()


def test_measures_that_are_no_numbers_are_refused() -> None:
    with pytest.raises(feddecorr.UserError, match="no measure 'efective_rank': did you mean 'effective_rank'"):
        CollapseMonitor(measures=["efective_rank"])
    with pytest.raises(feddecorr.UserError, match="no measure 'singular_values'"):
        CollapseMonitor(measures=["singular_values"])


def test_two_processes_find_what_one_finds(tmp_path: Path) -> None:
    in_two_processes(validate, tmp_path)
    z, y = samples()
    whole = feddecorr.Diagnosis.of_features("z", [feddecorr.Batch(constant_first(z), y)])
    for rank in range(len(SIZES)):
        found = torch.load(tmp_path / f"{rank}.pt", weights_only=True)
        assert found["dead_features"] == whole.dead_features == 1
        for name, value in found.items():
            assert value == pytest.approx(getattr(whole, name)), name
