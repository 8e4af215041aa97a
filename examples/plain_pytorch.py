"""FedDecorr in a training loop of your own.

Run it:  python examples/plain_pytorch.py
"""

import torch
from digits import describe, load
from torch import nn
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, Dataset

from feddecorr import FedDecorrLoss, capture_representations


def train(data: Dataset, beta: float, epochs: int = 10) -> nn.Module:
    """Train as always; what `decorrelate` and `seen` do is all that is new.

    Nothing is normalized before the representation here: `dying="counted"` keeps the term from killing features.
    """
    torch.manual_seed(0)
    body = nn.Sequential(nn.Flatten(), nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU())
    model = nn.Sequential(body, nn.Linear(128, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    decorrelate = FedDecorrLoss(dying="counted")
    for _ in range(epochs):
        for x, y in DataLoader(data, batch_size=64, shuffle=True):
            with capture_representations(model) as seen:
                logits = model(x)
            loss = cross_entropy(logits, y) + beta * decorrelate(seen.z)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return model


if __name__ == "__main__":
    torch.set_num_threads(1)
    training, test = load()
    for beta in (0, 0.1):
        print(f"beta {beta}: {describe(train(training, beta), test)}")
