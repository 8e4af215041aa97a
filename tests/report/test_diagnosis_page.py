from pathlib import Path

import numpy as np
import pytest
import torch
from faultless_page import faultless_page
from playwright.sync_api import Browser

from feddecorr.collapse.diagnosis import Diagnosis
from feddecorr.collapse.statistics import Batch
from feddecorr.errors import UserError
from feddecorr.report import diagnosis_page as pictures


def look(name: str = "a", classes: int = 4, d: int = 6) -> Diagnosis:
    stream = torch.Generator().manual_seed(0)
    labels = torch.arange(80) % classes
    z = torch.randn(80, d, generator=stream) + 3 * torch.randn(classes, d, generator=stream)[labels]
    return Diagnosis.of_features(name, [Batch(z, labels)])


@pytest.mark.parametrize("largest", [None, 3])
def test_points_lie_on_the_unit_sphere_one_colour_for_each_class(largest: int | None) -> None:
    """All classes, or the largest three of them."""
    drawn = pictures.sphere(look(), largest)
    assert len(drawn.data) == (largest or 4)
    for cloud in drawn.data:
        assert len(cloud.x) == 20
        np.testing.assert_allclose(np.linalg.norm([cloud.x, cloud.y, cloud.z], axis=0), 1)


def test_the_grid_is_of_clients_only() -> None:
    """A model that is no client's has no panel."""
    with pytest.raises(UserError, match="'a' is not the model of a client"):
        pictures.grid([look()])


def test_what_was_not_kept_cannot_be_drawn() -> None:
    """Of what a run records, there are neither samples nor tables; the message says of which model."""
    recorded = Diagnosis.from_dict({**look().recorded(), "name": "b"})
    for draw in (pictures.sphere, pictures.angles, pictures.alignments):
        with pytest.raises(UserError, match="'b'"):
            draw(recorded)


def test_angles_between_class_means_are_a_table_of_classes() -> None:
    """As many rows and columns as classes."""
    assert np.array(pictures.angles(look(classes=5)).data[0].z).shape == (5, 5)


def test_two_models_lie_side_by_side_with_legends_that_nothing_covers(browser: Browser, tmp_path: Path) -> None:
    """Each model has one block of the answer, and ten classes have ten colours."""
    pictures.write_diagnosis([look("first", 10), look("second", 10)], tmp_path / "page.html")
    with faultless_page(browser, offline=True) as page:
        page.goto(tmp_path.joinpath("page.html").as_uri())
        headings = (page.get_by_role("heading", name=name, exact=True) for name in ("The answer", "Spheres"))
        answer, spheres = (page.locator("section", has=heading) for heading in headings)
        assert answer.locator("h3").all_text_contents() == ["first", "second"]
        for section, parts in ((answer, "h3"), (spheres, ".plotly-graph-div")):
            left, right = (place.bounding_box() for place in section.locator(parts).all())
            assert left is not None
            assert right is not None
            assert left["y"] == right["y"]
            assert left["x"] + left["width"] <= right["x"]
        for figure in spheres.locator(".plotly-graph-div").all():
            assert figure.evaluate("figure => new Set(figure.data.map(cloud => cloud.marker.color)).size") == 10
            legend, toolbar = (figure.locator(part).bounding_box() for part in (".legend", ".modebar"))
            assert legend is not None
            assert toolbar is not None
            assert legend["y"] > toolbar["y"] + toolbar["height"]
