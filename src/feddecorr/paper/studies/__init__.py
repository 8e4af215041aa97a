"""Every study by name."""

from __future__ import annotations

from feddecorr.paper.studies import ablations, accuracy, beyond, collapse_figures
from feddecorr.paper.studies.computation import COMPUTATION
from feddecorr.paper.studies.gradient_flow import GradientFlow
from feddecorr.paper.studies.rivals import RIVALS
from feddecorr.paper.studies.sphere import SPHERE
from feddecorr.paper.studies.stability import STABILITY
from feddecorr.paper.studies.swing import SWING
from feddecorr.results.study import Study

STUDIES: dict[str, Study] = {
    "sphere": SPHERE,
    "collapse": collapse_figures.COLLAPSE,
    "collapse-local": collapse_figures.COLLAPSE_LOCAL,
    "collapse-methods": collapse_figures.COLLAPSE_METHODS,
    "collapse-models": collapse_figures.COLLAPSE_MODELS,
    "collapse-data": collapse_figures.COLLAPSE_DATA,
    "mitigation": collapse_figures.MITIGATION,
    "cifar10": accuracy.CIFAR10,
    "cifar100": accuracy.CIFAR100,
    "tinyimagenet": accuracy.TINYIMAGENET,
    "rounds": accuracy.ROUNDS,
    "clients": ablations.CLIENTS,
    "beta": ablations.BETA,
    "epochs": ablations.EPOCHS,
    "decorrelation": ablations.DECORRELATION,
    "architectures": ablations.ARCHITECTURES,
    "baselines": accuracy.BASELINES,
    "classes": ablations.CLASSES_PER_CLIENT,
    "computation": COMPUTATION,
    "stability": STABILITY,
    "theory": GradientFlow(),
    "loss-scale": beyond.LOSS_SCALE,
    "schedule": beyond.SCHEDULE,
    "many-classes": beyond.MANY_CLASSES,
    "norms": beyond.NORMS,
    "averaging": beyond.AVERAGING,
    "swing": SWING,
    "rivals": RIVALS,
    "dying": beyond.DYING,
}
"""In the order of the paper, and then beyond it."""
