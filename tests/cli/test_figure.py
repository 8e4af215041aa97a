import re
from pathlib import Path

import numpy as np
import pytest
from command_line import CommandLine
from made_up import over_seeds, summary
from small import small

from feddecorr.errors import UserError
from feddecorr.report.printed import draw
from feddecorr.report.run_figures import FIGURES, FigureData
from feddecorr.results.summary import Summary, read_summaries
from feddecorr.runs.directory import RunDirectory
from feddecorr.runs.pipeline import run


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder of runs that have recorded all that any figure shows: two seeds, without and with FedDecorr."""
    folder = tmp_path_factory.mktemp("runs")
    for regularizers in ("none", "feddecorr"):
        for seed in range(2):
            words = [f"regularizers={regularizers}", f"seed={seed}"]
            extra = ["rounds=2", "evaluation.clients=true", "evaluation.epochs=true"]
            list(run(*small(*words, *extra), folder / "-".join(words)))
    return folder


@pytest.mark.parametrize("name", FIGURES)
def test_every_figure_is_printed_of_real_runs(name: str, feddecorr: CommandLine, runs: Path, tmp_path: Path) -> None:
    done = feddecorr("figure", name, runs, "-o", tmp_path / "deep" / f"{name}.pdf", "--json")
    assert done.code == 0, done.err
    assert Path(done.document["figure"]).read_bytes().startswith(b"%PDF")


def test_the_help_names_every_figure(feddecorr: CommandLine) -> None:
    said = re.sub(r"\s+", " ", feddecorr("figure", "--help").out)
    assert all(re.search(rf"\b{name}[,. ]", said) for name in FIGURES)


def test_seeds_are_one_line_with_a_band() -> None:
    """Mean and deviation of each round, by hand: 40 and 60 percent are 50 ± 14.1."""
    found = FIGURES["accuracy"](FigureData(over_seeds("", [0.4, 0.6]) + over_seeds("clients=5", [0.7])))
    (panel,) = found.panels
    alone, both = panel.series
    assert [alone.name, both.name] == ["clients = 5", "clients = 10"]
    assert set(alone.y) == {70.0}
    assert len(alone.spread) == 0
    np.testing.assert_allclose(both.y, 50)
    np.testing.assert_allclose(both.spread, np.std([40, 60], ddof=1))


def test_panels_are_made_by_a_setting() -> None:
    runs = [summary(f"partition.alpha={alpha} {words}") for alpha in (0.05, 0.5) for words in ("", "method=moon")]
    found = FIGURES["spectra"](FigureData(runs, panels=["partition.alpha"]))
    assert [panel.title for panel in found.panels] == ["α = 0.05", "α = 0.5"]
    assert [[line.name for line in panel.series] for panel in found.panels] == [["FedAvg", "MOON (μ = 1.0)"]] * 2
    np.testing.assert_allclose(found.panels[0].series[0].y, np.log([4.0] * 4 + [1.0] * 4))


def test_a_name_has_one_colour_in_all_panels() -> None:
    """Also where a panel lacks some of the lines."""
    words = ["partition.alpha=0.05 method=moon", "partition.alpha=0.5", "partition.alpha=0.5 method=moon"]
    found = FIGURES["spectra"](FigureData([summary(each) for each in words], panels=["partition.alpha"]))
    lines = [line for axis in draw(found).axes for line in axis.lines if not str(line.get_label()).startswith("_")]
    colours = {(str(line.get_label()), line.get_color()) for line in lines}
    assert sorted(name for name, _ in colours) == ["FedAvg", "MOON (μ = 1.0)"]
    assert len({colour for _, colour in colours}) == 2


def test_beta_is_an_axis_on_which_runs_without_the_loss_are_at_zero() -> None:
    runs = [
        *over_seeds("", [0.5]),
        *over_seeds("regularizers=feddecorr regularizers.feddecorr.beta=0.1", [0.6, 0.7]),
        *over_seeds("regularizers=decov", [0.9]),
    ]
    (panel,) = FIGURES["beta"](FigureData(runs)).panels
    (line,) = panel.series
    assert list(line.x) == [0.0, 0.1]
    np.testing.assert_allclose(line.y, [50, 65])


def test_labels_are_those_of_the_split(runs: Path) -> None:
    """Runs of one seed with the same split share a panel."""
    folders = sorted(path for path in runs.iterdir() if "seed=0" in path.name)
    digests = {RunDirectory.open(path).settings()[0].digest(): path for path in folders}
    found = FIGURES["labels"](FigureData(read_summaries(folders), digests))
    (panel,) = found.panels
    counts = RunDirectory.open(folders[0]).roster().labels
    assert counts is not None
    assert panel.matrix is not None
    np.testing.assert_array_equal(panel.matrix, counts.table().T)


def test_points_of_the_sphere_have_length_one(runs: Path) -> None:
    folder = next(iter(sorted(runs.iterdir())))
    digests = {RunDirectory.open(folder).settings()[0].digest(): folder}
    (panel,) = FIGURES["sphere"](FigureData(read_summaries([folder]), digests)).panels
    assert set(panel.cloud) == {f"class {number}" for number in range(4)}
    np.testing.assert_allclose(np.linalg.norm(np.concatenate(list(panel.cloud.values())), axis=1), 1)


NEEDS = {
    "local-spectra": "evaluation.clients=true",
    "client-spectra": "evaluation.clients=true",
    "loss": "evaluation.epochs=true",
    "beta": "no runs with different regularizers.feddecorr.beta",
    "labels": "needs the run's own directory",
    "sphere": "needs the run's own directory",
}


@pytest.mark.parametrize("name", NEEDS)
def test_what_was_not_recorded_is_asked_for(name: str) -> None:
    runs: list[Summary] = over_seeds("", [0.5, 0.6])
    with pytest.raises(UserError, match=NEEDS[name]):
        FIGURES[name](FigureData(runs))


def test_what_cannot_be_drawn_is_refused_before_any_work(feddecorr: CommandLine, tmp_path: Path) -> None:
    unknown = feddecorr("figure", "spectrum", tmp_path, "-o", tmp_path / "a.pdf")
    assert (unknown.code, "did you mean 'spectra'" in unknown.err) == (2, True)
    format_ = feddecorr("figure", "spectra", tmp_path, "-o", tmp_path / "a.gif")
    assert (format_.code, "ends in .pdf" in format_.err) == (2, True)
    nothing = feddecorr("figure", "spectra", tmp_path, "-o", tmp_path / "a.pdf")
    assert (nothing.code, "no run with a finished round" in nothing.err) == (2, True)
    assert not list(tmp_path.iterdir())
