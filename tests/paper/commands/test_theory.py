import re
import subprocess
import sys
from pathlib import Path

import pytest
from command_line import CommandLine

from feddecorr.config.overrides import read_overrides
from feddecorr.core.registry import Config
from feddecorr.paper.commands.theory import TEACHES, settings_of

SMALL = ("dim=4", "classes=3", "samples=20", "points=3")


@pytest.mark.parametrize("layers", [1, 3])
def test_flow_prints_the_largest_relative_error(feddecorr: CommandLine, layers: int) -> None:
    """With defaults for the start, the theorem holds to 1e-6."""
    document = feddecorr("theory", "flow", f"layers={layers}", *SMALL, "--json").document
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
    lines = feddecorr("theory", "sweep", *SMALL[:-1], "time=20").out.splitlines()
    assert [line.split()[0] for line in lines[-3:]] == ["3", "2", "1"]


def test_decorrelate_compares_two_flows(feddecorr: CommandLine) -> None:
    """Without and with the term."""
    document = feddecorr("theory", "decorrelate", *SMALL, "time=1", "beta=1", "--json").document
    assert list(document["flows"]) == ["without", "with"]


@pytest.mark.parametrize(("word", "epochs"), [("1,2", [1, 2]), ("[1, 2]", [1, 2]), ("2", [2])])
def test_alignment_looks_at_the_chosen_epochs(feddecorr: CommandLine, word: str, epochs: list[int]) -> None:
    """Epochs are numbers between commas, a list of TOML, or a number."""
    words = ("data=digits", "dim=8", f"epochs={word}", "epoch_samples=1000", "--json")
    assert [found["epoch"] for found in feddecorr("theory", "alignment", *words).document["epochs"]] == epochs


def test_a_file_holds_settings_and_later_words_win(feddecorr: CommandLine, tmp_path: Path) -> None:
    """As with `run`."""
    file = tmp_path / "flow.toml"
    file.write_text('layers = 3\nstart = "random"\ntime = 1\n')
    settings = feddecorr("theory", "flow", file, *SMALL, "layers=1", "--json").document["settings"]
    assert (settings["layers"], settings["start"], settings["time"], settings["dim"]) == (1, "random", 1, 4)


def test_what_takes_long_shows_progress_and_what_is_quick_does_not(
    feddecorr: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Progress is on standard error, up to the end."""
    monkeypatch.setattr("feddecorr.paper.commands.theory.SECONDS_OF_SILENCE", 3600)
    assert not feddecorr("theory", "flow", *SMALL, "--json").err
    monkeypatch.setattr("feddecorr.paper.commands.theory.SECONDS_OF_SILENCE", 0)
    outcome = feddecorr("theory", "flow", *SMALL, "--json")
    assert outcome.document["flows"]
    assert outcome.err.splitlines()[-1] == "flow: 100 %"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("flow", "layers=0"), "layers: expected more than 0, not 0"),
        (("flow", "imbalance=1.5"), "imbalance: expected at most 1, not 1.5"),
        (("flow", "start=nowhere"), "start: expected 'aligned', 'turned' or 'random', not 'nowhere'"),
        (("flow", "inputs=3"), "inputs must be at least dim = 20"),
        (("flow", "time=inf"), "time: expected a finite number"),
        (("flow", "layer=3"), "unknown option 'layer': did you mean 'layers'?"),
        (("flow", "layers"), "'layers' is neither a setting (key=value, without spaces) nor a file"),
        (("alignment", "epochs=none"), "epochs: expected at least 1 in the list"),
        (("sweep", "classes=1"), "classes: expected at least 2, not 1"),
        (("decorrelate", "normalization=mine"), "normalization: expected 'paper' or 'released'"),
        (("alignment", "epochs=3,x"), "epochs.1: expected a whole number"),
        (("alignment", "data=digit"), "did you mean 'digits'"),
    ],
)
def test_wrong_options_say_what_would_be_right(feddecorr: CommandLine, words: tuple[object, ...], message: str) -> None:
    """They end with code 2 and a sentence, before anything is computed."""
    outcome = feddecorr("theory", *words)
    assert outcome.code == 2
    assert message in outcome.err


@pytest.mark.parametrize(("command", "kind"), [(name, settings_of(name)) for name in TEACHES])
def test_help_teaches_every_setting_and_an_example(feddecorr: CommandLine, command: str, kind: type[Config]) -> None:
    """Each with its default and its sentence; and there is a line to copy, whose words are right."""
    shown = " ".join(feddecorr("theory", command, "--help").out.split())
    for name, field in kind.model_fields.items():
        default = field.default
        said = ",".join(map(str, default)) if isinstance(default, tuple) else default
        assert f" {name if said is None else f'{name}={said}'} {field.description}" in shown
    example = re.search(rf"feddecorr theory {command} ([^\[]*?) --out", shown)
    assert example
    assert kind.parse(read_overrides(example[1].split()))


def test_help_is_quick() -> None:
    """All commands and their settings load neither PyTorch nor NumPy, scipy or plotly."""
    script = "import sys, feddecorr.paper.commands; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert not {"torch", "numpy", "scipy", "plotly"} & set(done.stdout.split())


def test_a_file_is_no_directory_for_results(feddecorr: CommandLine, tmp_path: Path) -> None:
    """It is refused before anything is computed, and left as it is."""
    file = tmp_path / "notes"
    file.write_text("mine")
    outcome = feddecorr("theory", "flow", "--out", file)
    assert outcome.code == 2
    assert f"{file} is a file" in outcome.err.replace("\n", "")
    assert file.read_text() == "mine"
