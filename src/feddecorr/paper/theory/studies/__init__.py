"""The studies of the theory, by the settings that each takes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from feddecorr.core.registry import Config
from feddecorr.paper.theory.network import ProgressCallback
from feddecorr.paper.theory.studies.alignment import study_alignment
from feddecorr.paper.theory.studies.class_sweep import study_sweep
from feddecorr.paper.theory.studies.decorrelate import study_decorrelate
from feddecorr.paper.theory.studies.flow import study_flow
from feddecorr.paper.theory_settings import Alignment, ClassSweep, Decorrelate, Flow
from feddecorr.report.picture import StudyContent

STUDIES: dict[type[Config], Callable[[Any, ProgressCallback], StudyContent]] = {
    Flow: study_flow,
    ClassSweep: study_sweep,
    Alignment: study_alignment,
    Decorrelate: study_decorrelate,
}
