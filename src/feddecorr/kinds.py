"""A kind is a frozen, validated set of options; a family is the literal table of its kinds by name."""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Iterable, Mapping
from typing import Any, Generic, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, PlainSerializer, ValidationError, model_validator
from pydantic_core import PydanticCustomError


def nearest(wrong: str, right: Iterable[str]) -> str:
    """Return a sentence that names what was probably meant, or all there is."""
    names = sorted(right)
    close = difflib.get_close_matches(wrong, names, n=1, cutoff=0.5)
    return f"did you mean '{close[0]}'?" if close else f"there are: {', '.join(names) or 'none'}"


class Kind(BaseModel):
    """Frozen options that refuse unknown names with the nearest right one."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, ser_json_inf_nan="strings")

    @model_validator(mode="before")
    @classmethod
    def _refuse_unknown(cls, options: Any) -> Any:
        if isinstance(options, Mapping):
            for key in options:
                if key not in cls.model_fields:
                    hint = nearest(str(key), cls.model_fields)
                    raise PydanticCustomError("unknown", "unknown option '{key}': {hint}", {"key": key, "hint": hint})
        return options

    @classmethod
    def line(cls) -> str:
        """Return the first line of the docstring, which says what the kind is."""
        return (cls.__doc__ or "").strip().splitlines()[0]


K = TypeVar("K", bound=Kind)


class Family(Generic[K]):
    """The kinds of one noun (method, data, …) by name, and how they are read and written.

    A name of the form `package.module:Class` takes a kind that lives outside of this project.
    """

    def __init__(self, noun: str, base: type[K], table: Mapping[str, type[K]]) -> None:
        self.noun = noun
        self.base = base
        self.table = table

    @property
    def default(self) -> str:
        """The first kind of the table is the one that options without a name belong to."""
        return next(iter(self.table))

    def parse(self, value: object) -> K:
        """Take a kind, its name, or a mapping of `name` and options."""
        if isinstance(value, self.base):
            return value
        if isinstance(value, str):
            return self.find(value)()
        if isinstance(value, Mapping):
            options = dict(value)
            return self.find(str(options.pop("name", self.default))).model_validate(options)
        raise self._refusal(f"a {self.noun} is a name or a table of options, not {value!r}")

    def dump(self, kind: K) -> dict[str, Any]:
        """Return the mapping that `parse` takes."""
        return {"name": self.name(kind), **kind.model_dump(mode="json")}

    def find(self, name: str) -> type[K]:
        """Return the class of that name."""
        if name in self.table:
            return self.table[name]
        module, colon, attribute = name.partition(":")
        if not colon:
            raise self._refusal(f"unknown {self.noun} '{name}': {nearest(name, self.table)}")
        try:
            found = getattr(importlib.import_module(module), attribute)
        except (ImportError, AttributeError) as error:
            raise self._refusal(f"{self.noun} '{name}' cannot be imported: {error}") from error
        if not (isinstance(found, type) and issubclass(found, self.base)):
            raise self._refusal(f"{self.noun} '{name}' is no subclass of {self.base.__name__}")
        return found

    def name(self, kind: K) -> str:
        """Return the name under which the kind is found again."""
        for name, cls in self.table.items():
            if type(kind) is cls:
                return name
        return f"{type(kind).__module__}:{type(kind).__qualname__}"

    def field(self) -> tuple[BeforeValidator, PlainSerializer]:
        """Return the pydantic annotations that make a field hold a kind of this family."""
        return BeforeValidator(self.parse), PlainSerializer(self.dump)

    def _refusal(self, message: str) -> PydanticCustomError:
        return PydanticCustomError("unknown", "{message}", {"message": message})


def explain(error: ValidationError) -> str:
    """Say a validation error in lines of `place: what is wrong`."""
    lines = []
    for problem in error.errors(include_url=False):
        place = ".".join(str(part) for part in problem["loc"])
        text = problem["msg"].removeprefix("Value error, ")
        if problem["type"] not in ("unknown", "value_error"):
            text = f"{text[0].lower()}{text[1:]}, not {problem['input']!r}"
        lines.append(f"{place}: {text}" if place else text)
    return "\n".join(lines)
