"""What holds for every study."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from feddecorr.paper.theory.studies.alignment import study_alignment
from feddecorr.paper.theory.studies.class_sweep import study_sweep
from feddecorr.paper.theory.studies.decorrelate import study_decorrelate
from feddecorr.paper.theory.studies.flow import study_flow
from feddecorr.paper.theory_settings import Alignment, ClassSweep, Decorrelate, Flow
from feddecorr.report.page import write_study
from feddecorr.report.picture import StudyContent

SMALL = {"dim": 4, "classes": 3, "samples": 20, "points": 3, "time": 1.0}
STUDIES: dict[Callable[..., StudyContent], Any] = {
    study_flow: Flow(**SMALL),
    study_sweep: ClassSweep(**SMALL),
    study_decorrelate: Decorrelate(**SMALL, beta=0.5),
    study_alignment: Alignment(data="digits", dim=4, epochs=(1, 2), epoch_samples=300),
}


@pytest.mark.parametrize("study", STUDIES)
def test_progress_is_reported_from_beginning_to_end(study: Callable[..., StudyContent]) -> None:
    """Shares rise from near zero to one, and listening changes nothing."""
    heard: list[float] = []
    found = study(STUDIES[study], heard.append)
    assert heard == sorted(heard)
    assert 0 <= heard[0] < 0.25
    assert heard[-1] == pytest.approx(1)
    assert study(STUDIES[study]).document == found.document


@pytest.mark.parametrize("study", STUDIES)
def test_a_study_leaves_a_page_pictures_and_figures(study: Callable[..., StudyContent], tmp_path: Path) -> None:
    """All files are there, and the page loads nothing from elsewhere."""
    found = study(STUDIES[study])
    page, *files = write_study(found, tmp_path / "out")
    pictures = {f"{picture.file}.svg" for picture in found.pictures}
    assert {file.name for file in files} == {"result.json", "arrays.npz", *pictures}
    text = page.read_text()
    assert 'src="http' not in text
    assert all(picture.heading in text for picture in found.pictures)
    with np.load(tmp_path / "out" / "arrays.npz") as arrays:
        for name, array in found.arrays.items():
            np.testing.assert_array_equal(arrays[name], array)
