import numpy as np
import pytest
import torch

from feddecorr.collapse.diagnosis import Diagnosis
from feddecorr.collapse.gathered import Batch
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
