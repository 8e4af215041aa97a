"""Every study by name: the paper's, and your own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from feddecorr.core.trust import import_named
from feddecorr.errors import UserError, nearest
from feddecorr.paper.studies import accuracy, beyond, collapse, rivals
from feddecorr.paper.theory.studies.alignment import study_alignment
from feddecorr.paper.theory.studies.class_sweep import study_sweep
from feddecorr.paper.theory.studies.decorrelate import study_decorrelate
from feddecorr.paper.theory.studies.flow import study_flow
from feddecorr.paper.theory_settings import Alignment, ClassSweep, Decorrelate, Flow
from feddecorr.report.figures import draw
from feddecorr.results.study import Arm, Figure, Finding, Result, Study, Table

TheoryPart = tuple[Callable[[Any], Any], Flow | ClassSweep | Alignment | Decorrelate]

ON_DIGITS: tuple[TheoryPart, ...] = (
    (study_flow, Flow()),
    (study_sweep, ClassSweep()),
    (study_alignment, Alignment(data="digits")),
    (study_decorrelate, Decorrelate()),
)

PARTS: dict[str, tuple[TheoryPart, ...]] = {
    "paper": (
        (study_flow, Flow()),
        (study_sweep, ClassSweep()),
        (study_alignment, Alignment(data="mnist")),
        (study_decorrelate, Decorrelate()),
    ),
    "small": ON_DIGITS,
    "many": ON_DIGITS,
    "smoke": (
        (study_flow, Flow(dim=6, classes=4, samples=40, points=11)),
        (study_sweep, ClassSweep(dim=6, classes=4, samples=40)),
        (study_alignment, Alignment(data="digits", dim=16, epoch_samples=1437)),
        (study_decorrelate, Decorrelate(time=0.5, points=6, dim=8, classes=4, samples=80)),
    ),
}


class GradientFlow(Study):
    """Growth of singular values, measured and predicted; ranks by number of classes; alignment; the term's effect."""

    name = "theory"
    shows = "gradient flow of deep linear networks"
    place = "section 3.3 and figure 6"

    def arms(self, scale: str, seeds: int) -> list[Arm]:  # noqa: ARG002 - nothing is run
        """Return nothing: all is computed when it is shown."""
        return []

    def findings(self, results: Sequence[Result], scale: str) -> list[Finding]:  # noqa: ARG002 - there are none
        """Return the tables and pictures of every part of the theory."""
        return [finding for compute, settings in PARTS[scale] for finding in _show(compute, settings)]


def _show(compute: Callable[[Any], Any], settings: Any) -> list[Finding]:
    try:
        found = compute(settings)
    except UserError as error:  # MNIST is not here
        return [Table(f"{type(settings).__name__}: missing", ["why"], [[str(error)]])]
    pictures = [Figure(f"{found.title}: {each.heading}", partial(draw, each), each.text) for each in found.pictures]
    return [Table(found.title, found.headings, found.rows, found.lead), *pictures]


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
    "dying-by-beta": beyond.DYING_BY_BETA,
    "dying-larger": beyond.DYING_LARGER,
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
