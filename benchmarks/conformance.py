"""The same features through public implementations of rank and collapse measures, next to our call that equals each.

    pip install stable-pretraining jax flax optax lightly monai weightwatcher scikit-learn scipy
    python -m benchmarks.conformance [--record results/conformance.json]

Each package is called as it is installed, in float64 where it lets itself be; what is recorded is the largest relative
difference on features that have collapsed onto a line, that are isotropic, that follow a power law, that are fewer
than their dimensions, and on real ones. tests/collapse/test_conformance.py holds ours to the formulas written out.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

import feddecorr
from benchmarks.recording import write_record

Values = NDArray[np.floating[Any]]

GROUP = 10
"""Samples in a row that LiDAR takes for views of one."""


def features() -> dict[str, Values]:
    """Return features of every kind, whose number is a multiple of ten."""
    from sklearn.datasets import load_digits  # noqa: PLC0415 - only who asks needs it

    stream = np.random.default_rng(0)
    noise = stream.normal(size=(300, 20))
    isotropic = np.linalg.qr(noise - noise.mean(0))[0]
    return {
        "collapsed": np.outer(stream.normal(size=300), stream.normal(size=20)),
        "isotropic": isotropic,
        "power law": isotropic * np.arange(1, 21) ** -1.0 + 0.1,
        "fewer samples than features": np.tile(noise[:10] + 1, (1, 2)) * stream.normal(size=(10, 40)),
        "digits": np.asarray(load_digits().data[:1790], dtype=np.float64),
    }


class Comparison(NamedTuple):
    """What a package computes, and our call for the same; `apart` says why they differ by more than rounding."""

    package: str
    what: str
    theirs: Callable[[Values], float]
    ours: Callable[[Values], Tensor | float]
    call: str
    apart: str = ""


def stable_pretraining_rankme(x: Values) -> float:
    """Let the callback see its queue on the first batch of a validation."""
    from stable_pretraining.callbacks.rankme import RankMe  # noqa: PLC0415

    logged: dict[str, float] = {}
    callback = RankMe.__new__(RankMe)
    callback.name, callback.verbose = "rankme", False
    callback._target_queue = SimpleNamespace(data=torch.from_numpy(x))
    module = SimpleNamespace(log=logged.__setitem__)
    callback.on_validation_batch_end(SimpleNamespace(global_rank=0), module, {}, {}, 0)
    return logged["rankme"]


def stable_pretraining_jax(x: Values) -> float:
    """Call the function, in JAX's float64."""
    import jax  # noqa: PLC0415

    jax.config.update("jax_enable_x64", True)
    from stable_pretraining.jax.callbacks.rankme import rankme  # noqa: PLC0415

    return float(rankme(jax.numpy.asarray(x)))


def stable_pretraining_lidar(x: Values) -> float:
    """Let the callback compute it of groups of ten in a row."""
    from stable_pretraining.callbacks.lidar import LiDAR  # noqa: PLC0415

    callback = LiDAR.__new__(LiDAR)
    callback.name, callback.delta, callback.epsilon = "lidar", 1e-4, 1e-8
    callback.n_classes, callback.samples_per_class = len(x), GROUP
    found = callback._compute_lidar(torch.from_numpy(x))
    return math.nan if found is None else float(found["lidar"])


def our_lidar(x: Values) -> Tensor | float:
    """Return ours, with delta in terms of the biased covariance."""
    if len(x) < 2 * GROUP:
        return math.nan
    return feddecorr.lidar(x, np.arange(len(x)) // GROUP, delta=1e-4 * (GROUP - 1) / GROUP, epsilon=0)


def monai_rank(x: Values) -> float:
    """Return its score; the public function casts to float32, the one beneath does not."""
    from monai.metrics.embedding_collapse import _effective_rank_score  # noqa: PLC0415

    return float(_effective_rank_score(torch.from_numpy(x)))


def monai_float32(x: Values) -> float:
    """Return the score of the public metric."""
    from monai.metrics import EmbeddingCollapseMetric  # noqa: PLC0415

    return float(EmbeddingCollapseMetric()(torch.from_numpy(x))["effective_rank_score"])


def our_score(x: Values) -> Tensor:
    """Return 1 − rank / (the most that it can be)."""
    score: Tensor = 1 - feddecorr.effective_rank(x, of="features") / min(len(x) - 1, x.shape[1])
    return score


def monai_cka(x: Values) -> float:
    """Compare features with their first half."""
    from monai.metrics.embedding_collapse import _domain_shift  # noqa: PLC0415

    return float(_domain_shift(torch.from_numpy(x), torch.from_numpy(x[:, : x.shape[1] // 2].copy())))


def weightwatcher_stable_rank(x: Values) -> float:
    """Return that of a matrix, from its squared singular values."""
    from weightwatcher.RMT_Util import stable_rank  # noqa: PLC0415

    return float(stable_rank(np.linalg.svd(x, compute_uv=False) ** 2))


def our_update(x: Values) -> float:
    """Return that of a weight which was zero before."""
    (layer,) = feddecorr.diagnose_update({"w": torch.zeros(x.shape)}, {"w": torch.from_numpy(x)}).layers.values()
    return layer.stable_rank


def weightwatcher_entropy(x: Values) -> float:
    """Return its matrix entropy."""
    from weightwatcher.RMT_Util import matrix_entropy  # noqa: PLC0415

    return float(matrix_entropy(np.linalg.svd(x, compute_uv=False), max(x.shape)))


def our_entropy(x: Values) -> float:
    """Return the logarithm of the effective rank by that of the rank."""
    rank = feddecorr.effective_rank(x, centred=False, epsilon=1e-10)
    return float(rank.log()) / math.log(np.linalg.matrix_rank(x) + 1e-10)


def scipy_entropy(x: Values) -> float:
    """Return exp of SciPy's entropy of scikit-learn's explained variance."""
    from scipy.stats import entropy  # noqa: PLC0415
    from sklearn.decomposition import PCA  # noqa: PLC0415

    return float(np.exp(entropy(PCA(svd_solver="full").fit(x).explained_variance_)))


def sklearn_variance(x: Values) -> float:
    """Return scikit-learn's largest explained variance, which has 1/(n − 1)."""
    from sklearn.decomposition import PCA  # noqa: PLC0415

    return float(PCA(svd_solver="full").fit(x).explained_variance_[0])


def lightly_spread(x: Values) -> float:
    """Return the mean deviation of directions."""
    from lightly.utils.debug import std_of_l2_normalized  # noqa: PLC0415

    return float(std_of_l2_normalized(torch.from_numpy(x)))


def our_spread(x: Values) -> float:
    """Return the same of our second moments."""
    z = torch.from_numpy(x)
    covariance = feddecorr.Statistics.of(z / z.norm(dim=1, keepdim=True)).moments.covariance
    return float((covariance.diagonal() * len(x) / (len(x) - 1)).sqrt().mean())


COMPARISONS = [
    Comparison(
        "stable-pretraining", "`RankMe` (PyTorch)", stable_pretraining_rankme,
        lambda x: feddecorr.rankme(x, epsilon=1e-5), "rankme(z, epsilon=1e-5)",
    ),
    Comparison("stable-pretraining", "`rankme` (JAX)", stable_pretraining_jax, feddecorr.rankme, "rankme(z)"),
    Comparison(
        "stable-pretraining", "`LiDAR`, q views each", stable_pretraining_lidar, our_lidar,
        "lidar(z, groups, delta=1e-4 * (q - 1) / q, epsilon=0)",
        "its ε of 1e-8 is added to eigenvalues before they are divided by their sum",
    ),
    Comparison(
        "monai", "`effective_rank_score`", monai_rank, our_score,
        'effective_rank(z, of="features")`, 1 − rank / min(n − 1, d)`',
    ),
    Comparison(
        "monai", "the same, as the metric casts to float32", monai_float32, our_score,
        'effective_rank(z, of="features")`, 1 − rank / min(n − 1, d)`', "small singular values are rounding in float32",
    ),
    Comparison(
        "monai", "`domain_shift`", monai_cka, lambda x: feddecorr.cka(x, x[:, : x.shape[1] // 2]), "cka(a, b)"
    ),
    Comparison(
        "weightwatcher", "`stable_rank` of a weight", weightwatcher_stable_rank, our_update,
        "diagnose_update(before, after)",
    ),
    Comparison(
        "weightwatcher", "`matrix_entropy`", weightwatcher_entropy, our_entropy,
        "effective_rank(z, centred=False, epsilon=1e-10)`, log by log of the rank`",
    ),
    Comparison(
        "scipy", "`entropy` of scikit-learn's `explained_variance_`, exp", scipy_entropy, feddecorr.effective_rank,
        "effective_rank(z)",
    ),
    Comparison(
        "scikit-learn", "`PCA().explained_variance_`", sklearn_variance,
        lambda x: feddecorr.singular_values(x)[0] * len(x) / (len(x) - 1), "singular_values(z) * n / (n - 1)",
    ),
    Comparison(
        "lightly", "`std_of_l2_normalized`", lightly_spread, our_spread, "Statistics.of(directions)`: no rank`"
    ),
]  # fmt: skip


def difference(theirs: float, ours: float) -> float | None:
    """Return how far apart they are, by the larger of theirs and one; None where neither is defined."""
    if math.isnan(theirs) and math.isnan(ours):
        return None
    return abs(theirs - ours) / max(abs(theirs), 1.0)


def main() -> None:
    """Compare, print, and record if asked to."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--record", type=Path)
    arguments = parser.parse_args()
    sets = features()
    rows = []
    for each in COMPARISONS:
        found = {name: (float(each.theirs(x)), float(each.ours(x))) for name, x in sets.items()}
        apart = {name: difference(*both) for name, both in found.items()}
        rows.append(
            {
                "package": each.package,
                "version": version(each.package),
                "what": each.what,
                "call": each.call,
                "apart": each.apart,
                "differences": apart,
                "values": {
                    name: [None if math.isnan(value) else value for value in both] for name, both in found.items()
                },
            }
        )
        largest = max(value for value in apart.values() if value is not None)
        print(f"{each.package:20} {each.what:60} {largest:.1e}")
    if arguments.record:
        write_record(arguments.record, {"comparisons": rows})


if __name__ == "__main__":
    main()
