"""A callback for Hugging Face's Trainer that says during evaluation whether the representations collapse."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

from torch import nn

from feddecorr.collapse.diagnosis import Diagnosis
from feddecorr.collapse.measures import classifier_weight
from feddecorr.collapse.monitor import LOGGED, ValidationDiagnosis
from feddecorr.collapse.representation import capture_representations, find_classifier

try:
    from transformers import Trainer, TrainerCallback, TrainerControl, TrainerState, TrainingArguments
except ImportError as error:
    raise ImportError("feddecorr.transformers needs Hugging Face's library: pip install transformers") from error


class CollapseCallback(TrainerCallback):
    """Logs effective rank, dead features and spectrum of every evaluation, and warns when they collapse.

    Add it to a Trainer, through whose `log` it reports: `trainer.add_callback(CollapseCallback(trainer))`. It looks
    at what the classifier, or the named layer, takes in during evaluation: there is no second forward pass. Measures
    are logged and returned by `evaluate` as `eval_effective_rank`, so that `metric_for_best_model` can name them, and
    so are the singular values of places 1, 2, 4, 8, …; `measures` names others of `feddecorr.Diagnosis`. Labels are
    those that the model is given by the name `labels`.

    `diagnosis` is the latest, to be printed or drawn. `close` takes the hooks off the model.
    """

    def __init__(self, trainer: Trainer, layer: str | None = None, *, measures: Sequence[str] = LOGGED) -> None:
        self.layer = layer
        self.diagnosis: Diagnosis | None = None
        self._trainer = trainer
        self._running = ValidationDiagnosis(measures)
        self._hooks = ExitStack()
        self._watch(trainer.model)

    def _watch(self, model: Any) -> None:
        self._hooks.close()
        self._model: nn.Module = model
        self._labels: Any = None
        self._seen = self._hooks.enter_context(capture_representations(model, self.layer, in_training=False))
        self._hooks.enter_context(model.register_forward_pre_hook(self._keep_labels, with_kwargs=True))

    def _keep_labels(self, model: nn.Module, inputs: tuple[Any, ...], named: dict[str, Any]) -> None:  # noqa: ARG002
        if not model.training:
            self._labels = named.get("labels", named.get("label"))

    def close(self) -> None:
        """Take the hooks off the model."""
        self._hooks.close()

    def on_train_begin(
        self,
        args: TrainingArguments,  # noqa: ARG002 - the Trainer's hooks
        state: TrainerState,  # noqa: ARG002
        control: TrainerControl,  # noqa: ARG002
        **named: Any,
    ) -> None:
        """Watch the trained model, which `model_init` may have recreated."""
        if named["model"] is not self._model:
            self._watch(named["model"])

    def on_prediction_step(
        self,
        args: TrainingArguments,  # noqa: ARG002
        state: TrainerState,  # noqa: ARG002
        control: TrainerControl,  # noqa: ARG002
        **named: Any,  # noqa: ARG002
    ) -> None:
        """Add a batch up."""
        self._running.see(self._seen, self._labels)
        self._labels = None

    def on_evaluate(
        self,
        args: TrainingArguments,  # noqa: ARG002
        state: TrainerState,
        control: TrainerControl,  # noqa: ARG002
        **named: Any,
    ) -> None:
        """Log what was found, and add it to what `evaluate` returns."""
        if numbers := self._tell(state, named["metrics"]):
            self._trainer.log(dict(numbers))  # which adds to what it is given
            named["metrics"].update(numbers)

    def on_predict(
        self,
        args: TrainingArguments,  # noqa: ARG002
        state: TrainerState,
        control: TrainerControl,  # noqa: ARG002
        metrics: Any,
        **named: Any,  # noqa: ARG002
    ) -> None:
        """Add what was found to what `predict` returns."""
        metrics.update(self._tell(state, metrics))

    def _tell(self, state: TrainerState, metrics: dict[str, float]) -> dict[str, float]:
        prefix = next((name.removesuffix("_runtime") for name in metrics if name.endswith("_runtime")), "eval")
        weight = classifier_weight(find_classifier(self._model, self.layer))
        found = self._running.diagnose(f"{prefix}, step {state.global_step}", weight)
        if found is None:
            return {}
        self.diagnosis = found
        return {f"{prefix}_{name}": value for name, value in self._running.numbers(found).items()}
