"""An ordinary ServerApp with Flower's FedAvg. The lines that end with `# +` are all that this project adds.

Run it, from any directory:  flwr run PATH/TO/flower_app SUPERLINK --stream  (after  pip install 'feddecorr[examples]'
scikit-learn  everywhere), with SuperNodes that say which part of the digits they hold:
--node-config "partition-id=0 num-partitions=3".
"""

from flwr.app import ArrayRecord, Context
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg
from task import Net

from feddecorr.flower.spectrum_metrics import average_with_spectrum  # +

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Train for a few rounds."""
    strategy = FedAvg(fraction_evaluate=context.run_config["fraction-evaluate"])
    strategy.evaluate_metrics_aggr_fn = average_with_spectrum  # +
    rounds = context.run_config["num-server-rounds"]
    result = strategy.start(grid, ArrayRecord(Net().state_dict()), num_rounds=rounds)
    for number, metrics in result.evaluate_metrics_clientapp.items():
        print(number, dict(metrics))
