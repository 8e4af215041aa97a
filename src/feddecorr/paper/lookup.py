"""Studies by name: the project's own, and anybody's."""

from __future__ import annotations

from feddecorr.core.trust import import_named
from feddecorr.errors import UserError, nearest
from feddecorr.paper.studies import STUDIES
from feddecorr.results.study import Study

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
        raise UserError(f"study '{name}' cannot be made: {error}") from error
    if not isinstance(study, Study):
        raise UserError(f"study '{name}' is no subclass of feddecorr.results.study.Study")
    return study
