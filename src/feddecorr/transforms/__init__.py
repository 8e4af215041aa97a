"""Transforms of updates by name: they act between validation and aggregation, whatever the method."""

from feddecorr.core.registry import Registry
from feddecorr.transforms.attack import Attack
from feddecorr.transforms.private import Clip, LocallyPrivate, Private
from feddecorr.transforms.robust import GeometricMedian, Krum, Median, TrimmedMean
from feddecorr.transforms.transform import Transform

TRANSFORMS = Registry(
    "transform",
    Transform,
    {
        "clip": Clip,
        "median": Median,
        "trimmed_mean": TrimmedMean,
        "geometric_median": GeometricMedian,
        "krum": Krum,
        "private": Private,
        "locally_private": LocallyPrivate,
        "attack": Attack,
    },
)
