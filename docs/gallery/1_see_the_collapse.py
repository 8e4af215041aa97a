"""
See the collapse
================

Ten clients learn handwritten digits together. The fewer classes a client holds, the fewer dimensions do the
representations use: those of its own model, and those of the model that is averaged from all of them.
"""

# %%
# The digits stand upright and at three quarter turns, and each digit at each turn is a class: 40 classes need many
# dimensions, so that it shows when they are missing. Three federations, which differ in one thing: a client holds all
# classes, ten, or four. In the last round, the test images are also shown to the clients' own models before they are
# averaged (``evaluation.clients``).

import feddecorr

last = {}
for classes in (40, 10, 4):
    experiment = feddecorr.Experiment(
        data="rotated_digits",
        partition={"name": "classes", "per_client": classes},
        model={"name": "convnet", "widths": [16, 32, 128]},
        training={"epochs": 3},
    )
    options = feddecorr.RunOptions(rounds=4, evaluation={"clients": "last"})
    *_, last[classes] = feddecorr.run(experiment, options)

# %%
# The spectrum tells it: singular values of the covariance of all test images' representations, largest first, as the
# paper draws them. A direction below the dotted line (logarithm −2) hardly carries anything.

import matplotlib.pyplot as plt
import numpy as np

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
for classes, record in last.items():
    left.plot(np.log(record.singular_values), label=f"{classes} classes per client")
left.axhline(-2, color="grey", linestyle=":")
left.set(xlabel="index", ylabel="log of singular value", ylim=(-8, 4), title="the global model")
left.legend()
ranks = [[model.effective_rank for model in record.local_models.values()] for record in last.values()]
right.boxplot(ranks, tick_labels=list(last))
right.set(xlabel="classes per client", ylabel="effective rank", title="the clients' own models")
plt.show()

# %%
# In numbers. *Significant* are the singular values above the dotted line; the effective rank looks at proportions
# alone. Here both fall, and the accuracy with them.

print("classes  accuracy  significant  effective rank  of local models")
for classes, record in last.items():
    local_rank = np.mean([model.effective_rank for model in record.local_models.values()])
    numbers = f"{record.significant_singular_values:11} {record.effective_rank:15.1f} {local_rank:16.1f}"
    print(f"{classes:7} {record.accuracy:9.1%} {numbers}")

# %%
# What helps against it: :doc:`2_cure_it`. All measures: :doc:`has my model collapsed? </docs/diagnosis>`
