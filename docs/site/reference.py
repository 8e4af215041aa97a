"""The reference: every public name of Python, every setting, every command; all from what the source says itself."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, TypeGuard

from click import Command, Group, Option, Parameter
from markup import block, heading, inline, table
from pydantic import BaseModel
from pydantic.fields import FieldInfo
from sphinx.application import Sphinx
from surface import SURFACE, is_variable, said_of
from typer.main import get_command
from typer.testing import CliRunner

from feddecorr.paper.commands import app as command_line


def write_reference(folder: Path) -> None:
    """Write all pages of the reference into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    pages = {"python": _python(), "settings": _settings(), "commands": _commands()}
    pages |= {module: _module(module) for module in SURFACE}
    for name, lines in pages.items():
        (folder / f"{name}.rst").write_text("\n".join(lines) + "\n")


def _python() -> Iterator[str]:
    """Yield the page with a line for each name."""
    yield from heading("Python")
    yield "All that may be imported. :doc:`Extending </docs/extending>` shows how its parts go together."
    yield from ["", ".. toctree::", "   :hidden:", "", *(f"   {module}" for module in SURFACE), ""]
    for module, names in SURFACE.items():
        yield from heading(f":doc:`{module} <{module}>`", "-")
        rows = [(f":py:obj:`{name} <{module}.{name}>`", inline(_first_line(module, name))) for name in names]
        yield from table(("name", "what it is"), rows)


def _module(module: str) -> Iterator[str]:
    """Yield the page of one module."""
    yield from heading(module)
    yield from block(inspect.cleandoc(import_module(module).__doc__ or "").splitlines())
    yield ""
    for name in SURFACE[module]:
        if is_variable(module, name):
            said = block(inspect.cleandoc(said_of(module, name) or "").splitlines())
            yield from [f".. py:data:: {module}.{name}", "", *(f"   {line}" for line in said), ""]
        elif inspect.isclass(getattr(import_module(module), name)):
            yield from [f".. autoclass:: {module}.{name}", "   :members:", "   :exclude-members: model_config", ""]
        else:
            yield from [f".. autofunction:: {module}.{name}", ""]


def _first_line(module: str, name: str) -> str:
    return (said_of(module, name) or "").strip().splitlines()[0]


def _settings() -> Iterator[str]:
    """Yield the page of all settings, as `feddecorr list --json` has them."""
    yield from heading("Settings")
    yield "All settings of an experiment and its run, on the command line, in TOML and in Python: "
    yield "``method=fedprox method.mu=0.01`` chooses a kind and sets an option of it."
    yield ""
    for setting, kinds in json.loads(CliRunner().invoke(command_line, ["list", "--json"]).stdout).items():
        yield from heading(setting, "-")
        for name, kind in kinds.items():
            if name != setting:
                yield from heading(f"{setting}={name}", "~")
            yield from [inline(kind["description"]), ""]
            if kind["options"]:
                rows = [_option(key, option) for key, option in kind["options"].items()]
                yield from table(("option", "default", "what it is"), rows)


def _option(key: str, option: Mapping[str, Any]) -> tuple[str, str, str]:
    default = "none" if option["default"] is None else json.dumps(option["default"], ensure_ascii=False)
    return f"``{key}``", "required" if option["required"] else f"``{default}``", inline(option["description"])


def _commands() -> Iterator[str]:
    """Yield the page of all commands, as `--help` has them."""
    yield from heading("Commands")
    yield "Every command prints results on standard output and everything else on standard error, and exits with 0"
    yield "(done), 2 (something you must change) or 1 (a failure)."
    yield ""
    for words, command in _below("feddecorr", get_command(command_line)):
        yield from heading(words, "-")
        yield from [*block(inspect.cleandoc(command.help or "").splitlines()), ""]
        parameters = [parameter for parameter in command.params if not getattr(parameter, "hidden", False)]
        if parameters:
            yield from table(("word", "what it is"), [_parameter(parameter) for parameter in parameters])


def _below(words: str, command: Command) -> Iterator[tuple[str, Command]]:
    if isinstance(command, Group):
        for name, inner in command.commands.items():
            yield from _below(f"{words} {name}", inner)
    else:
        yield words, command


def _parameter(parameter: Parameter) -> tuple[str, str]:
    names = parameter.opts if isinstance(parameter, Option) else [parameter.human_readable_name]
    help_text = str(getattr(parameter, "help", None) or "")
    return ", ".join(f"``{name}``" for name in names), inline(help_text)


def setup(sphinx: Sphinx) -> dict[str, bool]:
    """Have docstrings read as plain text, options listed with their class, and types called by their names here."""
    sphinx.connect("autodoc-process-docstring", _docstring)
    sphinx.connect("autodoc-process-signature", _signature)
    sphinx.config.autodoc_type_aliases |= {
        name: f"{module}.{name}" for module, names in SURFACE.items() for name in names if is_variable(module, name)
    }
    return {"parallel_read_safe": True}


def _is_kind(value: object) -> TypeGuard[type[BaseModel]]:
    return inspect.isclass(value) and issubclass(value, BaseModel)


def _docstring(_: Sphinx, _what: str, _name: str, value: object, _options: object, lines: list[str]) -> None:
    lines[:] = block(lines)
    if _is_kind(value) and value.model_fields:
        rows = [
            (f"``{key}``", _default(field), inline(field.description or ""))
            for key, field in value.model_fields.items()
        ]
        lines += ["", *table(("option", "default", "what it is"), rows)]


def _default(field: FieldInfo) -> str:
    default = field.get_default(call_default_factory=True, validated_data={})
    shown = type(default).__name__ if isinstance(default, BaseModel) else repr(default)
    return "required" if field.is_required() else f"``{shown}``"


def _signature(
    _: Sphinx, _what: str, _name: str, value: object, _options: object, arguments: str | None, returned: str | None
) -> tuple[str | None, str | None]:
    """Leave to the table what a kind takes, and write the names of types out."""
    if _is_kind(value):
        return "(**options)", None
    # Sphinx 9 forgets how to write such a name where types are joined.
    wrapped = re.compile(r"TypeAliasForwardRef\('[\w.]*?(\w+)'\)")
    return arguments and wrapped.sub(r"\1", arguments), returned and wrapped.sub(r"\1", returned)
