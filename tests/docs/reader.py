"""A reader who follows a page: types its commands, runs its code, saves its files."""

from __future__ import annotations

import argparse
import importlib
import inspect
import json
import os
import pkgutil
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, wraps
from importlib.metadata import entry_points
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from socketserver import BaseServer
from typing import Any
from warnings import catch_warnings

import pytest
from allowances import NOT_RUN, ONLY_PARSED, SHORT_RUN, SHORTER, WHERE_INSTALLED
from click import Command as ClickCommand
from click import Group
from command_line import CommandLine
from pages import PLACEHOLDER, ROOT, Block, Command, Page, PageError, Span, has_commands
from typer import Typer
from typer.main import get_command

import feddecorr
from feddecorr.config.experiment import Experiment
from feddecorr.config.overrides import read_overrides
from feddecorr.data.memory import Memory
from feddecorr.paper.commands import app
from feddecorr.settings.flat import parse_settings, to_settings
from feddecorr.settings.options import RunOptions
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
            "diff": self._change_sources,
        }
        monkeypatch.chdir(directory)
        monkeypatch.syspath_prepend(directory)
        shorten_runs(monkeypatch)
        monkeypatch.setattr(BaseServer, "serve_forever", interrupt)  # pages are shown until Ctrl-C

    def follow(self, page: Page) -> None:
        """Do all that the page says, in its order; what does not work is reported with its place."""
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
        """Run a command, with what stands before it in the environment."""
        if found := re.fullmatch(r"([A-Z_]+)=(.*)", command.words[0]):
            with self._monkeypatch.context() as patch:
                patch.setenv(*found.groups())
                self._run(Command(command.line, command.words[1:]))
            return
        words = [*command.words, *added_words(command)]
        parse_only = is_only_parsed(str(command))
        match words:
            case "make", target:
                for line in recipe(target):
                    self._run(Command(command.line, tuple(shlex.split(line))))
            case "python", "-m", module, *rest if module.startswith("benchmarks."):
                with self._monkeypatch.context() as patch:
                    patch.syspath_prepend(ROOT)
                    self._call(importlib.import_module(module).main, [module, *rest], parse_only=parse_only)
            case name, *rest if parse_only:
                self._parse(name, rest)
            case "feddecorr", *rest:
                done = self._command_line(*rest)
                if done.code:
                    raise PageError(f"exit code {done.code} of '{shlex.join(words)}': {done.err}")
            case _:
                self._run_other(words)

    def _run_other(self, words: Sequence[str]) -> None:
        match words:
            case name, *rest if name in WHERE_INSTALLED:
                if found := shutil.which(name):
                    subprocess.run([found, *rest], input="\n\n", text=True, capture_output=True, check=True)
            case "mv", file, target:
                shutil.move(file, self._clone / target)
            case ".venv/bin/pytest", *rest:
                self._run_tests(rest)
            case _:
                raise PageError(f"'{shlex.join(words)}' is neither run nor among the allowances")

    @cached_property
    def _clone(self) -> Path:
        """A clone of this project, for pages that ask the reader to change it."""
        clone = Path("clone").absolute()
        for part in ("src", "tests", "docs"):
            shutil.copytree(ROOT / part, clone / part, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(ROOT / "pyproject.toml", clone)
        return clone

    def _change_sources(self, _: Page, block: Block) -> None:
        """Put the lines with a plus behind those that stand before them, each of which is there once."""
        file, text, before = Path(), "", ""
        for line in block.text.splitlines():
            if line.startswith("+++ "):
                file = self._clone / line.removeprefix("+++ ")
                text = file.read_text()
            elif line.startswith("+"):
                if text.count(before) != 1:
                    raise PageError(f"'{before}' is there {text.count(before)} times")
                text = text.replace(before, f"{before}{line[1:]}\n")
                before += f"{line[1:]}\n"
                file.write_text(text)
            else:
                before = f"{line[1:]}\n"

    def _run_tests(self, words: Sequence[str]) -> None:
        """Run tests of the clone in a process that imports the clone's package."""
        variables = {**os.environ, "PYTHONPATH": str(self._clone / "src")}
        pytest_here = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *words]
        done = subprocess.run(pytest_here, cwd=self._clone, env=variables, capture_output=True, text=True, check=False)
        if done.returncode:
            raise PageError(f"exit code {done.returncode} of '{shlex.join(words)}': {done.stdout[-3000:]}{done.stderr}")

    def _parse(self, name: str, words: Sequence[str]) -> None:
        """Let a command read its words, and do nothing."""
        (found,) = entry_points(group="console_scripts", name=name)
        with catch_warnings(action="ignore", category=DeprecationWarning):  # Flower uses what typer is about to drop
            start = app if name == "feddecorr" else found.load()
        if isinstance(start, Typer):
            command, rest = find_command(words, get_command(start))
            command.make_context(command.name, rest)
        else:
            self._call(start, [name, *words], parse_only=True)

    def _call(self, start: Callable[[], object], words: Sequence[str], *, parse_only: bool) -> None:
        """Start a program in this process; if asked to, only as far as it has read its words."""
        with self._monkeypatch.context() as patch:
            patch.setattr(sys, "argv", list(words))
            if parse_only:
                for name in ("parse_args", "parse_intermixed_args"):
                    patch.setattr(argparse.ArgumentParser, name, then_stop(getattr(argparse.ArgumentParser, name)))
            try:
                start()
            except SystemExit as end:
                if end.code:
                    raise PageError(f"exit code {end.code} of '{shlex.join(words)}'") from end


def recipe(target: str) -> list[str]:
    """Return the commands behind `make TARGET`, of programs that are in the environment."""
    found = re.search(rf"^{target}:.*\n((?:\t.*\n)+)", (ROOT / "Makefile").read_text(), re.MULTILINE)
    if not found:
        raise PageError(f"the Makefile has no recipe for '{target}'")
    return [line.strip().removeprefix("$(BIN)/") for line in found[1].splitlines()]


def interrupt(*_: object, **__: object) -> None:
    """Do what Ctrl-C does."""
    raise KeyboardInterrupt


def read_settings(settings: dict[str, Any]) -> None:
    """See that a file holds an experiment, and perhaps what a sweep does with it."""
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
    demo = importlib.import_module("feddecorr.cli.run")  # the package has a command of that name
    monkeypatch.setattr(
        demo, "DEMO_SETTINGS", read_overrides([*SHORT_RUN.split(), "engine=serial"], onto=demo.DEMO_SETTINGS)
    )


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
        if isinstance(experiment.data, Memory):  # which settings do not hold
            shorter = shorter[0].model_copy(update={"data": experiment.data}), shorter[1]
        return start(*shorter, *arguments, **others)

    return start_shorter


def is_only_parsed(command: str) -> bool:
    """Return whether a command has no quick form."""
    return any(f"{command} ".startswith(f"{start} ") for start in ONLY_PARSED)


def added_words(command: Command) -> list[str]:
    """Return the words that shorten a command."""
    return [word for start, words in SHORTER.items() if re.match(start, str(command)) for word in words.split()]


def find_command(words: Sequence[str], start: ClickCommand | None = None) -> tuple[ClickCommand, list[str]]:
    """Return the command or group of commands that the first words name, and the words after them."""
    found = start or get_command(app)
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
