"""Shells complete commands."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

BIN = Path(sys.executable).parent


def bash(script: str, home: Path) -> subprocess.CompletedProcess[str]:
    """Run a script by a shell with a home of its own, which finds this environment's commands."""
    variables = {**os.environ, "HOME": str(home), "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}"}
    program = shutil.which("bash")
    assert program
    return subprocess.run(
        [program, "--norc", "-c", script], env=variables, capture_output=True, text=True, check=True, timeout=300
    )


def test_what_is_installed_for_a_shell_completes_commands(tmp_path: Path) -> None:
    """A new shell that reads its start file offers commands, also of groups."""
    done = bash("feddecorr --install-completion; :", tmp_path)
    assert "bash completion installed in" in done.stdout
    asked = "COMP_WORDS=({words}); COMP_CWORD={place}; _feddecorr_completion feddecorr; echo ${{COMPREPLY[@]}}"
    script = "source ~/.bashrc; " + "; ".join(
        [asked.format(words="feddecorr wa", place=1), asked.format(words="feddecorr data g", place=2)]
    )
    assert bash(script, tmp_path).stdout.split() == ["watch", "get"]


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_are_reported_what_to_source(shell: str, tmp_path: Path) -> None:
    variables = f"_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION=1 feddecorr --show-completion {shell}"
    assert "_FEDDECORR_COMPLETE=complete_" in bash(variables, tmp_path).stdout
