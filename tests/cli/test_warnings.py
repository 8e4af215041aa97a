"""How the command line passes warnings on."""

import warnings
from pathlib import Path

from command_line import CommandLine

DYING = (
    "data=digits data.train=300 data.test=100 clients=4 model=mlp model.widths=[64] training.lr=0.1 training.epochs=3",
    "regularizers=feddecorr regularizers.feddecorr.beta=1 evaluation.every=1 rounds=3",
)
WORDS = " ".join(DYING).split()


def test_a_warning_is_said_in_its_own_words(feddecorr: CommandLine, tmp_path: Path) -> None:
    """On standard error, in one line, without the place in the code."""
    warnings.simplefilter("default")  # elsewhere in these tests they are errors
    said = feddecorr("run", *WORDS, "--out", tmp_path / "run").err
    (line,) = [line for line in said.splitlines() if "dying" in line]
    assert line.startswith("warning: ")
    assert "DyingFeatures" not in said
