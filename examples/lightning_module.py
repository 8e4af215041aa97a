"""FedDecorr in a LightningModule, and a callback that tells whether its representations collapse.

Run it:  python examples/lightning_module.py (after  pip install 'feddecorr[examples]')
"""

import pytorch_lightning as lightning
import torch
from digits import describe, load
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, Dataset

from feddecorr import FedDecorrLoss, capture_representations
from feddecorr.lightning import CollapseMonitor


class Classifier(lightning.LightningModule):
    """An ordinary classifier, with FedDecorr in its training step."""

    def __init__(self, beta: float) -> None:
        super().__init__()
        self.beta = beta
        self.decorrelate = FedDecorrLoss(dying="counted")  # nothing is normalized before the representation
        self.body = nn.Sequential(nn.Flatten(), nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU())
        self.classifier = nn.Linear(128, 10)

    def forward(self, x: Tensor) -> Tensor:
        """Return the logits."""
        return self.classifier(self.body(x))

    def training_step(self, batch: tuple[Tensor, Tensor]) -> Tensor:
        """Catch what the classifier takes in, and add the loss of it."""
        x, y = batch
        with capture_representations(self) as seen:
            logits = self(x)
        return cross_entropy(logits, y) + self.beta * self.decorrelate(seen.z)

    def validation_step(self, batch: tuple[Tensor, Tensor]) -> None:
        """Validate as always: the callback sees what the classifier takes in."""
        x, y = batch
        self.log("accuracy", (self(x).argmax(1) == y).float().mean())

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Return the optimizer."""
        return torch.optim.SGD(self.parameters(), lr=0.05, momentum=0.9)


def train(data: Dataset, test: Dataset, beta: float, epochs: int = 10) -> nn.Module:
    """Let Lightning do the rest; with a logger, it has `collapse/effective_rank` and more of every validation."""
    lightning.seed_everything(0, verbose=False)
    model = Classifier(beta)
    trainer = lightning.Trainer(
        max_epochs=epochs,
        check_val_every_n_epoch=epochs,
        callbacks=[CollapseMonitor()],
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(model, DataLoader(data, batch_size=64, shuffle=True), DataLoader(test, batch_size=64))
    print(f"logged: {trainer.callback_metrics['collapse/effective_rank']:.1f} dimensions in the last validation")
    return model


if __name__ == "__main__":
    torch.set_num_threads(1)
    training, test = load()
    for beta in (0, 0.1):
        print(f"beta {beta}: {describe(train(training, test, beta), test)}")
