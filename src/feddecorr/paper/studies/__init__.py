"""Every study by name: the paper's, and your own."""

from __future__ import annotations

from feddecorr.core.trust import import_named
from feddecorr.errors import UserError, nearest
from feddecorr.paper.studies import accuracy, beyond, collapse, rivals
from feddecorr.paper.studies.gradient_flow import GradientFlow
from feddecorr.results.study import Study

STUDIES: dict[str, Study] = {
    "sphere": collapse.SPHERE,
    "collapse": collapse.COLLAPSE,
    "collapse-local": collapse.COLLAPSE_LOCAL,
    "collapse-methods": collapse.COLLAPSE_METHODS,
    "collapse-models": collapse.COLLAPSE_MODELS,
    "collapse-data": collapse.COLLAPSE_DATA,
    "mitigation": collapse.MITIGATION,
    "cifar10": accuracy.CIFAR10,
    "cifar100": accuracy.CIFAR100,
    "tinyimagenet": accuracy.TINYIMAGENET,
    "rounds": accuracy.ROUNDS,
    "clients": accuracy.CLIENTS,
    "beta": accuracy.BETA,
    "epochs": accuracy.EPOCHS,
    "decorrelation": accuracy.DECORRELATION,
    "architectures": accuracy.ARCHITECTURES,
    "baselines": accuracy.BASELINES,
    "classes": accuracy.CLASSES_PER_CLIENT,
    "computation": rivals.COMPUTATION,
    "stability": collapse.STABILITY,
    "theory": GradientFlow(),
    "loss-scale": beyond.LOSS_SCALE,
    "schedule": beyond.SCHEDULE,
    "many-classes": beyond.MANY_CLASSES,
    "norms": beyond.NORMS,
    "averaging": beyond.AVERAGING,
    "swing": beyond.SWING,
    "rivals": rivals.RIVALS,
    "dying": beyond.DYING,
}
"""In the order of the paper, and then beyond it."""


ALL = "all"


def find_studies(name: str) -> list[Study]:
    """Return the study of that name, all of them for `all`, or the one that `package.module:Study` is."""
    if name == ALL:
        return list(STUDIES.values())
    if ":" in name:
        return [_import(name)]
    if name not in STUDIES:
        raise UserError(f"unknown study '{name}': {nearest(name, [*STUDIES, ALL])}")
    return [STUDIES[name]]


def _import(name: str) -> Study:
    found = import_named(name)
    try:
        study = found() if isinstance(found, type) else found
    except Exception as error:  # whatever a user's class raises
        raise UserError(f"study '{name}' cannot be created: {error}") from error
    if not isinstance(study, Study):
        raise UserError(f"study '{name}' is not a feddecorr.results.study.Study")
    return study
