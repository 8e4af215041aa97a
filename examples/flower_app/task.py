"""What server and clients of the app have in common: the network, a client's digits, training and testing."""

from functools import cache

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader

from feddecorr import FedDecorrLoss, capture_representations  # +


class Net(nn.Module):
    """A small network for 8×8 digits."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(nn.Flatten(), nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU())
        self.classifier = nn.Linear(128, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the logits."""
        return self.classifier(self.features(x))


load_all = cache(load_digits)  # which reads a file


def load_data(partition: int, partitions: int, batch: int) -> tuple[DataLoader, DataLoader]:
    """Return a client's digits, to train and to test: half of them of a few classes, so that clients differ."""
    digits = load_all()
    images, labels = torch.tensor(digits.images, dtype=torch.float32) / 16, torch.tensor(digits.target)
    by_class = labels.argsort(stable=True)
    mine = torch.cat([by_class[::2].tensor_split(partitions)[partition], by_class[1::2][partition::partitions]])
    samples = [{"img": images[sample], "label": labels[sample]} for sample in mine.tolist()]
    held_out, kept = samples[::5], [sample for place, sample in enumerate(samples) if place % 5]
    return DataLoader(kept, batch_size=batch, shuffle=True), DataLoader(held_out, batch_size=batch)


def train(net: nn.Module, loader: DataLoader, epochs: int, lr: float) -> float:
    """Train, and return the mean loss."""
    criterion, total = nn.CrossEntropyLoss(), 0.0
    optimizer = torch.optim.SGD(net.parameters(), lr=lr, momentum=0.9)
    net.train()
    for _ in range(epochs):
        for batch in loader:
            optimizer.zero_grad()
            with capture_representations(net) as seen:  # +
                loss = criterion(net(batch["img"]), batch["label"])
            loss = loss + 0.1 * FedDecorrLoss()(seen.z)  # +
            loss.backward()
            optimizer.step()
            total += loss.item()
    return total / (epochs * len(loader))


@torch.no_grad()
def test(net: nn.Module, loader: DataLoader) -> float:
    """Return the share of right decisions."""
    net.eval()
    right = sum(int((net(batch["img"]).argmax(1) == batch["label"]).sum()) for batch in loader)
    return right / len(loader.dataset)
