"""FedDecorr in a Flower ClientApp; the ServerApp stays as it is.

Use it:  copy this file into the folder of your Flower app, and say  clientapp = "flower_client:app"  in its
pyproject.toml, under [tool.flwr.app.components] (after  pip install 'feddecorr[examples]'). Each SuperNode says which
part of the digits it holds:  --node-config "partition-id=0 num-partitions=3".
"""

import torch
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from torch import nn
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, TensorDataset

from feddecorr import Experiment, FedDecorrLoss, capture_representations

app = ClientApp()


def build() -> nn.Module:
    """Return the network that server and clients have in common."""
    layers = [nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU()]
    return nn.Sequential(nn.Flatten(), *layers, nn.Linear(128, 10))


def load_part(context: Context) -> TensorDataset:
    """Return the digits of this node: neighbouring classes, so that nodes differ strongly."""
    digits = Experiment(data="digits").data.load()
    order = digits.train.labels.argsort(stable=True)
    node, nodes = int(context.node_config["partition-id"]), int(context.node_config["num-partitions"])
    mine = order.tensor_split(nodes)[node]
    return TensorDataset(digits.normalize(digits.train.pixels[mine]), digits.train.labels[mine])


@app.train()
def train(message: Message, context: Context) -> Message:
    """Train what came from the server, with FedDecorr in the loss, and send it back."""
    model = build()
    model.load_state_dict(message.content["arrays"].to_torch_state_dict())
    data = load_part(context)
    beta = float(context.run_config.get("beta", 0.1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    decorrelate = FedDecorrLoss()
    for x, y in DataLoader(data, batch_size=64, shuffle=True):
        with capture_representations(model) as seen:
            logits = model(x)
        loss = cross_entropy(logits, y) + beta * decorrelate(seen.z)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    metrics = MetricRecord({"num-examples": len(data), "loss": float(loss.detach())})
    content = RecordDict({"arrays": ArrayRecord(model.state_dict()), "metrics": metrics})
    return Message(content, reply_to=message)
