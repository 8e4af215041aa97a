"""What holds for every study."""

from pathlib import Path

import numpy as np
import pytest

from feddecorr.core.registry import Config
from feddecorr.paper.theory.network import no_progress
from feddecorr.paper.theory.studies import STUDIES
from feddecorr.paper.theory_settings import Alignment, ClassSweep, Decorrelate, Flow
from feddecorr.report.page import write_study

SMALL = {"dim": 4, "classes": 3, "samples": 20, "points": 3, "time": 1.0}
SETTINGS = [
    Flow(**SMALL),
    ClassSweep(**SMALL),
    Decorrelate(**SMALL, beta=0.5),
    Alignment(data="digits", dim=4, epochs=(1, 2), epoch_samples=300),
]


@pytest.mark.parametrize("settings", SETTINGS, ids=lambda settings: type(settings).__name__)
def test_progress_is_reported_from_beginning_to_end(settings: Config) -> None:
    """Shares rise from near zero to one, and listening changes nothing."""
    heard: list[float] = []
    study = STUDIES[type(settings)]
    found = study(settings, heard.append)
    assert heard == sorted(heard)
    assert 0 <= heard[0] < 0.25
    assert heard[-1] == pytest.approx(1)
    assert study(settings, no_progress).document == found.document


@pytest.mark.parametrize("settings", SETTINGS, ids=lambda settings: type(settings).__name__)
def test_a_study_leaves_a_page_pictures_and_figures(settings: Config, tmp_path: Path) -> None:
    """All files are there, and the page loads nothing from elsewhere."""
    found = STUDIES[type(settings)](settings, no_progress)
    page, *files = write_study(found, tmp_path / "out")
    pictures = {f"{picture.file}.svg" for picture in found.pictures}
    assert {file.name for file in files} == {"result.json", "arrays.npz", *pictures}
    text = page.read_text()
    assert 'src="http' not in text
    assert all(picture.heading in text for picture in found.pictures)
    with np.load(tmp_path / "out" / "arrays.npz") as arrays:
        for name, array in found.arrays.items():
            np.testing.assert_array_equal(arrays[name], array)
