"""
Cure it
=======

One word more, ``regularizers="feddecorr"``, and the clients keep the dimensions of their representations apart.
"""

# %%
# Most of a class sits on one client (Dirichlet with α = 0.05). Split, first weights and batches come from the seed, so
# the two runs differ in nothing but the term.

import feddecorr

runs = {}
for name, terms in {"FedAvg": {}, "FedAvg + FedDecorr": {"feddecorr": {"beta": 0.1}}}.items():
    experiment = feddecorr.Experiment(
        data="rotated_digits",
        partition={"name": "dirichlet", "alpha": 0.05},
        model={"name": "convnet", "widths": [16, 32, 128]},
        training={"epochs": 3},
        regularizers=terms,
    )
    runs[name] = list(feddecorr.run(experiment, feddecorr.RunOptions(rounds=8)))

# %%
# The term lifts the tail of the spectrum. Accuracy swings from round to round, so one run says little of what the term
# does to it: that is what :doc:`the studies </docs/studies>` are for.

import matplotlib.pyplot as plt
import numpy as np

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
for name, records in runs.items():
    style = {"color": "#3f90da", "linestyle": "--" if "FedDecorr" in name else "-", "label": name}
    left.plot(np.log(records[-1].singular_values), **style)
    accuracy = [100 * record.accuracy for record in records]
    right.plot([record.round for record in records], accuracy, marker="o", **style)
left.axhline(-2, color="grey", linestyle=":")
left.set(xlabel="index", ylabel="log of singular value", ylim=(-8, 4))
left.set_title("the global model's spectrum")
left.legend()
right.set(xlabel="round", ylabel="accuracy (%)", ylim=(0, 100), title="on test images")
plt.show()

# %%
# Every round records what the clients' objective was made of.

for name, records in runs.items():
    end = records[-1]
    print(f"{name}: effective rank {end.effective_rank:.1f}, terms {end.terms}")
