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
    """Return a client's digits, to train and to test: half of them of a few classes, so that clients differ."""
    digits = load_digits()
    x, y = torch.tensor(digits.images, dtype=torch.float32) / 16, torch.tensor(digits.target)
    by_class = y.argsort(stable=True)
    mine = torch.cat([by_class[::2].tensor_split(partitions)[partition], by_class[1::2][partition::partitions]])
    held_out = torch.arange(len(mine)) % 5 == 0
    test, train = (TensorDataset(x[part], y[part]) for part in (mine[held_out], mine[~held_out]))
    return DataLoader(train, batch_size=32, shuffle=True), DataLoader(test, batch_size=64)
