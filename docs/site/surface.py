"""The public surface: what may be imported, by the list in docs/extending.md, and what each name says of itself."""

from __future__ import annotations

import ast
import inspect
import re
from importlib import import_module
from pathlib import Path

ROOT = Path(__file__).parents[2]
LIST = (ROOT / "docs" / "extending.md").read_text()
SURFACE: dict[str, list[str]] = {
    module: re.findall(r"`(\w+)`", names)
    for module, names in re.findall(r"^\| `(feddecorr[\w.]*)` \| (.*) \|$", LIST, re.MULTILINE)
}
"""Names by the module that they are imported from."""


def is_variable(module: str, name: str) -> bool:
    """Tell names of types and values from classes and functions."""
    value = getattr(import_module(module), name)
    return not inspect.isclass(value) and not inspect.isfunction(value)


def said_of(module: str, name: str) -> str | None:
    """Return what is said of a name where it is defined: its own docstring, or the string below a variable."""
    home = import_module(module)
    if module == "feddecorr":  # all of whose names live elsewhere
        return said_of(vars(home)["_HOMES"][name], name)
    if not is_variable(module, name):
        value = getattr(home, name)
        said: str | None = vars(value).get("__doc__", value.__doc__)
        return said
    body = ast.parse(inspect.getsource(home)).body
    for statement, below in zip(body, [*body[1:], None], strict=True):
        match statement, below:
            case ast.ImportFrom(module=str(origin), names=names), _ if name in {alias.name for alias in names}:
                return said_of(origin, name)
            case ast.Assign(targets=[ast.Name(id=found)]), ast.Expr(ast.Constant(str(text))) if found == name:
                return text
    return None
