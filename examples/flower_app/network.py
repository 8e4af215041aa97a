"""What server and clients of the app have in common: the network, and how a client's digits are loaded."""

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Network(nn.Module):
    """A small network for 8×8 digits."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(nn.Flatten(), nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU())
        self.classifier = nn.Linear(128, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the logits."""
        return self.classifier(self.features(x))


def load_part(partition: int, partitions: int) -> tuple[DataLoader, DataLoader]:
    """Return a client's digits, to train and to test: neighbouring classes, so that clients differ strongly."""
    digits = load_digits()
    x, y = torch.tensor(digits.images, dtype=torch.float32) / 16, torch.tensor(digits.target)
    mine = y.argsort(stable=True).tensor_split(partitions)[partition]
    test, train = TensorDataset(x[mine[::5]], y[mine[::5]]), TensorDataset(x[mine[1:]], y[mine[1:]])
    return DataLoader(train, batch_size=32, shuffle=True), DataLoader(test, batch_size=64)
