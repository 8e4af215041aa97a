"""Samples on the unit sphere of three directions, as in the paper's figure 1."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from feddecorr.collapse.diagnosis import Diagnosis
from feddecorr.errors import UserError

DRAWN = 1500
"""So many points show the shape, and a page with several spheres stays small."""


def sphere_points(diagnosis: Diagnosis, largest: int | None = None) -> dict[str, NDArray[np.float64]]:
    """Return points (n, 3) of length 1 by class, the class with the most samples first; 'all' where no label is known.

    Features are projected to the three strongest principal directions of what is drawn, and scaled to length 1.
    With `largest`, only the samples of that many classes are taken, those with the most samples.
    """
    if diagnosis.gathered is None or diagnosis.principal is None:
        raise UserError(f"no samples of '{diagnosis.name}' were kept to be drawn")
    if diagnosis.dimensions < 3:
        raise UserError(f"'{diagnosis.name}' has {diagnosis.dimensions} dimensions: a sphere takes three")
    sample = diagnosis.gathered.sample.batch
    classes = diagnosis.per_class_samples or {}
    shown = sorted(classes, key=lambda label: (-classes[label], int(label)))[: largest or len(classes)]
    labels = torch.zeros(len(sample.z)) if sample.labels is None else sample.labels.cpu()
    kept = torch.isin(labels, torch.tensor([int(label) for label in shown])) if shown else labels == 0
    z, labels = sample.z.cpu().double()[kept], labels[kept]
    centred = z - z.mean(0)
    axes = torch.linalg.svd(centred, full_matrices=False).Vh[:3] if largest else diagnosis.principal.directions[:, :3].T
    points = centred @ axes.cpu().T
    points = points / points.norm(dim=1, keepdim=True).clamp(min=torch.finfo(points.dtype).tiny)
    step = max(1, -(-len(points) // DRAWN))
    points, labels = points[::step], labels[::step]
    return {label: points[labels == int(label)].numpy() for label in shown} or {"all": points.numpy()}
