"""
The flow of the theory
======================

Why do few classes mean few dimensions? In a deep linear network it can be watched: singular values of its product grow
as the paper's theorem says, and those of rare classes hardly do.
"""

# %%
# Six classes, three of which have forty samples and three have four. The start is one for which both assumptions of
# the theorem hold: balanced layers, and a classifier that is aligned with them.

import numpy as np

from feddecorr.paper.theory import aligned_classifier, balanced_start, flow, measure, random_frame

stream = np.random.RandomState(0)
layers, dim, inputs, classes = 3, 8, 10, 6
labels = np.repeat(np.arange(classes), [40, 40, 40, 4, 4, 4])
x = 2 * np.eye(inputs)[:, labels] + 0.3 * stream.normal(size=(inputs, len(labels)))
y = np.eye(classes)[:, labels]

values = np.array([0.5] * classes + [0.25] * (dim - classes))  # those that the classifier does not see are smaller
frames = [random_frame(inputs, dim, stream), *(random_frame(dim, dim, stream) for _ in range(layers))]
left = random_frame(classes, classes, stream)
classifier = aligned_classifier(values, left, frames[-1], layers=layers, constant=-(0.25 ** (2 / layers)))

# %%
# Gradient flow is gradient descent in infinitely small steps; ``measure`` follows the singular values by continuity.

times = np.linspace(0, 25 / len(labels), 41)
found = measure(flow((*balanced_start(values, frames), classifier), x, y, times), times, x, y)
error = np.abs(found.theorem - found.growth).max() / np.abs(found.growth).max()
print(f"the theorem is off by {error:.0e} of the largest growth")

# %%
# Lines are measured, points are what the theorem says.

import matplotlib.pyplot as plt

figure, (first, second) = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
first.plot(times * len(labels), found.values)
first.set(title="singular values of the product", xlabel="time", ylabel="σ")
lines = second.plot(times * len(labels), found.growth)
for line, predicted in zip(lines, found.theorem.T, strict=True):
    second.plot(times[::4] * len(labels), predicted[::4], "o", color=line.get_color(), markersize=4)
second.set(title="their growth", xlabel="time", ylabel="dσ/dt")
plt.show()

# %%
# Three grow at once, with the three frequent classes. The definitions, the proof's slips and what FedDecorr does to
# the flow: :doc:`the theory, made to run </docs/theory>`.
