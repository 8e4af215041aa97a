"""An ordinary ClientApp. The lines that end with `# +` are all that this project adds."""

from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from task import Net, load_data, test
from task import train as train_net

from feddecorr.flower.spectrum_metrics import evidence_mod  # +

app = ClientApp(mods=[evidence_mod])  # +


def load(message: Message, context: Context):
    """Return the network that came from the server, and the client's digits."""
    net = Net()
    net.load_state_dict(message.content["arrays"].to_torch_state_dict())
    node, batch = context.node_config, context.run_config["batch-size"]
    return net, load_data(node["partition-id"], node["num-partitions"], batch)


@app.train()
def train(message: Message, context: Context) -> Message:
    """Train as long as the app says."""
    net, (loader, _) = load(message, context)
    loss = train_net(net, loader, context.run_config["local-epochs"], context.run_config["learning-rate"])
    metrics = MetricRecord({"train_loss": loss, "num-examples": len(loader.dataset)})
    return Message(RecordDict({"arrays": ArrayRecord(net.state_dict()), "metrics": metrics}), reply_to=message)


@app.evaluate()
def evaluate(message: Message, context: Context) -> Message:
    """Test on digits that are not trained on."""
    net, (_, loader) = load(message, context)
    metrics = MetricRecord({"eval_acc": test(net, loader), "num-examples": len(loader.dataset)})
    return Message(RecordDict({"metrics": metrics}), reply_to=message)
