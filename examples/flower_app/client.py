"""An ordinary ClientApp. The lines that end with `# +` are all that this project adds."""

import torch
from flwr.app import ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from network import Network, load_part

from feddecorr import FedDecorrLoss, capture_representations  # +
from feddecorr.collapse.shared_evidence import Evidence  # +

app = ClientApp()


def load(message: Message, context: Context):
    """Return the network that came from the server, and the client's digits."""
    network = Network()
    network.load_state_dict(message.content["arrays"].to_torch_state_dict())
    return network, load_part(context.node_config["partition-id"], context.node_config["num-partitions"])


@app.train()
def train(message: Message, context: Context) -> Message:
    """Train for one epoch."""
    network, (loader, _) = load(message, context)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.05, momentum=0.9)
    decorrelate = FedDecorrLoss()  # +
    with capture_representations(network) as seen:  # +
        for x, y in loader:
            loss = torch.nn.functional.cross_entropy(network(x), y)
            loss = loss + context.run_config["beta"] * decorrelate(seen.z)  # +
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    metrics = MetricRecord({"loss": loss.item(), "num-examples": len(loader.dataset)})
    return Message(RecordDict({"arrays": ArrayRecord(network.state_dict()), "metrics": metrics}), reply_to=message)


@app.evaluate()
def evaluate(message: Message, context: Context) -> Message:
    """Count right decisions."""
    network, (_, loader) = load(message, context)
    network.eval()
    with torch.no_grad():
        right = sum(int((network(x).argmax(1) == y).sum()) for x, y in loader)
    count = len(loader.dataset)
    content = RecordDict({"metrics": MetricRecord({"accuracy": right / count, "num-examples": count})})
    content["evidence"] = ConfigRecord({"bytes": Evidence.of(network, loader).to_bytes()})  # +
    return Message(content, reply_to=message)
