"""Conditions such as `method != moon or partition.alpha <= 0.1`: which combinations of settings make sense."""

from __future__ import annotations

import ast
import math
import operator
import re
from collections.abc import Callable, Mapping
from typing import Any

from feddecorr.config.overrides import SEVERAL, flatten
from feddecorr.config.training import CHOICES
from feddecorr.errors import UserError
from feddecorr.settings.options import REGISTRIES

_COMPARE: dict[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.In: lambda one, several: one in several,
    ast.NotIn: lambda one, several: one not in several,
}
_ORDER = (ast.Lt, ast.LtE, ast.Gt, ast.GtE)
_WORDS = {"true": True, "false": False, "inf": math.inf, "Infinity": math.inf}
_HELP = "a condition compares settings, such as 'method != moon or partition.alpha <= 0.1'"


class Condition:
    """Compares settings with values by =, !=, <, <=, >, >=, in and not in, joined by and, or, not and brackets.

    A dotted name is a setting; so is a bare one that is known as such, or in which the name of one setting ends.
    Any other is a word that stands for itself. A setting that a combination does not have is equal to nothing, and
    neither less nor greater.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        try:
            self._tree = ast.parse(re.sub(r"(?<![<>=!])=(?!=)", "==", text).strip(), mode="eval").body
        except SyntaxError as error:
            raise UserError(f"'{text}' is no condition: {_HELP}") from error

    def holds(self, settings: Mapping[str, Any]) -> bool:
        """Return whether the settings, by dotted keys, fulfil it."""
        return _Reading(self.text, settings).truth(self._tree)


class _Reading:
    """One evaluation of every part, so that a mistake in any of them is found."""

    def __init__(self, text: str, settings: Mapping[str, Any]) -> None:
        self._text = text
        self._settings = settings
        self._readers: dict[type[ast.expr], Callable[[Any], Any]] = {
            ast.BoolOp: self._join,
            ast.UnaryOp: self._sign,
            ast.Compare: self._compare,
            ast.Constant: lambda node: node.value,
            ast.Name: self._name,
            ast.Attribute: self._name,
            ast.List: self._several,
            ast.Tuple: self._several,
            ast.Set: self._several,
        }

    def value(self, node: ast.expr) -> Any:
        reader = self._readers.get(type(node))
        if reader is None:
            raise UserError(f"'{self._text}': '{ast.unparse(node)}' is not understood; {_HELP}")
        return reader(node)

    def truth(self, node: ast.expr) -> bool:
        """Return whether a part is true; None is what a combination does not have."""
        value = self.value(node)
        if value is not None and not isinstance(value, bool):
            raise UserError(f"'{self._text}': '{ast.unparse(node)}' is neither true nor false; {_HELP}")
        return bool(value)

    def _several(self, node: ast.List | ast.Tuple | ast.Set) -> list[Any]:
        return [self.value(element) for element in node.elts]

    def _join(self, node: ast.BoolOp) -> bool:
        values = [self.truth(value) for value in node.values]
        return all(values) if isinstance(node.op, ast.And) else any(values)

    def _sign(self, node: ast.UnaryOp) -> Any:
        return not self.truth(node.operand) if isinstance(node.op, ast.Not) else -self.value(node.operand)

    def _compare(self, node: ast.Compare) -> bool:
        values = [self.value(each) for each in (node.left, *node.comparators)]
        found = [self._pair(*each) for each in zip(node.ops, values, values[1:], strict=False)]
        return all(found)

    def _pair(self, how: ast.cmpop, one: Any, other: Any) -> bool:
        if isinstance(how, _ORDER) and (one is None or other is None):
            return False
        try:
            return bool(_COMPARE[type(how)](one, other))
        except (KeyError, TypeError) as error:
            raise UserError(f"'{self._text}': {one!r} and {other!r} cannot be compared so; {_HELP}") from error

    def _name(self, node: ast.Name | ast.Attribute) -> Any:
        name = ast.unparse(node)
        value = self._settings[name] if name in self._settings else self._ending_in(name)
        if name not in self._settings and "." in name:
            raise UserError(f"'{self._text}': no combination here has a setting '{name}'")
        return _WORDS.get(value, value) if isinstance(value, str) else value

    def _ending_in(self, name: str) -> Any:
        """Return the value of the one setting that ends in a bare name; where there is none, the name itself."""
        values = [value for key, value in self._settings.items() if key.rpartition(".")[2] == name]
        had = [value for value in values if value is not None]
        if not values or any(isinstance(value, Mapping) for value in had):
            return name
        if len(had) > 1:
            keys = [key for key, value in self._settings.items() if key.endswith(f".{name}") and value is not None]
            raise UserError(f"'{self._text}': '{name}' could be {' or '.join(keys)}: say which")
        return had[0] if had else None


def by_name(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings by dotted keys, with a kind's name under its own key, and None for options it has not."""
    known: dict[str, Any] = {}
    for key, family in REGISTRIES.items():
        for name, cls in family.table.items():
            prefix = f"{key}.{name}" if key in SEVERAL else key
            known |= {f"{prefix}.{option}": None for option in cls.model_fields}
        kind = settings.get(key, {} if key in SEVERAL else family.default)
        if key in SEVERAL:
            known[key] = "+".join(kind if isinstance(kind, Mapping) else [str(kind)]) or "none"
        else:
            known[key] = kind.get("name", family.default) if isinstance(kind, Mapping) else kind
    flat = flatten(settings)
    known |= {key: flat[f"{key}.name"] for key in CHOICES if f"{key}.name" in flat}
    return {**known, **{key: value for key, value in flat.items() if key not in REGISTRIES}}
