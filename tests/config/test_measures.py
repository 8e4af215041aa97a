"""Measures beyond those that every diagnosis has: named in an experiment, they go wherever the others go."""

from pathlib import Path

import numpy as np
import pytest
import torch
from command_line import CommandLine
from outside import Gini
from small import small

from feddecorr.collapse.diagnosis import CustomMeasure, diagnose
from feddecorr.collapse.measures import Principal
from feddecorr.collapse.statistics import Statistics
from feddecorr.config.overrides import read_overrides
from feddecorr.config.training import MEASURES
from feddecorr.errors import UserError
from feddecorr.results.summary import Summary
from feddecorr.runs.directory import RunDirectory
from feddecorr.runs.pipeline import resume, run
from feddecorr.runs.tracking import entry_of
from feddecorr.settings.flat import overrides_of, parse_settings, to_settings

WORDS = ("evaluation.measures=explained_variance,outside:Gini", "evaluation.measures.explained_variance.components=2")


def test_a_measure_is_recorded_tabulated_shown_tracked_and_plotted(tmp_path: Path, feddecorr: CommandLine) -> None:
    """Yours as well as ours, of the global model and of the clients', without a change of the package."""
    out = tmp_path / "run"
    records = list(run(*small(*WORDS, "evaluation.clients=true", "evaluation.every=1", "rounds=2"), out))
    for record in records:
        assert record.model is not None
        assert record.model.measures is not None
        values = np.sort(record.model.singular_values)
        pairs = np.abs(values[:, None] - values).sum() / (2 * len(values) * values.sum())
        assert record.model.measures["outside:Gini"] == pytest.approx(pairs)
        assert record.model.measures["explained_variance"] == pytest.approx(values[-2:].sum() / values.sum())
        assert all(local.measures for local in record.local_models.values())
        scalars = entry_of(record).scalars
        assert scalars["outside:Gini"] == record.model.measures["outside:Gini"]
        assert "clients/0/explained_variance" in scalars
    assert [record.model for record in RunDirectory.open(out).rounds()] == [record.model for record in records]
    last = records[-1].model
    assert last is not None
    assert last.measures is not None
    assert Summary.of(RunDirectory.open(out)).statistic("last", "outside:Gini") == last.measures["outside:Gini"]
    assert "outside:Gini" in feddecorr("show", out).out
    assert f"{last.measures['outside:Gini']:.2f}" in feddecorr("table", out, "--measure", "outside:Gini").out
    assert feddecorr("report", out, "--out", tmp_path / "page.html").code == 0
    assert "Outside:gini per round" in (tmp_path / "page.html").read_text()


def test_measuring_more_changes_no_bit_and_is_the_same_run(tmp_path: Path) -> None:
    """So it may begin in a later round."""
    plain = small("rounds=2")
    (*_, expected) = run(*plain)
    list(run(*small("rounds=1"), tmp_path / "run"))
    more = small(*WORDS, "rounds=2")
    assert more.experiment == plain.experiment
    (*_, found) = resume(tmp_path / "run", *more)
    assert all(torch.equal(tensor, found.state[name]) for name, tensor in expected.state.items())
    assert found.model is not None
    assert found.model.measures


def test_settings_and_words_are_read_back() -> None:
    """Also where a measure has a name of its own."""
    for words in (WORDS, ("evaluation.measures.far.name=outside:Farthest", "evaluation.measures.far.power=2")):
        experiment, options = small(*words)
        assert parse_settings(to_settings(experiment, options)) == (experiment, options)
        said = [*overrides_of(experiment), *overrides_of(options)]
        assert parse_settings(read_overrides(said)) == (experiment, options)


@pytest.mark.parametrize(("when", "rounds"), [("last", [2]), ("always", [1, 2])])
def test_what_needs_labels_is_reported_where_labels_are_measured(when: str, rounds: list[int]) -> None:
    experiment = small("evaluation.measures=outside:Farthest", f"evaluation.label_measures={when}", "rounds=2")
    reported = [record.round for record in run(*experiment) if record.model is not None and record.model.measures]
    assert reported == rounds


def test_a_name_that_is_taken_is_refused() -> None:
    with pytest.raises(UserError, match="effective_rank is measured in any case"):
        small("evaluation.measures.effective_rank.name=outside:Gini")


def test_plain_functions_will_do_for_a_diagnosis() -> None:
    """And what is not finite is left out."""
    loader = [torch.randn(20, 6)]
    further: dict[str, CustomMeasure] = {
        "gini": Gini(),
        "largest": lambda principal, _: float(principal.values[0]),
        "no": lambda *_: torch.nan,
    }
    found = diagnose(torch.nn.Sequential(torch.nn.Linear(6, 4)), loader, measures=further)
    assert found.measures is not None
    assert found.measures.keys() == {"gini", "largest"}
    assert found.measures["largest"] == found.singular_values[0]
    assert "gini" in str(found)


@pytest.mark.parametrize("name", MEASURES.table)
def test_ours_take_what_has_no_spread_at_all(name: str) -> None:
    principal = Principal(Statistics.of(torch.ones(5, 3)).moments)
    assert MEASURES.table[name]()(principal, None) is None
