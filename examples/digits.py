"""What the examples share: real handwritten digits, and how well a model uses its dimensions."""

import torch
from torch import Tensor, nn
from torch.utils.data import TensorDataset

from feddecorr import Experiment, capture_representations
from feddecorr.loss.decorrelation import spectral_entropy


def load() -> tuple[TensorDataset, TensorDataset]:
    """Return 1437 training and 360 test images of 1×8×8 pixels with their labels."""
    digits = Experiment(data="digits").data.load()
    parts = (digits.train, digits.test)
    train, test = (TensorDataset(digits.normalize(part.pixels).contiguous(), part.labels) for part in parts)
    return train, test


@torch.no_grad()
def describe(model: nn.Module, test: TensorDataset) -> str:
    """Return the accuracy on test images, and the effective rank of their representations."""
    x, y = test.tensors
    with capture_representations(model.eval()) as seen:
        output = model(x)
    logits: Tensor = output if isinstance(output, Tensor) else output.logits
    rank = spectral_entropy(seen.z).neg().exp()  # exp of the entropy of the covariance's eigenvalues
    return f"accuracy {(logits.argmax(1) == y).float().mean():.1%}, effective rank {rank:.1f} of {seen.z.shape[1]}"
