"""
Every measure, in a picture
===========================

What each function says of features that collapse step by step. All take tensors or arrays of shape (…, n, d), and
return one number for each of the leading dimensions.
"""

# %%
# Of a spectrum
# -------------
#
# 500 samples of 40 features whose singular values fall as k to the power of −a: the larger a, the stronger the
# collapse. All ranks fall from 40 towards 1; they differ in how much the tail counts. ``alpha_req`` finds the exponent
# of the covariance's values, which is 2a.

import matplotlib.pyplot as plt
import torch

import feddecorr

torch.manual_seed(0)
noise = torch.randn(500, 40).double()
noise = torch.linalg.qr(noise - noise.mean(0)).Q
exponents = torch.linspace(0, 3, 25)
z = noise * torch.arange(1.0, 41) ** -exponents[:, None, None]  # one set of features for each exponent

figure, panels = plt.subplots(2, 3, figsize=(10, 6), layout="constrained")
for place in (0, 8, 16, 24):
    panels[0, 0].loglog(range(1, 41), feddecorr.singular_values(z[place]), label=f"a = {exponents[place]:.0f}")
panels[0, 0].set(title="singular_values", xlabel="index")
panels[0, 0].legend()
functions = [
    feddecorr.effective_rank,
    feddecorr.rankme,
    feddecorr.participation_ratio,
    feddecorr.stable_rank,
    feddecorr.alpha_req,
]
for panel, function in zip(panels.flat[1:], functions, strict=True):
    panel.plot(exponents, function(z))
    panel.set(title=function.__name__, xlabel="a")
plt.show()

# %%
# Of single features and of pairs
# -------------------------------
#
# ``dead_features`` counts what a ReLU with a falling bias kills. ``uniformity`` is 0 when all samples point in one
# direction. ``alignment`` and ``cka`` compare two representations of the same samples, here with more and more noise:
# the first looks at single samples, the second does not see a rotation.

biases = torch.linspace(0, 5, 25)
x = torch.randn(500, 40)
rotation = torch.linalg.qr(torch.randn(40, 40)).Q
noisy = x + biases[:, None, None] * torch.randn(500, 40)
shared = x + biases[:, None, None] * torch.ones(40)

figure, panels = plt.subplots(1, 4, figsize=(12, 3), layout="constrained")
panels[0].plot(biases, feddecorr.dead_features((x - biases[:, None, None]).relu()))
panels[0].set(title="dead_features", xlabel="minus the bias")
panels[1].plot(biases, feddecorr.uniformity(shared))
panels[1].set(title="uniformity", xlabel="size of the common part")
panels[2].plot(biases, [feddecorr.alignment(x, each) for each in noisy], label="noise")
panels[2].plot(biases, [feddecorr.alignment(x, each @ rotation) for each in noisy], label="and a rotation")
panels[2].set(title="alignment", xlabel="size of the noise")
panels[3].plot(biases, [feddecorr.cka(x, each) for each in noisy], label="noise")
panels[3].plot(biases, [feddecorr.cka(x, each @ rotation) for each in noisy], "--", label="and a rotation")
panels[3].set(title="cka", xlabel="size of the noise")
panels[3].legend()
plt.show()

# %%
# With labels
# -----------
#
# Ten classes around means of their own. From right to left the samples of a class draw together: neural collapse,
# which is good. ``cdnv`` and NC1 fall to 0, ``lidar`` says in how many dimensions classes can be separated, and the
# probes are right on all samples. On a line (dashed) the same classes have one dimension: a dimensional collapse, in
# which a linear head finds few of them. NC1 stays high there: it weighs every direction in which the means differ, and
# all but one are noise.

spreads = torch.logspace(-2, 1, 20)
y = torch.arange(600) % 10
means = 3 * torch.randn(10, 40).double()
line = means[:, :1] * torch.eye(40)[0].double()
inner = torch.randn(600, 40).double()

figure, panels = plt.subplots(1, 4, figsize=(12, 3), layout="constrained")
for centres, style, name in ((means, "-", "in 40 dimensions"), (line, "--", "on a line")):
    sets = [centres[y] + spread * inner for spread in spreads]
    panels[0].loglog(spreads, [feddecorr.cdnv(each, y) for each in sets], style, label=name)
    panels[1].loglog(spreads, [feddecorr.neural_collapse(each, y)["nc1_variability"] for each in sets], style)
    panels[2].semilogx(spreads, [feddecorr.lidar(each, y) for each in sets], style)
    probed = [feddecorr.probe(each[:400], y[:400], each[400:], y[400:]) for each in sets]
    panels[3].semilogx(spreads, [found.linear for found in probed], style)
for panel, title in zip(panels, ("cdnv", "neural_collapse: NC1", "lidar", "probe, linear"), strict=True):
    panel.set(title=title, xlabel="spread within classes")
panels[0].legend()
plt.show()

# %%
# Of what travels
# ---------------
#
# The change of a layer between two state dicts has a spectrum, too: of full rank, and through a low-rank adapter.

before = {
    "dense.weight": torch.randn(40, 40),
    "adapter.lora_A": torch.randn(4, 40),
    "adapter.lora_B": torch.zeros(40, 4),
}
after = {name: tensor + 0.1 * torch.randn(tensor.shape) for name, tensor in before.items()}
changed = feddecorr.diagnose_update(before, after)
print(changed)

figure, panel = plt.subplots(figsize=(5, 3.4), layout="constrained")
for layer, each in changed.layers.items():
    panel.semilogy([value for value in each.singular_values if value > 1e-9], marker=".", label=layer)
panel.set(title="diagnose_update", xlabel="index", ylabel="singular value of ΔW")
panel.legend()
plt.show()

# %%
# The adapter has rank 4, and what it changes cannot have more: ``the fewest in 'adapter': 3.8 of 40``.
#
# :doc:`Which effective rank is it? </docs/which-effective-rank>` has the conventions of others.
