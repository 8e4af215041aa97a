"""FedDecorr in Hugging Face's Trainer, and a callback that tells whether its representations collapse.

Run it:  python examples/hugging_face_trainer.py (after  pip install 'feddecorr[examples]')
"""

import tempfile
from typing import Any

import torch
from digits import describe, load
from torch import Tensor, nn
from torch.utils.data import Dataset
from transformers import Trainer, TrainingArguments, ViTConfig, ViTForImageClassification, set_seed

from feddecorr import FedDecorrLoss, capture_representations
from feddecorr.transformers import CollapseCallback


class DecorrelatingTrainer(Trainer):
    """The Trainer of any classification model, with FedDecorr added to its loss."""

    beta = 0.1
    decorrelate = FedDecorrLoss()

    def compute_loss(self, model: nn.Module, inputs: Any, return_outputs: bool = False, **options: Any) -> Any:
        """Catch what the classifier takes in, and add the loss of it."""
        with capture_representations(model) as seen:
            loss, outputs = super().compute_loss(model, inputs, return_outputs=True, **options)
        loss = loss + self.beta * self.decorrelate(seen.z)
        return (loss, outputs) if return_outputs else loss


def collate(examples: list[tuple[Tensor, Tensor]]) -> dict[str, Tensor]:
    """Make a batch with the names that the model's `forward` has."""
    images, labels = zip(*examples, strict=True)
    return {"pixel_values": torch.stack(images), "labels": torch.stack(labels)}


def train(data: Dataset, test: Dataset, beta: float, epochs: int = 5) -> nn.Module:
    """Train a tiny vision transformer; trackers get `eval_effective_rank` and more of every evaluation."""
    set_seed(0)
    config = ViTConfig(
        image_size=8, patch_size=2, num_channels=1, num_labels=10,
        hidden_size=48, num_hidden_layers=2, num_attention_heads=4, intermediate_size=96,
    )  # fmt: skip
    model = ViTForImageClassification(config)
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            output_dir=folder,
            num_train_epochs=epochs,
            per_device_train_batch_size=64,
            learning_rate=3e-3,
            use_cpu=True,
            save_strategy="no",
            logging_strategy="no",
            report_to="none",
            disable_tqdm=True,
        )
        trainer = DecorrelatingTrainer(model, arguments, train_dataset=data, eval_dataset=test, data_collator=collate)
        trainer.beta = beta
        trainer.add_callback(CollapseCallback(trainer))
        trainer.train()
        print(f"logged: {trainer.evaluate()['eval_effective_rank']:.1f} dimensions in the evaluation")
    return model


if __name__ == "__main__":
    torch.set_num_threads(1)
    training, test = load()
    for beta in (0, 0.1):
        print(f"beta {beta}: {describe(train(training, test, beta), test)}")
