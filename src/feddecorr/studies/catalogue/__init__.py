"""Every study by its name."""

from __future__ import annotations

from feddecorr.studies.study import Study

STUDIES: dict[str, Study] = {}
