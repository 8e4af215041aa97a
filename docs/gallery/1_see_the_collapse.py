"""
See the collapse
================

Ten clients learn handwritten digits together. The fewer classes a client holds, the fewer dimensions do its model's
representations use, and the model that is averaged from all of them inherits it.
"""

# %%
# Three federations, which differ in one thing: a client holds all ten classes, five, or two. In each, the test images
# are also shown to the clients' own models before they are averaged (``evaluation.clients``).

import feddecorr

last = {}
for classes in (10, 5, 2):
    experiment = feddecorr.Experiment(
        partition={"name": "classes", "per_client": classes},
        model={"name": "convnet", "widths": [16, 32, 128]},
    )
    options = feddecorr.RunOptions(rounds=5, evaluation={"clients": True})
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
# alone. So they need not move together: averaging models that disagree makes all representations shorter, and only the
# first measure sees that.

print("classes  accuracy  significant  effective rank  of local models")
for classes, record in last.items():
    local_rank = np.mean([model.effective_rank for model in record.local_models.values()])
    numbers = f"{record.significant_singular_values:11} {record.effective_rank:15.1f} {local_rank:16.1f}"
    print(f"{classes:7} {record.accuracy:9.3f} {numbers}")

# %%
# What helps against it: :doc:`2_cure_it`. All measures: :doc:`has my model collapsed? </docs/diagnosis>`
