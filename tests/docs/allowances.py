"""What the tests of the pages do differently from a reader, all of it, each with its reason.

Every entry has to be needed by a page: one that is not is a failure.
"""

from __future__ import annotations

from pathlib import Path

NOT_RUN = {
    "pip install feddecorr[simulation]": "installs from the index; `make package` installs the wheel",
    "make test": "is what runs these tests",
    "feddecorr --install-completion": "asks which shell started it; tests/cli/test_completion.py runs it in one",
}
"""Commands of blocks that are not run."""

ONLY_PARSED = {
    **dict.fromkeys(
        ["flower-superlink", "flower-supernode", "flwr supernode register", "feddecorr flower run"],
        "is a part of a federation over the network, which takes minutes; tests/flower/test_network.py starts the same",
    ),
    "feddecorr run method=scaffold regularizers=feddecorr rounds=20 engine=flower": "starts Ray, half a minute of the "
    "processor; tests/flower/test_endings.py starts this very command",
    "feddecorr flower proxy": "is a server in front of such; tests/flower/test_network.py starts the documented one",
    "feddecorr run data=cifar10 clients=1000": "needs a cluster of Ray; tests/clusters joins one",
    "feddecorr sweep --on": "starts Ray, or needs a Slurm; tests/clusters does the same",
    "python -m benchmarks.conformance": "needs packages that are not installed with this one",
    "python -m benchmarks.flower": "starts Ray at least three times: a minute of the processor",
    "python -m benchmarks.flower_deployment": "takes at least four runs on SuperNodes",
}
"""Beginnings of commands that have no quick form; their programs are imported and read the words, no more."""

WHERE_INSTALLED = {"openssl", "ssh-keygen"}
"""Programs of the system that need not be here; where they are not, tests/helpers/loopback.py makes the same files."""

SHORT_RUN = "rounds=1 training.epochs=1"
"""What shortens every run, whether a command or Python starts it: later words win."""

TINY_RUN = (
    "data=synthetic data.train=60 data.test=20 data.size=8 partition.minimum=2 model=convnet model.widths=[4] "
    "training.epochs=1 training.batch=10 rounds=1 evaluation.final=1"
)
"""What leaves next to nothing of a benchmark's runs."""

SHORTER = {
    r"feddecorr run": SHORT_RUN,
    r"feddecorr run .*training\.steps=": "training.steps=2",
    r"feddecorr run(?!.* model=)": "model.widths=[16,32]",
    r"feddecorr diagnose .*--model convnet": "model.widths=[16,32]",  # what a short run has
    r"feddecorr run .*data=cifar10": "data.train=40 data.test=20 clients=2",  # what the stand-in has, and less work
    r"feddecorr resume .*rounds=": "rounds=2",  # one more than a short run has
    r"feddecorr diagnose .*--round": "--round 1",  # what a short run has
    r"feddecorr sweep": f"{SHORT_RUN} clients=4 data.train=120 data.test=40 partition.minimum=2 model.widths=[8,16]",
    r"feddecorr reproduce --list": "--scale smoke",  # the data of others are not there
    r"feddecorr theory (flow|sweep|decorrelate)": "dim=6 classes=4 samples=20 points=3 time=0.2",
    r"feddecorr theory alignment": "dim=10 epochs=1,2 epoch_samples=100",
    r"feddecorr selftest": "data.size=8 data.train=64 data.test=20 clients=2 model.widths=[8,16]",
    r"python -m benchmarks\.augmentation_cost": "--repeats 1 --size 8",
    r"python -m benchmarks\.client_size": "data.train=20 data.size=8 training.batch=4 partition.minimum=2",
    r"python -m benchmarks\.diagnosis_cost": "--images 40 --repeats 1",
    r"python -m benchmarks\.flower_scale": "--nodes 20 --cohort 3 --rounds 3",
    r"python -m benchmarks\.hostile_clients": f"--seeds 1 --methods feddyn --settings {TINY_RUN}",
    r"python -m benchmarks\.loss_cost": "feddecorr singular --repeats 1 --batch 4",
    r"python -m benchmarks\.metric_cost": "--repeats 1 --imports 1 --batch 2",
    r"feddecorr plan cifar10": "--scale smoke",
    r"feddecorr plan data=": "model=convnet model.widths=[8]",
    r"python -m benchmarks\.loss_scale": "data=digits model.widths=[16,32] training.epochs=1 rounds=1"
    " --seeds 1 --paper 0.1 --released 0.1",
    r"python -m benchmarks\.methods_accuracy": f"--seeds 1 --rounds 1 --settings {TINY_RUN}",
    r"python -m benchmarks\.methods_cost": f"moon --repeats 1 --settings {TINY_RUN} clients=2",
    r"python -m benchmarks\.precision": "lenet --rounds 1",
}
"""What is added to commands that begin so, that they do less of the same."""

LOOP = """
```python
import torch

model = torch.nn.Sequential(torch.nn.Linear(20, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4))
x, y = torch.randn(8, 20), torch.arange(8) % 4
```
"""

RECORDS = Path(__file__).parents[2] / "results"

BEFORE = {
    "README.md": LOOP,
    "docs/reproduction.md": f"""
```python
import shutil

shutil.copytree({str(RECORDS)!r}, "results")
```
""",
    "docs/loss.md": LOOP,
    "docs/theory.md": """
```sh
feddecorr data get mnist
```
""",
    "docs/diagnosis.md": """
```python
import numpy as np
import torch

model = torch.nn.Sequential(torch.nn.Linear(20, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4))
loader = [(torch.randn(32, 20), torch.arange(32) % 4) for _ in range(3)]
z, labels = torch.randn(100, 16), torch.arange(100) % 4
for name in "zab":
    np.save(f"{name}.npy", np.random.default_rng(0).normal(size=(100, 16)))
np.save("y.npy", np.arange(100) % 4)
```

```python
# my_module.py
from torch import nn


class Network(nn.Module):
    def __init__(self, classes=10):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(3, 8, 3, stride=4), nn.ReLU(), nn.Flatten())
        self.head = nn.Linear(512, classes)

    def forward(self, x):
        return self.head(self.body(x))


build = Network
```

```python
from my_module import build
from safetensors.torch import save_file

save_file(build().state_dict(), "w.safetensors")
```

```sh
feddecorr data get cifar10
```
""",
}
"""What the reader of a page has before it, as a page of its own: a model, files, data sets."""
