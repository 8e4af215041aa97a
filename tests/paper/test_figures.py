"""What figures show."""

import math
from dataclasses import replace
from typing import Any

import pytest
from made_up import results, summary
from small import small

from feddecorr import run
from feddecorr.collapse.spectrum import SMALLEST_LOG, logarithms
from feddecorr.paper.studies import STUDIES
from feddecorr.report.figures import bands
from feddecorr.results.study import Arm, Figure, Result
from feddecorr.results.summary import Summary


def figures(name: str, make: Any, scale: str = "paper", seeds: int = 2) -> dict[str, Any]:
    study = STUDIES[name]
    found = study.findings(results(study.arms(scale, seeds), make), scale)
    return {finding.title: finding.draw() for finding in found if isinstance(finding, Figure)}


def lines(figure: Any) -> dict[str, Any]:
    return {trace.name: trace for trace in figure.data if trace.name}


def test_a_line_is_the_mean_over_seeds_in_a_band_of_their_deviation() -> None:
    """Seeds 0 and 1 reach 0.4 and 0.6: the mean is 0.5, the deviation √0.02."""

    def make(arm: Arm) -> Summary:
        return summary(arm, accuracy=0.4 + 0.2 * int(arm.labels["seed"]))

    drawn = next(
        figure for title, figure in figures("rounds", make).items() if title == "Accuracy per round: CIFAR-10, α = 0.05"
    )
    assert list(lines(drawn)) == ["FedAvg", "FedAvg + FedDecorr"]
    assert list(lines(drawn)["FedAvg"].x) == list(range(1, 101))
    assert lines(drawn)["FedAvg"].y == pytest.approx([50] * 100)
    above, below = drawn.data[0].y, drawn.data[1].y
    assert above[0] == pytest.approx(50 + 100 * math.sqrt(0.02))
    assert below[0] == pytest.approx(50 - 100 * math.sqrt(0.02))


def test_spectra_are_drawn_for_every_alpha_on_the_paper_s_axes() -> None:
    """Logarithms of the recorded singular values, with the threshold."""
    (drawn,) = figures("collapse", lambda arm: summary(arm, tail=math.exp(-1))).values()
    assert list(lines(drawn)) == ["α = 0.01", "α = 0.05", "α = 0.25", "α = ∞"]
    assert lines(drawn)["α = ∞"].y[-1] == pytest.approx(-1)
    assert "τ" in drawn.layout.annotations[0].text


def test_local_spectra_are_those_of_the_first_client_and_of_all() -> None:
    """Two figures; a run without local models is named as missing."""

    def make(arm: Arm) -> Summary:
        return summary(arm, local_rank=None if arm.labels["alpha"] == 0.01 else 4.0)

    study = STUDIES["collapse-local"]
    found = study.findings(results(study.arms("paper", 1), make), "paper")
    one, every = [finding for finding in found if isinstance(finding, Figure)]
    assert "first client" in one.title
    assert "all clients" in every.title
    assert list(lines(one.draw())) == ["α = 0.05", "α = 0.25", "α = ∞"]
    assert "Missing: α = 0.01" in one.note


def test_the_loss_is_drawn_for_each_client() -> None:
    """Over the local epochs."""
    curves = {"0": [2.0, 1.0, 0.5], "1": [1.0, 0.9, 0.8]}
    (drawn,) = figures("stability", lambda arm: summary(arm, terms=curves)).values()
    assert {name: list(trace.y) for name, trace in lines(drawn).items()} == {
        f"client {client}": values for client, values in curves.items()
    }


def test_points_on_the_sphere_are_unit_vectors_of_the_test_images(tmp_path: Any) -> None:
    """Of a run's last model; drawn from its directory, and missing without one."""
    list(run(*small("rounds=1"), tmp_path / "run"))
    study = STUDIES["sphere"]
    first, *others = [Result(arm.labels, summary(arm)) for arm in study.arms("smoke", 1)]
    found = study.findings([replace(first, directory=tmp_path / "run"), *others], "smoke")
    one, *missing = [finding for finding in found if isinstance(finding, Figure)]
    assert one.title == "α = ∞"
    lengths = [math.hypot(*point) for trace in one.draw().data for point in zip(trace.x, trace.y, trace.z, strict=True)]
    assert lengths == pytest.approx([1.0] * 40)
    assert [figure.title for figure in missing] == ["α = 0.05", "α = 0.05, FedDecorr"]
    assert all("Missing" in figure.note for figure in missing)


def test_logarithms_go_no_further_down_than_is_drawn() -> None:
    """Zero has none, and a hundred are enough."""
    assert logarithms([1.0, 0.0, 1e-300]) == [0.0, SMALLEST_LOG, SMALLEST_LOG]
    assert len(logarithms([1.0] * 500)) == 100


def test_a_band_of_no_width_is_not_drawn() -> None:
    """One seed is a line."""
    assert len(bands({"a": ([1, 2], [0.1, 0.2], [0.0, 0.0])}, "x", "y").data) == 1
    assert len(bands({"a": ([1, 2], [0.1, 0.2], [0.1, 0.0])}, "x", "y").data) == 3
