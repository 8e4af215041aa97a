"""Laws of every study."""

import json
from collections.abc import Iterable
from itertools import cycle, pairwise
from pathlib import Path

import pytest
from each import each
from made_up import results

from feddecorr.config.experiment import Experiment
from feddecorr.paper.scales import SCALE_OF
from feddecorr.paper.studies import PARTS, STUDIES
from feddecorr.results.study import SCALES, Arm, Figure, Finding, Result, Table

pytestmark = pytest.mark.usefixtures("plain_look")

ALL = [(name, scale) for name in STUDIES for scale in SCALES]
COMPARED = {
    "data": ("data", "training", "rounds", "method", "model", "regularizers"),
    "regularizer": ("regularizers",),
    "beta": ("regularizers",),
    "normalization": ("regularizers",),
    "alpha": ("partition",),
    "classes": ("partition",),
    "epochs": ("training", "rounds"),
    "norm": ("model",),
    "head": ("model",),
    "filters": ("model",),
    "statistics": ("batchnorm", "fix_after", "model"),
    "model": ("model",),
    "method": ("method", "model"),
    "clients": ("clients", "participation", "rounds", "training"),
    "schedule": ("training", "rounds", "evaluation"),
    "seed": ("seed",),
}
"""In which settings runs may differ when they differ in one label alone.

In the paper, rounds, weight decay, beta, server momentum and MOON's head depend on the data set.
"""


def arms(name: str, scale: str, seeds: int = 2) -> list[Arm]:
    return STUDIES[name].arms(scale, seeds)


def digests(some: Iterable[Arm]) -> set[str]:
    return {arm.experiment.digest() for arm in some}


@each("name", STUDIES)
def test_a_study_says_what_it_shows_and_where_the_paper_has_it(name: str) -> None:
    """Under its own name."""
    study = STUDIES[name]
    assert study.name == name
    assert study.shows
    assert study.place.startswith(("table", "figure", "section", "beyond the paper"))


@each("name, scale", ALL)
def test_arms_are_distinct_experiments_of_the_seeds_from_zero(name: str, scale: str) -> None:
    """Labels tell them apart as well as digests do (beta zero is one run, whatever the scale of the loss)."""
    found = arms(name, scale, seeds=2)
    assert {arm.labels["seed"] for arm in found} <= {0, 1}
    assert all(arm.experiment.seed == arm.labels["seed"] for arm in found)
    assert len({json.dumps(arm.labels) for arm in found}) == len(found)
    with_a_loss = [arm for arm in found if arm.labels.get("beta") != 0]
    assert len(digests(with_a_loss)) == len(with_a_loss)
    assert all(Experiment.parse(arm.experiment.to_dict()) == arm.experiment for arm in found)


@each("name, scale", ALL)
def test_arms_differ_in_nothing_but_what_their_labels_say(name: str, scale: str) -> None:
    """Two runs that differ in one label have all other settings in common."""
    found = arms(name, scale)
    for axis in found[0].labels if found else ():
        groups: dict[str, list[Arm]] = {}
        for arm in found:
            rest = {key: value for key, value in arm.labels.items() if key != axis}
            groups.setdefault(json.dumps(rest), []).append(arm)
        for one, other in (pair for group in groups.values() for pair in pairwise(group)):
            ours, theirs = one.experiment.to_dict(), other.experiment.to_dict()
            differ = {key for key in ours if ours[key] != theirs[key]}
            assert differ <= set(COMPARED[axis]), (axis, one.labels, other.labels)


@pytest.mark.parametrize("scale", SCALES)
def test_studies_share_their_runs(scale: str) -> None:
    """FedAvg at alpha 0.05 is in several studies and is one run, or one for each way to look at clients' models."""
    plain = [
        arm
        for name in STUDIES
        for arm in arms(name, scale, seeds=1)
        if arm.labels.get("alpha") == 0.05
        and arm.labels["method"] == "fedavg"
        and arm.labels.get("regularizer") == "none"
        and arm.labels["data"] in ("cifar10", "synthetic")
        and not {"norm", "head", "statistics", "classes", "epochs", "clients", "model", "filters", "schedule"}
        & arm.labels.keys()
    ]
    assert len(plain) >= 3
    assert len(digests(plain)) == 1


@pytest.mark.parametrize("scale", ["small", "smoke"])
def test_a_scale_names_every_study(scale: str) -> None:
    """So that none is forgotten when it is cut down; the theory has no runs."""
    assert SCALE_OF[scale].grids.keys() == STUDIES.keys() - {"theory"} | {"*"}


def test_smoke_is_few_runs() -> None:
    """All studies together, so that they take less than two minutes."""
    every = [arm for name in STUDIES for arm in arms(name, "smoke", SCALE_OF["smoke"].seeds)]
    assert len(digests(every)) <= 130


@pytest.mark.parametrize(("scale", "alphas"), [("paper", 4), ("small", 1)])
def test_the_main_tables_of_the_paper_are_asked_for(scale: str, alphas: int) -> None:
    """Four methods without and with FedDecorr at four alpha on CIFAR-10, or at one, with three seeds."""
    assert len(digests(arms("cifar10", scale, seeds=3))) == 4 * 2 * alphas * 3


@pytest.mark.parametrize(("name", "scale"), list(zip(sorted(STUDIES.keys() - {"theory"}), cycle(SCALES), strict=False)))
def test_findings_are_tables_and_figures_of_whatever_there_is(name: str, scale: str) -> None:
    """Of all runs, of some, and of none: then every number is missing, and said to be."""
    study = STUDIES[name]
    whole = results(arms(name, scale))
    cut = [result for result in whole if result.labels["seed"] == 0]
    some = [*cut[:1], *(Result(result.labels, None) for result in whole[1:])]
    none = [Result(result.labels, None) for result in whole]
    for given in (whole, some, none):
        found = study.findings(given, scale)
        assert any(isinstance(finding, Table) for finding in found)
        for finding in found:
            if isinstance(finding, Table):
                assert all(len(row) == len(finding.headings) for row in finding.rows)
            else:
                finding.draw()
    assert all("issing" in _text(finding) for finding in study.findings(none, scale))


def _text(finding: Finding) -> str:
    rows = [cell for row in finding.rows for cell in row] if isinstance(finding, Table) else []
    return " ".join([finding.note, *rows])


def test_the_theory_is_computed_where_it_is_shown() -> None:
    """Four parts, each with a table and pictures, and nothing to run."""
    study = STUDIES["theory"]
    assert study.arms("smoke", 3) == []
    found = study.findings([], "smoke")
    assert sum(isinstance(finding, Table) for finding in found) == 4
    for finding in found:
        if isinstance(finding, Figure):
            finding.draw()


def test_data_that_are_not_here_are_missing_and_stop_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The alignment figure of the paper is on MNIST."""
    monkeypatch.setenv("FEDDECORR_DATA", str(tmp_path))
    monkeypatch.setitem(PARTS, "paper", PARTS["paper"][2:3])
    (finding,) = STUDIES["theory"].findings([], "paper")
    assert isinstance(finding, Table)
    assert "data get mnist" in finding.rows[0][0]
