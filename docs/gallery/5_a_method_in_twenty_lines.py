"""
A method in twenty lines
========================

A federated method is one class. What it does not say is FedAvg; the training loop, the engines, resuming and every
regularizer come with it.
"""

# %%
# This one does not trust a single round: the server goes only a part of the way to the clients' mean.

from collections.abc import Iterable
from dataclasses import replace

from pydantic import Field

import feddecorr
from feddecorr import Method, RoundInfo, Server, Update, extrapolate, mean_weights


class Slow(Method):
    """Goes a part of the way to the clients' mean (an example)."""

    share: float = Field(0.5, gt=0, le=1, description="part of the way")

    def aggregate(self, server: Server, updates: Iterable[Update], info: RoundInfo) -> Server:
        """Move the server."""
        return replace(server, weights=extrapolate(server.weights, mean_weights(updates), self.share))


# %%
# Its options are checked like all others, and it goes with any regularizer.

import matplotlib.pyplot as plt

figure, panel = plt.subplots(figsize=(6, 3.6), layout="constrained")
for method in ("fedavg", Slow(share=0.5), Slow(share=0.2)):
    experiment = feddecorr.Experiment(
        partition={"name": "dirichlet", "alpha": 0.05},
        model={"name": "convnet", "widths": [16, 32, 128]},
        training={"epochs": 2},
        method=method,
        regularizers="feddecorr",
    )
    records = list(feddecorr.run(experiment, feddecorr.RunOptions(rounds=10)))
    name = f"share {method.share:g}" if isinstance(method, Slow) else "FedAvg"
    accuracy = [100 * record.accuracy for record in records]
    panel.plot([record.round for record in records], accuracy, label=name)
panel.set(xlabel="round", ylabel="accuracy (%)", ylim=(0, 100), title="with FedDecorr")
panel.legend()
plt.show()

# %%
# A class in a notebook is enough to try it out. Runs that are kept, and worker processes, must be able to import it: in
# a file, it is ``method=my_file:Slow``, on the command line, too. All hooks: :doc:`add a method </docs/add-a-method>`.
