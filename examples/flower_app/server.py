"""An ordinary ServerApp with Flower's FedAvg. The lines that end with `# +` are all that this project adds."""

from flwr.app import ArrayRecord, Context, MetricRecord, RecordDict
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg
from network import Network

from feddecorr.collapse.shared_evidence import Evidence  # +

app = ServerApp()


def average(replies: list[RecordDict], weight: str) -> MetricRecord:
    """Return the mean accuracy."""
    total = sum(reply["metrics"][weight] for reply in replies)
    accuracy = sum(reply["metrics"]["accuracy"] * reply["metrics"][weight] for reply in replies) / total
    found = MetricRecord({"accuracy": accuracy})
    parts = [Evidence.from_bytes(reply["evidence"]["bytes"]) for reply in replies]  # +
    found["effective-rank"] = sum(parts[1:], parts[0]).diagnosis().effective_rank  # +
    return found


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Train for a few rounds."""
    strategy = FedAvg(evaluate_metrics_aggr_fn=average)
    rounds = context.run_config["num-server-rounds"]
    result = strategy.start(grid, ArrayRecord(Network().state_dict()), num_rounds=rounds)
    for number, metrics in result.evaluate_metrics_clientapp.items():
        print(number, dict(metrics))
