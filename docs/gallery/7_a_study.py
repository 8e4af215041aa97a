"""
A study
=======

One run answers little: another seed gives another number. A study is all combinations of a few settings, over seeds,
and the differences between them in pairs.
"""

# %%
# ``feddecorr.ensure`` starts a run, continues an interrupted one, and skips a finished one. Start
# this again and it takes no time.

from itertools import product
from pathlib import Path

import feddecorr

for alpha, beta, seed in product((0.05, 0.5), (0, 0.1), range(3)):
    experiment = feddecorr.Experiment(
        partition={"name": "dirichlet", "alpha": alpha},
        model={"name": "convnet", "widths": [8, 16, 64]},
        training={"epochs": 2},
        regularizers={"feddecorr": {"beta": beta}} if beta else {},
        seed=seed,
    )
    for _record in feddecorr.ensure(experiment, feddecorr.RunOptions(rounds=6), f"runs/{experiment.digest()}"):
        pass

# %%
# Two runs with the same seed have the same split, first weights and batches. So what the term does is read off pairs:
# each line is one.

import matplotlib.pyplot as plt
import numpy as np

from feddecorr.results.summary import read_summaries

found = {}
for run in read_summaries([Path("runs")]):
    settings = run.experiment
    key = settings["partition"]["alpha"], "feddecorr" in settings["regularizers"], settings["seed"]
    found[key] = {name: run.statistic("last", name) for name in ("accuracy", "effective_rank")}
    found[key]["accuracy"] *= 100  # percent

figure, panels = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
for panel, name in zip(panels, ("accuracy", "effective_rank"), strict=True):
    for place, alpha in enumerate((0.05, 0.5)):
        for seed in range(3):
            pair = [found[alpha, term, seed][name] for term in (False, True)]
            panel.plot([3 * place, 3 * place + 1], pair, marker="o", color=f"C{place}")
        differences = [found[alpha, True, seed][name] - found[alpha, False, seed][name] for seed in range(3)]
        print(f"alpha {alpha}, {name}: {np.mean(differences):+.1f} ± {np.std(differences, ddof=1):.1f}")
    title = "effective rank" if name == "effective_rank" else "accuracy (%)"
    panel.set(title=title, xticks=[0, 1, 3, 4], xticklabels=["without", "with"] * 2)
    panel.set_xlabel("α = 0.05                            α = 0.5")
plt.show()

# %%
# From the command line the same is one file and ``feddecorr sweep``, with tables, intervals and all cores:
# :doc:`many runs </docs/sweeps>`. The paper's own tables: :doc:`studies </docs/studies>`.
