import sys
from pathlib import Path

import pytest
from command_line import CommandLine

SMALL = ("--dim", 4, "--classes", 3, "--samples", 20, "--points", 3)


@pytest.mark.parametrize("layers", [1, 3])
def test_flow_prints_the_largest_relative_error(feddecorr: CommandLine, layers: int) -> None:
    """With defaults for the start, the theorem holds to 1e-6."""
    document = feddecorr("theory", "flow", "--layers", layers, *SMALL, "--json").document
    assert document["largest_relative_error"] < 1e-6
    assert document["settings"]["layers"] == layers
    assert document["files"] == []


def test_flow_writes_pictures(feddecorr: CommandLine, tmp_path: Path) -> None:
    """The page and the pictures are where --out says, and the text names the page."""
    outcome = feddecorr("theory", "flow", *SMALL, "--out", tmp_path / "out")
    assert outcome.code == 0
    assert str(tmp_path / "out" / "index.html") in outcome.out
    assert len(list((tmp_path / "out").glob("*.svg"))) == 6


def test_sweep_prints_a_row_for_each_number_of_classes(feddecorr: CommandLine) -> None:
    """From all classes to one."""
    lines = feddecorr("theory", "sweep", *SMALL[:-2], "--time", 20).out.splitlines()
    assert [line.split()[0] for line in lines[-3:]] == ["3", "2", "1"]


def test_decorrelate_compares_two_flows(feddecorr: CommandLine) -> None:
    """Without and with the term."""
    document = feddecorr("theory", "decorrelate", *SMALL, "--time", 1, "--beta", 1, "--json").document
    assert list(document["flows"]) == ["without", "with"]


def test_alignment_looks_at_the_chosen_epochs(feddecorr: CommandLine) -> None:
    """Epochs are numbers between commas; progress is on standard error."""
    words = ("--data", "digits", "--dim", 8, "--epochs", "1,2", "--epoch-samples", 1000, "--json")
    outcome = feddecorr("theory", "alignment", *words)
    assert [found["epoch"] for found in outcome.document["epochs"]] == [1, 2]
    assert "epoch 2 of 2" in outcome.err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("flow", "--layers", 0), "layers: input should be greater than 0, not 0"),
        (("flow", "--imbalance", 1.5), "imbalance: input should be less than or equal to 1, not 1.5"),
        (("flow", "--start", "nowhere"), "start: input should be 'aligned', 'turned' or 'random', not 'nowhere'"),
        (("flow", "--inputs", 3), "inputs must be at least dim = 20"),
        (("flow", "--time", "inf"), "time: input should be a finite number"),
        (("sweep", "--classes", 1), "classes: input should be greater than or equal to 2, not 1"),
        (("decorrelate", "--normalization", "mine"), "normalization: input should be 'paper' or 'released'"),
        (("alignment", "--epochs", "3,x"), "epochs.1: input should be a valid integer"),
        (("alignment", "--data", "digit"), "did you mean 'digits'"),
    ],
)
def test_wrong_options_say_what_would_be_right(feddecorr: CommandLine, words: tuple[object, ...], message: str) -> None:
    """They end with code 2 and a sentence, before anything is computed."""
    outcome = feddecorr("theory", *words)
    assert outcome.code == 2
    assert message in outcome.err


@pytest.mark.parametrize("command", ["flow", "sweep", "alignment", "decorrelate"])
def test_help_teaches_with_an_example(feddecorr: CommandLine, command: str) -> None:
    """Every option has a sentence, and there is a line to copy."""
    shown = feddecorr("theory", command, "--help").out
    assert f"feddecorr theory {command}" in shown
    assert "--seed" in shown


def test_a_file_is_no_directory_for_results(feddecorr: CommandLine, tmp_path: Path) -> None:
    """It is refused before anything is computed, and left as it is."""
    file = tmp_path / "notes"
    file.write_text("mine")
    outcome = feddecorr("theory", "flow", "--out", file)
    assert outcome.code == 2
    assert f"{file} is a file" in outcome.err.replace("\n", "")
    assert file.read_text() == "mine"


def test_without_scipy_the_command_says_what_to_install(
    feddecorr: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The package works without it; only the theory asks for it, in a sentence."""
    for name in [name for name in sys.modules if name.startswith("feddecorr.theory.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "scipy.integrate", None)
    outcome = feddecorr("theory", "flow")
    assert outcome.code == 2
    assert "pip install 'feddecorr[theory]'" in outcome.err
