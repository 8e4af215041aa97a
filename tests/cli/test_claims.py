import json
from pathlib import Path

import pytest
from command_line import CommandLine
from made_up import over_seeds

from feddecorr.studies.summary import write_summaries

RESULTS = Path(__file__).parents[2] / "results"


@pytest.fixture
def records(tmp_path: Path) -> Path:
    """Return a folder with records of runs in which FedDecorr changes nothing at alpha = inf, and recorded costs."""
    runs = [
        run
        for name in ("none", "feddecorr")
        for run in over_seeds(f"partition.alpha=inf regularizers={name}", [0.5, 0.51, 0.52])
    ]
    write_summaries(tmp_path / "small.jsonl", runs)
    for name in ("loss_cost.json", "methods_cost.json"):
        (tmp_path / name).write_bytes((RESULTS / name).read_bytes())
    return tmp_path


def test_claims_are_one_line_each(feddecorr: CommandLine, records: Path) -> None:
    """With verdict, number, seeds, interval and the command that made them."""
    outcome = feddecorr("claims", records)
    assert outcome.code == 0
    lines = outcome.out.splitlines()
    assert [line.split()[0] for line in lines[1:]] == [str(number) for number in range(1, 19)]
    sixth = lines[6]
    assert sixth.split()[1] == "holds"
    assert "+0.00 percentage points" in sixth
    assert "[+0.00, +0.00]" in sixth
    assert "feddecorr run seed=0" in sixth
    assert "not measured" in lines[4]
    assert "feddecorr reproduce cifar10" in lines[4]


def test_claims_are_json(feddecorr: CommandLine, records: Path) -> None:
    """A list of claims with their verdicts; the costs that the project recorded are found in the folder."""
    found = {claim["claim"]: claim for claim in feddecorr("claims", records, "--json").document}
    assert list(found) == list(range(1, 19))
    assert found[6]["verdict"] == "holds"
    assert (found[6]["seeds"], found[6]["interval"]) == (3, [0.0, 0.0])
    assert (
        found[14]["numbers"]["moon"]
        == json.loads((RESULTS / "methods_cost.json").read_text())["ratio to FedAvg"]["moon"]
    )
    assert found[16]["verdict"] == found[17]["verdict"] == "holds"


def test_without_records_only_the_theory_is_answered(feddecorr: CommandLine) -> None:
    """It needs none."""
    found = feddecorr("claims", "--json").document
    assert {claim["claim"] for claim in found if claim["verdict"] != "not measured"} == {16, 17}


def test_records_that_are_not_there_are_refused(feddecorr: CommandLine, tmp_path: Path) -> None:
    """Before anything is computed."""
    outcome = feddecorr("claims", tmp_path / "nothing")
    assert outcome.code == 2
    assert "does not exist" in outcome.err
