"""
Diagnose a network that you have
================================

Two people give you weights of the same network. One of them trained it on all digits, the other on the two classes
that he had. Which of them has collapsed?
"""

# %%
# Here is how the two made their files.

import torch
from torch import nn
from torch.nn.functional import cross_entropy

from feddecorr import Experiment, diagnose

digits = Experiment(data="digits").data.load()
x, y = digits.normalize(digits.train.pixels), digits.train.labels


def build():
    """Return the network without its weights."""
    body = nn.Sequential(nn.Conv2d(1, 32, 3), nn.ReLU(), nn.Conv2d(32, 64, 3), nn.ReLU(), nn.Flatten())
    return nn.Sequential(body, nn.Linear(1024, 64), nn.ReLU(), nn.Linear(64, 10))


def train(x, y, epochs):
    """Train as anybody would."""
    torch.manual_seed(0)
    model = build()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    for _ in range(epochs):
        for batch in torch.randperm(len(x)).split(64):
            optimizer.zero_grad()
            cross_entropy(model(x[batch]), y[batch]).backward()
            optimizer.step()
    return model


two = y < 2
torch.save(train(x, y, epochs=8).state_dict(), "all-digits.pt")
torch.save(train(x[two], y[two], epochs=40).state_dict(), "two-digits.pt")

# %%
# One pass over some data is all that a diagnosis needs; ``layer="…"`` looks at another layer than the last.

loader = [(digits.normalize(digits.test.pixels), digits.test.labels)]
found = {}
for name in ("all-digits", "two-digits"):
    model = build()
    model.load_state_dict(torch.load(f"{name}.pt"))
    found[name] = diagnose(model, loader)
    print(f"{name}:", *found[name].answer(), sep="\n", end="\n\n")

# %%
# The first has not collapsed, the second has: ``in effect 8.2 of 64 possible dimensions`` against ``in effect 1.8 of 64
# possible dimensions`` (the last digits depend on the processor). Its spectrum falls sooner. The angles between the
# means of the classes show why: it tells two apart, and all others lie somewhere between them.

import matplotlib.pyplot as plt

figure, panels = plt.subplots(1, 3, figsize=(11, 3.4), layout="constrained")
for panel, (name, each) in zip(panels, found.items(), strict=False):
    drawn = panel.imshow(each.class_mean_angles, vmin=0, vmax=180, cmap="viridis")
    panel.set(title=name, xlabel="class", ylabel="class")
figure.colorbar(drawn, ax=panels[1], label="degrees")
for name, each in found.items():
    panels[2].semilogy([value for value in each.singular_values if value > 1e-6], label=name)
panels[2].set(title="spectrum", xlabel="index", ylabel="singular value")
panels[2].legend()
plt.show()

# %%
# ``print(each)`` shows every measure; :doc:`has my model collapsed? </docs/diagnosis>` explains them.
