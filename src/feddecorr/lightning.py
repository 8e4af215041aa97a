"""A callback for Lightning that says during validation whether the representations collapse."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from feddecorr.collapse.diagnosis import Diagnosis
from feddecorr.collapse.measures import classifier_weight
from feddecorr.collapse.monitor import LOGGED, ValidationDiagnosis
from feddecorr.collapse.representation import capture_representations, find_classifier

if TYPE_CHECKING:
    from pytorch_lightning import Callback, LightningModule, Trainer
else:
    try:
        from pytorch_lightning import Callback, LightningModule, Trainer
    except ImportError:
        try:  # the same under its other name
            from lightning.pytorch import Callback, LightningModule, Trainer
        except ImportError as error:
            raise ImportError("feddecorr.lightning needs Lightning: pip install pytorch-lightning") from error


class CollapseMonitor(Callback):
    """Logs effective rank, dead features and spectrum of every validation, and warns when they collapse.

    It captures the input of the classifier, or of the named layer, during `validation_step`: there is no second forward
    pass. Of each batch the last pass counts. Measures are logged as `collapse/effective_rank`, so that other callbacks
    can monitor them, and so are the singular values of places 1, 2, 4, 8, …; `measures` names others of
    `feddecorr.Diagnosis`. Labels are found as `feddecorr.diagnose` finds them.

    `diagnosis` is the latest, to be printed or drawn; `diagnoses` has one for each validation set.
    """

    def __init__(self, layer: str | None = None, *, measures: Sequence[str] = LOGGED) -> None:
        self.layer = layer
        self.diagnoses: dict[int, Diagnosis] = {}
        self._measures = measures
        self._running: dict[int, ValidationDiagnosis] = {0: ValidationDiagnosis(measures)}
        self._hooks = ExitStack()

    @property
    def diagnosis(self) -> Diagnosis | None:
        """The latest diagnosis, of the first validation set."""
        return self.diagnoses.get(0)

    def on_fit_start(self, trainer: Trainer, pl_module: LightningModule) -> None:  # noqa: ARG002 - Lightning's hooks
        """Refuse a layer that is not there before anything is trained."""
        find_classifier(pl_module, self.layer)

    def on_validation_start(self, trainer: Trainer, pl_module: LightningModule) -> None:  # noqa: ARG002
        """Begin to look."""
        self._seen = self._hooks.enter_context(capture_representations(pl_module, self.layer))

    def on_validation_batch_end(
        self,
        trainer: Trainer,  # noqa: ARG002
        pl_module: LightningModule,  # noqa: ARG002
        outputs: Any,  # noqa: ARG002
        batch: Any,
        batch_idx: int,  # noqa: ARG002
        dataloader_idx: int = 0,
    ) -> None:
        """Add a batch up."""
        running = self._running.setdefault(dataloader_idx, ValidationDiagnosis(self._measures))
        running.see(self._seen, _labels_of(batch))

    def on_validation_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Log what was found; not of Lightning's few batches before the training."""
        if trainer.sanity_checking:
            self._running = {0: ValidationDiagnosis(self._measures)}
            return
        weight = classifier_weight(find_classifier(pl_module, self.layer))
        for index, running in self._running.items():
            place = f"/dataloader_idx_{index}" * (len(self._running) > 1)
            found = running.diagnose(f"validation{place}, step {trainer.global_step}", weight)
            if found is not None:
                self.diagnoses[index] = found
                numbers = {f"collapse/{name}{place}": value for name, value in running.numbers(found).items()}
                pl_module.log_dict(numbers, batch_size=1, sync_dist=True, add_dataloader_idx=False)

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:  # noqa: ARG002
        """Leave the model as it was."""
        self._hooks.close()

    def on_exception(self, trainer: Trainer, pl_module: LightningModule, exception: BaseException) -> None:  # noqa: ARG002
        """Leave the model as it was."""
        self._hooks.close()


def _labels_of(batch: Any) -> Any:
    """Return what may be the labels; None of batches of another form."""
    if isinstance(batch, Mapping):
        return batch.get("labels", batch.get("label"))
    return batch[1] if isinstance(batch, Sequence) and len(batch) > 1 else None
