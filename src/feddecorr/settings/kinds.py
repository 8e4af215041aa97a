"""A kind is a frozen, validated set of options; a family is the literal table of its kinds by name."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Mapping
from operator import attrgetter
from pathlib import Path
from typing import Any, ClassVar, Generic, Self, TypeGuard, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, PlainSerializer, ValidationError, model_validator
from pydantic_core import PydanticCustomError

from feddecorr.errors import UserError, nearest


class Kind(BaseModel):
    """Frozen options that refuse unknown names with the nearest right one."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, ser_json_inf_nan="strings")

    argument: ClassVar[str | None] = None
    """The option that may follow the kind's name after a colon: `folder:PATH` is the kind `folder` with that path."""

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
    def parse(cls, settings: Mapping[str, Any]) -> Self:
        """Return the kind with these settings, or say in plain words what is wrong with them."""
        try:
            return cls.model_validate(settings)
        except ValidationError as error:
            raise UserError(explain(error)) from error

    def to_dict(self) -> dict[str, Any]:
        """Return the options, ready for JSON: an infinite number becomes a word, which is read back as it was."""
        options: dict[str, Any] = json.loads(self.model_dump_json())
        return options

    @classmethod
    def line(cls) -> str:
        """Return the first line of the docstring, which says what the kind is."""
        return (cls.__doc__ or "").strip().splitlines()[0]


def import_named(name: str) -> Any:
    """Return what `package.module:attribute` names; modules of the working directory are found, too."""
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.append(here)
    module, _, attribute = name.partition(":")
    return attrgetter(attribute)(importlib.import_module(module))


K = TypeVar("K", bound=Kind)


class Family(Generic[K]):
    """The kinds of one noun (method, data, …) by name, and how they are read and written.

    A name of the form `package.module:Class` takes a kind that lives outside of this project. What is found
    there but is no kind is given to the kind named `wrapper`, if there is one, as its option `source`.
    """

    def __init__(self, noun: str, base: type[K], table: Mapping[str, type[K]], *, wrapper: str | None = None) -> None:
        self.noun = noun
        self.base = base
        self.table = table
        self.wrapper = wrapper

    @property
    def default(self) -> str:
        """The first kind of the table is the one that options without a name belong to."""
        return next(iter(self.table))

    def parse(self, value: object) -> K:
        """Take a kind, its name, or a mapping of `name` and options."""
        if isinstance(value, self.base):
            return value
        if isinstance(value, str):
            value = {"name": value}
        if isinstance(value, Mapping):
            options = dict(value)
            name = str(options.pop("name", self.default))
            known, colon, value = name.partition(":")
            if colon and known in self.table and (option := self.table[known].argument):
                name, options = known, {option: value, **options}
            if self.wrapper and ":" in name and not self._is_kind(self._import(name)):
                name, options = self.wrapper, {"source": name, **options}
            return self.find(name).model_validate(options)
        raise self._refusal(f"a {self.noun} is a name or a table of options, not {value!r}")

    def dump(self, kind: K) -> dict[str, Any]:
        """Return the mapping that `parse` takes."""
        return {"name": self.name(kind), **kind.to_dict()}

    def find(self, name: str) -> type[K]:
        """Return the class of that name."""
        if name in self.table:
            return self.table[name]
        if ":" not in name:
            raise self._refusal(f"unknown {self.noun} '{name}': {nearest(name, self.table)}")
        found = self._import(name)
        if not self._is_kind(found):
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

    def _import(self, name: str) -> Any:
        try:
            return import_named(name)
        except Exception as error:  # whatever a user's module raises
            raise self._refusal(f"{self.noun} '{name}' cannot be imported: {error}") from error

    def _is_kind(self, found: object) -> TypeGuard[type[K]]:
        return isinstance(found, type) and issubclass(found, self.base)

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
