"""The command line as a program would use it: words in; exit code, standard output and standard error out."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from functools import cache
from typing import Any

import pytest
import typer.main

from feddecorr.paper.commands import main

get_command = cache(typer.main.get_command)
"""What typer otherwise makes of its declarations anew for every command."""


@dataclass(frozen=True)
class Outcome:
    """What a command left behind."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        """The one JSON document on standard output."""
        return json.loads(self.out)


class CommandLine:
    """Runs commands within this process."""

    def __init__(self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
        self._capsys = capsys
        self._monkeypatch = monkeypatch

    def __call__(self, *words: object) -> Outcome:
        """Run `feddecorr WORDS`."""
        self._monkeypatch.setattr(sys, "argv", ["feddecorr", *map(str, words)])
        self._monkeypatch.setattr(typer.main, "get_command", get_command)
        self._capsys.readouterr()
        with pytest.raises(SystemExit) as end:
            main()
        captured = self._capsys.readouterr()
        return Outcome(int(end.value.code or 0), captured.out, captured.err)
