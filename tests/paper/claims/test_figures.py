"""The figures of the claims show what the claims say."""

from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from benchmarks.quotes.drawn import FOLDER, PICTURES
from benchmarks.quotes.moving import draw_moving
from command_line import CommandLine
from made_up import over_seeds

from feddecorr.errors import UserError
from feddecorr.paper.claims import judge
from feddecorr.paper.claims.claim import Claim, ClaimPart
from feddecorr.paper.claims.figures import FACTORS, PAPER, forest, gains_by_round
from feddecorr.report.printed import save
from feddecorr.results.summary import STATISTICS, Summary, write_summaries

WORDS = "data=cifar10 partition.alpha=0.05 rounds=30"


@pytest.fixture(scope="module")
def runs() -> list[Summary]:
    """Return five seeds without and with FedDecorr, which gains three points."""
    plain = over_seeds(WORDS, [0.5 + 0.01 * seed for seed in range(5)])
    better = over_seeds(f"{WORDS} regularizers=feddecorr", [0.53 + 0.01 * seed for seed in range(5)])
    return [*plain, *better]


@pytest.fixture(scope="module")
def claims(runs: list[Summary]) -> list[Claim]:
    """Return what the claims say of them."""
    return judge(runs)


def test_the_forest_plot_has_a_row_for_every_part_and_a_column_for_every_statistic(claims: list[Claim]) -> None:
    """Mean, interval and the paper's value are where the claim has them."""
    parts = [part for claim in claims for part in claim.parts if isinstance(part, ClaimPart)]
    picture = forest(claims)
    assert [panel.title for panel in picture.panels] == [*STATISTICS.values(), FACTORS]
    assert picture.origin
    first = picture.panels[0]
    assert first.names is not None
    assert len(first.names[1]) == len(parts)
    row = next(row for row, name in enumerate(first.names[1]) if name == "4: gain at alpha 0.05")
    shown = {series.name: dict(zip(series.y, series.x, strict=True)) for series in first.series}
    assert shown["true"][row] == pytest.approx(3.0)
    assert shown[PAPER][row] == pytest.approx(100 * (parts[row].paper or np.nan))


def test_the_gain_by_round_is_paired(claims: list[Claim]) -> None:
    """Seeds differ by points, their differences do not: the band has no width, as unpaired deviations would."""
    for panel in gains_by_round(claims).panels:
        (line,) = panel.series
        np.testing.assert_allclose(line.y, 3.0)
        np.testing.assert_allclose(line.spread, 0.0, atol=1e-9)


def test_without_records_there_is_nothing_to_draw() -> None:
    nothing = judge([])
    with pytest.raises(UserError, match="nothing to draw"):
        forest(nothing)
    with pytest.raises(UserError, match="no gain to draw"):
        gains_by_round(nothing)


def test_the_command_writes_both(runs: list[Summary], feddecorr: CommandLine, tmp_path: Path) -> None:
    write_summaries(tmp_path / "runs.jsonl", runs)
    files = [tmp_path / "forest.svg", tmp_path / "gains.svg"]
    assert feddecorr("claims", tmp_path / "runs.jsonl", "--forest", files[0], "--gains", files[1]).code == 0
    for file in files:
        ElementTree.fromstring(file.read_bytes())  # noqa: S314 - our own text


def test_the_moving_picture_is_that_of_its_record(tmp_path: Path) -> None:
    """Byte for byte; every line has a frame for each round, and rests on the last."""
    draw_moving(tmp_path / "again.svg")
    drawn = (tmp_path / "again.svg").read_bytes()
    assert drawn == (FOLDER / "moving" / "spectra.svg").read_bytes()
    lines = [each for each in ElementTree.fromstring(drawn).iter() if each.tag.endswith("polyline")]  # noqa: S314
    assert len(lines) == 3
    for line in lines:
        frames = line[0].attrib["values"].split(";")
        assert frames[-1] == frames[-2] == line.attrib["points"]
        assert len(set(frames)) == len(frames) - 1


@pytest.mark.parametrize("name", PICTURES)
def test_the_figures_of_the_page_are_those_of_the_records(name: str, tmp_path: Path) -> None:
    """Byte for byte; if not, `make quotes` draws them anew."""
    save(PICTURES[name](), tmp_path / "again.svg")
    assert (tmp_path / "again.svg").read_bytes() == (FOLDER / f"{name}.svg").read_bytes()
