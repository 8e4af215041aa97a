import json
from pathlib import Path

import pytest
from command_line import CommandLine
from made_up import over_seeds

from feddecorr.results.summary import write_summaries

RESULTS = Path(__file__).parents[3] / "results"


@pytest.fixture
def records(tmp_path: Path) -> Path:
    """Return a folder with records of runs in which FedDecorr changes nothing at alpha = inf, and recorded costs."""
    runs = [
        run
        for name in ("none", "feddecorr")
        for run in over_seeds(f"partition.alpha=inf regularizers={name}", [0.5, 0.51, 0.52, 0.49, 0.5])
    ]
    write_summaries(tmp_path / "small.jsonl", runs)
    for name in ("loss_cost.json", "methods_cost.json"):
        (tmp_path / name).write_bytes((RESULTS / name).read_bytes())
    return tmp_path


def test_claims_are_one_line_each(feddecorr: CommandLine, records: Path) -> None:
    """With verdict, parts, seeds and setting; what is not measured names the study that would answer it."""
    outcome = feddecorr("claims", records)
    assert outcome.code == 0
    lines = outcome.out.splitlines()
    assert [line.split()[0] for line in lines[1:]] == [*map(str, range(1, 18)), "F1"]
    sixth = lines[6]
    assert sixth.split()[1] == "holds"
    assert "true: gain at alpha inf: +0.00 percentage points" in sixth
    assert "not measured" in lines[4]
    assert "feddecorr reproduce cifar10" in lines[4]


def test_claims_are_json(feddecorr: CommandLine, records: Path) -> None:
    """A list of claims with their verdicts; the costs that the project recorded are found in the folder."""
    found = {claim["claim"]: claim for claim in feddecorr("claims", records, "--json").document}
    assert list(found) == [*map(str, range(1, 18)), "F1"]
    assert found["6"]["verdict"] == "holds"
    part = found["6"]["parts"]["gain at alpha inf"]
    assert (part["seeds"], part["declared"], part["interval"]) == (5, None, [0.0, 0.0])
    moon = json.loads((RESULTS / "methods_cost.json").read_text())["ratio to FedAvg"]["moon"]
    assert moon in [part.get("moon") for part in found["14"]["parts"].values()]
    assert (found["16"]["verdict"], found["17"]["verdict"]) == ("partly", "holds")


def test_a_plan_next_to_the_records_says_which_seeds_count(feddecorr: CommandLine, records: Path) -> None:
    """Settings that it does not declare decide nothing; one that cannot be read is refused by name."""
    (records / "plan.toml").write_text("")
    found = {claim["claim"]: claim for claim in feddecorr("claims", records, "--json").document}
    assert found["6"]["verdict"] == "not measured"
    for wrong, said in {
        "[[question]]\nstudy = 'os:system'": "unknown study",
        "[[question]]\nstudy = 'beta'": "scale",
        "= 1": "not a plan that can be read",
        "[questions]": "[[question]] tables alone",
    }.items():
        (records / "plan.toml").write_text(wrong)
        outcome = feddecorr("claims", records)
        assert outcome.code == 2
        assert "plan.toml" in outcome.err
        assert said in outcome.err


def test_without_records_only_the_theory_is_answered(feddecorr: CommandLine) -> None:
    """It needs none."""
    found = feddecorr("claims", "--json").document
    assert {claim["claim"] for claim in found if claim["verdict"] != "not measured"} == {"16", "17"}


def test_records_that_are_not_there_are_refused(feddecorr: CommandLine, tmp_path: Path) -> None:
    """Before anything is computed."""
    outcome = feddecorr("claims", tmp_path / "nothing")
    assert outcome.code == 2
    assert "does not exist" in outcome.err
