"""A reader who follows a page: types its commands, runs its code, saves its files."""

from __future__ import annotations

import argparse
import importlib
import inspect
import json
import pkgutil
import re
import shlex
import sys
import tomllib
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest
from allowances import NOT_RUN, ONLY_PARSED, SHORT_RUN, SHORTER
from click import Command as ClickCommand
from click import Group
from command_line import CommandLine
from pages import PLACEHOLDER, ROOT, Block, Command, Page, PageError, Span, has_commands
from typer.main import get_command

import feddecorr
from feddecorr.config.experiment import Experiment
from feddecorr.config.options import RunOptions
from feddecorr.config.overrides import read_overrides
from feddecorr.config.settings import parse_settings, to_settings
from feddecorr.paper.commands import app
from feddecorr.sweeps.sweep import Sweep


class Reader:
    """Follows pages in a directory of its own; all within this process, since a new one imports PyTorch anew."""

    def __init__(self, directory: Path, command_line: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
        self._command_line = command_line
        self._monkeypatch = monkeypatch
        self._names: dict[str, Any] = {"__name__": "__main__"}
        self._languages: Mapping[str, Callable[[Page, Block], object]] = {
            "python": self._run_python,
            "sh": self._run_commands,
            "toml": lambda _, block: read_settings(tomllib.loads(block.text)),
            "json": lambda _, block: json.loads(block.text),
            "text": self._leave_alone,
        }
        monkeypatch.chdir(directory)
        monkeypatch.syspath_prepend(directory)
        shorten_runs(monkeypatch)

    def follow(self, page: Page) -> None:
        """Do all that the page says, in its order; what does not work is told with its place."""
        for piece in page.pieces:
            try:
                if isinstance(piece, Block):
                    self._follow_block(page, piece)
                else:
                    self._follow_span(piece)
            except Exception as error:
                raise PageError(f"{page.path}:{piece.line}: {type(error).__name__}: {error}") from error

    def _follow_block(self, page: Page, block: Block) -> None:
        if block.language not in self._languages:
            raise PageError(f"'{block.language}' is no language that is known: {', '.join(self._languages)}")
        if block.file:
            Path(block.file).write_text(block.text)
        self._languages[block.language](page, block)

    def _follow_span(self, span: Span) -> None:
        """Run a command that is whole; of one that is only named, and of Python's names, see that they are there."""
        if name := re.match(r"feddecorr(\.\w+)+", span.text):
            pkgutil.resolve_name(name[0])
        if not span.text.startswith(("feddecorr ", "python -m ")):
            return
        _, *words = span.command().words
        if span.text.startswith("feddecorr ") and (span.is_template or not find_command(words)[1]):
            check_names(words)
        else:
            self._run(span.command())

    def _run_python(self, page: Page, block: Block) -> None:
        if block.file:
            self._import(Path(block.file))
        else:
            lines_before = "\n" * (block.line - 1)  # so that errors tell the page's lines
            exec(compile(lines_before + block.text, ROOT / page.path, "exec"), self._names)  # noqa: S102 - our own pages

    def _import(self, file: Path) -> None:
        spec = spec_from_file_location(file.stem, file.absolute())
        assert spec is not None
        assert spec.loader is not None
        module = module_from_spec(spec)
        self._monkeypatch.setitem(sys.modules, file.stem, module)  # and it is forgotten after the page
        spec.loader.exec_module(module)

    def _leave_alone(self, _: Page, block: Block) -> None:
        """See that it is what a program prints, a formula, a tree: anything but commands."""
        if has_commands(block.text):
            raise PageError("commands in a block that says it is only text")

    def _run_commands(self, _: Page, block: Block) -> None:
        for command in block.commands():
            if str(command) not in NOT_RUN:
                self._run(command)

    def _run(self, command: Command) -> None:
        words = [*command.words, *added_words(command)]
        match words:
            case "feddecorr", *rest:
                done = self._command_line(*rest)
                if done.code:
                    raise PageError(f"exit code {done.code} of '{shlex.join(words)}': {done.err}")
            case "python", "-m", module, *rest if module.startswith("benchmarks."):
                self._run_benchmark(module, rest, parse_only=str(command).startswith(tuple(ONLY_PARSED)))
            case _:
                raise PageError(f"'{command}' is neither run nor among the allowances")

    def _run_benchmark(self, module: str, words: Sequence[str], *, parse_only: bool) -> None:
        with self._monkeypatch.context() as patch:
            patch.syspath_prepend(ROOT)
            patch.setattr(sys, "argv", [module, *words])
            if parse_only:
                for name in ("parse_args", "parse_intermixed_args"):
                    patch.setattr(argparse.ArgumentParser, name, then_stop(getattr(argparse.ArgumentParser, name)))
            try:
                importlib.import_module(module).main()
            except SystemExit as end:
                if end.code:
                    raise PageError(f"exit code {end.code} of 'python -m {module} {shlex.join(words)}'") from end


def read_settings(settings: dict[str, Any]) -> None:
    """See that a file holds an experiment, and perhaps beside it what a sweep does with it."""
    Sweep.parse(settings.pop("sweep", {}))
    parse_settings(settings)


def then_stop(parse: Callable[..., object]) -> Callable[..., None]:
    """Return a way to read a command's words and end there."""

    @wraps(parse)
    def parse_and_stop(*arguments: Any, **options: Any) -> None:
        parse(*arguments, **options)
        sys.exit(0)

    return parse_and_stop


def shorten_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make those of the package's functions that run an experiment run a short one."""
    for name in feddecorr.__all__:
        start = getattr(feddecorr, name)
        if inspect.isfunction(start) and next(iter(inspect.signature(start).parameters)) == "experiment":
            monkeypatch.setattr(feddecorr, name, shortly(start))


def shortly(start: Callable[..., object]) -> Callable[..., object]:
    """Return the function with its experiment shortened as commands are; a connection is for none but its own."""

    @wraps(start)
    def start_shorter(
        experiment: Experiment, options: RunOptions | None = None, *arguments: Any, **others: Any
    ) -> object:
        if "through" in others:
            return start(experiment, options, *arguments, **others)
        settings = to_settings(experiment, options or RunOptions())
        shorter = parse_settings(read_overrides(SHORT_RUN.split(), onto=settings))
        return start(*shorter, *arguments, **others)

    return start_shorter


def added_words(command: Command) -> list[str]:
    """Return the words that shorten a command."""
    return [word for start, words in SHORTER.items() if re.match(start, str(command)) for word in words.split()]


def find_command(words: Sequence[str]) -> tuple[ClickCommand, list[str]]:
    """Return the command or group of commands that the first words name, and the words after them."""
    found: ClickCommand = get_command(app)
    rest = list(words)
    while isinstance(found, Group) and rest and rest[0] in found.commands:
        found = found.commands[rest.pop(0)]
    return found, rest


def options_of(command: ClickCommand) -> set[str]:
    """Return all options of a command by name."""
    return {option for parameter in command.params for option in parameter.opts} | {"--help"}


def check_names(words: Sequence[str]) -> None:
    """See that a command and its options exist; what stands for something else may be anything."""
    command, rest = find_command(words)
    if isinstance(command, Group) and rest and not PLACEHOLDER.match(rest[0]):
        raise PageError(f"there is no command '{rest[0]}' in '{command.name}'")
    if unknown := {word for word in rest if word.startswith("-")} - options_of(command):
        raise PageError(f"'{command.name}' has no option {', '.join(sorted(unknown))}")
