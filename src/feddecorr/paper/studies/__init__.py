"""Every study by name: the paper's, and your own."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from feddecorr.core.registry import Config
from feddecorr.core.trust import import_named
from feddecorr.errors import UserError, nearest
from feddecorr.paper.studies import accuracy, beyond, collapse, rivals
from feddecorr.paper.theory import studies as theory
from feddecorr.paper.theory.network import no_progress
from feddecorr.paper.theory_settings import Alignment, ClassSweep, Decorrelate, Flow
from feddecorr.report.figures import draw
from feddecorr.results.study import Arm, Figure, Finding, Result, Study, Table

ON_DIGITS = (Flow(), ClassSweep(), Alignment(data="digits"), Decorrelate())

PARTS: dict[str, tuple[Config, ...]] = {
    "paper": (Flow(), ClassSweep(), Alignment(data="mnist"), Decorrelate()),
    "small": ON_DIGITS,
    "many": ON_DIGITS,
    "protocol": (Flow(), ClassSweep(), Alignment(data="mnist"), Decorrelate()),
    "protocol-small": ON_DIGITS,
    "smoke": (
        Flow(dim=6, classes=4, samples=40, points=11),
        ClassSweep(dim=6, classes=4, samples=40),
        Alignment(data="digits", dim=16, epoch_samples=1437),
        Decorrelate(time=0.5, points=6, dim=8, classes=4, samples=80),
    ),
}
"""The settings of each study of the theory, by scale."""


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
        return [finding for settings in PARTS[scale] for finding in _show(settings)]


def _show(settings: Config) -> list[Finding]:
    try:
        found = theory.STUDIES[type(settings)](settings, no_progress)
    except UserError as error:  # MNIST is not here
        return [Table(f"{type(settings).__name__}: missing", ["why"], [[str(error)]])]
    pictures = [Figure(f"{found.title}: {each.heading}", partial(draw, each), each.text) for each in found.pictures]
    return [Table(found.title, found.headings, found.rows, found.lead), *pictures]


STUDIES: dict[str, Study] = {
    study.name: study
    for study in (
        collapse.SPHERE,
        collapse.COLLAPSE,
        collapse.COLLAPSE_LOCAL,
        collapse.COLLAPSE_METHODS,
        collapse.COLLAPSE_MODELS,
        collapse.COLLAPSE_DATA,
        collapse.MITIGATION,
        accuracy.CIFAR10,
        accuracy.CIFAR100,
        accuracy.TINYIMAGENET,
        accuracy.ROUNDS,
        accuracy.CLIENTS,
        accuracy.BETA,
        accuracy.EPOCHS,
        accuracy.DECORRELATION,
        accuracy.ARCHITECTURES,
        accuracy.BASELINES,
        accuracy.CLASSES_PER_CLIENT,
        rivals.COMPUTATION,
        collapse.STABILITY,
        GradientFlow(),
        beyond.LOSS_SCALE,
        beyond.SCHEDULE,
        beyond.MANY_CLASSES,
        beyond.NORMS,
        beyond.AVERAGING,
        beyond.SWING,
        rivals.RIVALS,
        rivals.CHECKLIST,
        beyond.DYING,
        beyond.DYING_BY_BETA,
        beyond.DYING_LARGER,
    )
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
        of_place = [each for each, study in STUDIES.items() if study.place.replace(" ", "") == name.lower()]
        said = f"{name} is {' and '.join(of_place)}" if of_place else nearest(name, [*STUDIES, ALL])
        raise UserError(f"unknown study '{name}': {said}")
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
