"""
Your own data
=============

Images as arrays in one file are all that it takes: ``data=npz:FILE``. A folder of pictures per class does it as well.
"""

# %%
# Four classes of stripes in noise.

import numpy as np

stream = np.random.default_rng(0)
labels = np.arange(1200) % 4
stripes = 64 + 128 * (np.arange(16) // (labels[:, None] + 1) % 2)
pixels = stripes[:, None, :] + stream.normal(scale=90, size=(1200, 16, 16))
np.savez("stripes.npz", x=pixels.clip(0, 255).astype(np.uint8), y=labels)

# %%
# Nothing says which images are for testing, so every fifth of each class is. Before anything is trained: who would
# hold what?

import matplotlib.pyplot as plt

import feddecorr
from feddecorr.partition.heterogeneity import count_labels

experiment = feddecorr.Experiment(
    data="npz:stripes.npz",
    clients=8,
    partition={"name": "dirichlet", "alpha": 0.3},
    model={"name": "convnet", "widths": [8, 32]},
    training={"epochs": 3},
    regularizers="feddecorr",
)
held = experiment.data.load().train.labels.numpy()
parts = experiment.partition.split(held, clients=experiment.clients, seed=experiment.seed)
counts = count_labels(parts, held, classes=4)

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
left.imshow(np.block([[pixels[0], pixels[1]], [pixels[2], pixels[3]]]).clip(0, 255), cmap="grey")
left.set(title="one image of each class", xticks=[], yticks=[])
below = np.zeros(experiment.clients)
for label in range(4):
    right.bar(range(experiment.clients), counts[:, label], bottom=below, label=f"class {label}")
    below += counts[:, label]
right.set(title="who holds what", xlabel="client", ylabel="examples")
right.legend()
plt.show()

# %%
# And the run. It keeps the sha256 of all pixels and labels, so that it is never gone on with on other data.

records = list(feddecorr.run(experiment, feddecorr.RunOptions(rounds=6)))
figure, panel = plt.subplots(figsize=(5, 3.2), layout="constrained")
panel.plot([record.round for record in records], [100 * record.accuracy for record in records], marker="o")
panel.set(xlabel="round", ylabel="accuracy (%)", ylim=(0, 100))
plt.show()

# %%
# More ways to bring data along: :doc:`data sets </docs/data>`.
