"""A config is a frozen, validated set of options; a registry is the literal table of its classes by name."""

from __future__ import annotations

import hashlib
import inspect
import json
import re
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any, ClassVar, Generic, Self, TypeGuard, TypeVar

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    PlainSerializer,
    ValidationError,
    ValidationInfo,
    create_model,
    field_validator,
    model_validator,
)
from pydantic_core import InitErrorDetails, PydanticCustomError

from feddecorr.core.text import read_list
from feddecorr.core.trust import Trust, import_named
from feddecorr.errors import UserError, nearest


class Config(BaseModel):
    """Frozen options that refuse unknown names with the nearest right one."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, ser_json_inf_nan="strings")

    argument: ClassVar[str | None] = None
    """The option that may follow the name after a colon: `folder:PATH` is `folder` with that path."""

    pins: ClassVar[Mapping[str, str]] = {}
    """Options that say where a file lies, each with the option that holds its digest: once that is known, the place
    is not part of the value, and neither `==` nor `hash` nor a digest depends on it."""

    @model_validator(mode="before")
    @classmethod
    def _refuse_unknown(cls, options: Any) -> Any:
        if isinstance(options, Mapping):
            for key in options:
                if key not in cls.model_fields:
                    raise refusal(f"unknown option '{key}': {nearest(str(key), cls.model_fields)}")
        return options

    @field_validator("*", mode="before")
    @classmethod
    def _refuse_truth(cls, value: Any, info: ValidationInfo) -> Any:
        """Refuse true and false for a number, which Python reads as 1 and 0."""
        if isinstance(value, bool):
            kind = str(cls.model_fields[str(info.field_name)].annotation)
            if ("int" in kind or "float" in kind) and "bool" not in kind:
                raise refusal(f"expected a number, not {_said(value)}")
        return value

    @classmethod
    def parse(cls, settings: Mapping[str, Any], trust: Trust | None = None) -> Self:
        """Return an instance with these settings, or say in plain words what is wrong with them.

        Settings of a file are given with the trust in it, else code that they name is imported as if said here.
        """
        try:
            return cls.model_validate(settings, context=trust)
        except ValidationError as error:
            raise UserError(explain(error)) from error

    def to_dict(self, *, defaults: bool = True) -> dict[str, Any]:
        """Return the options, with or without those that are the defaults, ready for JSON.

        An infinite number becomes a word, which is read back as it was.
        """
        options: dict[str, Any] = json.loads(self.model_dump_json(exclude_defaults=not defaults))
        return options

    def content(self) -> dict[str, Any]:
        """Return what the value is, ready for JSON: all options but the places of files that are pinned."""
        whole = self.to_dict()
        _forget_places(self, whole)
        return whole

    def digest(self) -> str:
        """Return 32 letters that differ between values that differ."""
        return hashlib.sha256(json.dumps(self.content(), sort_keys=True).encode()).hexdigest()[:32]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Config) and type(self) is type(other) and self.content() == other.content()

    def __hash__(self) -> int:
        return hash((type(self), self.digest()))

    @classmethod
    def line(cls) -> str:
        """Return the first line of the docstring, which says what the class is."""
        return (cls.__doc__ or "").strip().splitlines()[0]


def _forget_places(kind: Config, dumped: dict[str, Any]) -> None:
    """Take the places of pinned files out of what a value and all values in it were dumped to."""
    for place, pin in kind.pins.items():
        if dumped.get(pin):
            dumped.pop(place, None)
    for name in type(kind).model_fields:
        value = getattr(kind, name)
        if isinstance(value, Config):
            _forget_places(value, dumped[name])
        elif isinstance(value, Mapping):
            for key, inner in value.items():
                if isinstance(inner, Config):
                    _forget_places(inner, dumped[name][key])


K = TypeVar("K", bound=Config)


class Registry(Generic[K]):
    """The classes of one noun (method, data, …) by name, and how their instances are parsed and dumped.

    A name of the form `package.module:Class` is your own class, outside of this project. What is found there but is
    not such a class becomes the option `source` of the class named `wrapper`, if there is one.
    `adapt` returns the options that stand for a value of another kind, and what it does not know as it is.
    """

    def __init__(
        self,
        noun: str,
        base: type[K],
        table: Mapping[str, type[K]],
        *,
        wrapper: str | None = None,
        adapt: Callable[[object], object] = lambda value: value,
    ) -> None:
        self.noun = noun
        self.base = base
        self.table = table
        self.wrapper = wrapper
        self.adapt = adapt

    @property
    def default(self) -> str:
        """The first class of the table, to which options without a name belong."""
        return next(iter(self.table))

    def parse(self, value: object, trust: Trust | None = None) -> K:
        """Take an instance, a name, or a mapping of `name` and options; `trust` is that in the file they come from."""
        if isinstance(value, self.base):
            return value
        value = self.adapt(value)
        if isinstance(value, str):
            value = {"name": value}
        if isinstance(value, Mapping):
            options = dict(value)
            name = str(options.pop("name", self.default))
            known, colon, value = name.partition(":")
            if colon and known in self.table and (option := self.table[known].argument):
                name, options = known, {option: value, **options}
            if trust is not None and trust.closed and ":" in name:
                closed: K = self._closed.model_construct(name=name, options=options)
                return closed
            if self.wrapper and ":" in name and not self._is_kind(self._import(name, trust)):
                name, options = self.wrapper, {"source": name, **options}
            return self.find(name, trust).model_validate(options, context=trust)
        raise refusal(f"a {self.noun} is a name or a table of options, not {value!r}")

    def chosen(self, value: object, trust: Trust | None = None) -> type[K] | None:
        """Return the class that `parse` would make an instance of, if there is one and it may be imported."""
        if isinstance(value, self.base):
            return type(value)
        value = self.adapt(value)
        name = str(value.get("name", self.default) if isinstance(value, Mapping) else value)
        known = name.partition(":")[0]
        if known in self.table:
            return self.table[known]
        if ":" not in name or (trust is not None and trust.closed):
            return None
        try:
            found = self._import(name, trust)
        except PydanticCustomError:
            return None
        return found if self._is_kind(found) else self.table.get(self.wrapper or "")

    def dump(self, kind: K) -> dict[str, Any]:
        """Return the mapping that `parse` takes."""
        return {"name": self.name(kind), **self.options(kind)}

    def is_closed(self, kind: K) -> bool:
        """Return whether it stands for a class that was not imported: only its name and options are known."""
        return isinstance(kind, self._closed)

    def options(self, kind: K, *, defaults: bool = True) -> dict[str, Any]:
        """Return the options of an instance, ready for JSON, with or without those that are the (known) defaults."""
        if self.is_closed(kind):
            return dict(getattr(kind, "options"))  # noqa: B009 - the class is made while the program runs
        return kind.to_dict(defaults=defaults)

    def find(self, name: str, trust: Trust | None = None) -> type[K]:
        """Return the class of that name."""
        if name in self.table:
            return self.table[name]
        if ":" not in name:
            raise refusal(f"unknown {self.noun} '{name}': {nearest(name, self.table)}")
        found = self._import(name, trust)
        if not self._is_kind(found):
            raise refusal(f"{self.noun} '{name}' is no subclass of {self.base.__name__}")
        return found

    def name(self, kind: K) -> str:
        """Return the name under which the class is found again."""
        if self.is_closed(kind):
            return str(getattr(kind, "name"))  # noqa: B009 - see above
        for name, cls in self.table.items():
            if type(kind) is cls:
                return name
        return f"{type(kind).__module__}:{type(kind).__qualname__}"

    def field(self) -> tuple[BeforeValidator, PlainSerializer]:
        """Return the pydantic annotations that make a field hold one instance of this registry."""

        def parse(value: object, info: ValidationInfo) -> K:
            return self.parse(value, info.context)

        return BeforeValidator(parse), PlainSerializer(self.dump)

    def fields(self) -> tuple[BeforeValidator, PlainSerializer]:
        """Return the pydantic annotations that make a field hold several instances of this registry by name.

        They may be given as names, or as a table of options by name; a name given as `NAME=CLASS` is your choice.
        """

        def parse(value: object, info: ValidationInfo) -> object:
            if isinstance(value, str | list | tuple):
                value = {str(name): {} for name in read_list(value)}
            if not isinstance(value, Mapping):
                raise ValueError(f"{self.noun}s are names or a table of options by name, not {value!r}")
            return {name: parse_one(name, options, info.context) for name, options in value.items()}

        def parse_one(name: str, options: object, trust: Trust | None) -> K:
            if isinstance(options, self.base):
                return options
            if isinstance(options, str):
                return self.parse(options, trust)
            if not isinstance(options, Mapping):
                raise ValueError(f"{name} takes a table of options, not {options!r}")
            try:
                return self.parse({"name": name, **options}, trust)
            except ValidationError as error:
                raise _within(error, name) from error

        def dump(kinds: Mapping[str, K]) -> dict[str, Any]:
            return {
                name: self.options(kind) if self.name(kind) == name else self.dump(kind) for name, kind in kinds.items()
            }

        return BeforeValidator(parse), PlainSerializer(dump)

    @cached_property
    def _closed(self) -> Any:
        """The stand-in for a class that is not imported: it keeps name and options, and refuses to do anything."""

        def refuse(kind: Any, *_: object, **__: object) -> None:
            raise UserError(f"{self.noun} '{kind.name}' was only looked at, not imported")

        closed = create_model(
            f"Closed{self.base.__name__}", __base__=self.base, name=(str, ...), options=(dict[str, Any], ...)
        )
        for hook, _ in inspect.getmembers(self.base, inspect.isfunction):
            if hook in vars(self.base):
                setattr(closed, hook, refuse)
        return closed

    def _import(self, name: str, trust: Trust | None) -> Any:
        try:
            return import_named(name, trust)
        except UserError as error:
            raise refusal(f"{self.noun} {error}") from error

    def _is_kind(self, found: object) -> TypeGuard[type[K]]:
        return isinstance(found, type) and issubclass(found, self.base)


def refusal(message: str) -> PydanticCustomError:
    """Return what a validator raises to refuse in these words; half characters, which JSON can hold, are spelled."""
    spelled = message.encode(errors="backslashreplace").decode()
    return PydanticCustomError("unknown", "{message}", {"message": spelled})


NUMBERS = ("a whole number", "a number")

EXPECTED: dict[str, str] = {
    **dict.fromkeys(("int_parsing", "int_type", "int_from_float", "int_parsing_size"), NUMBERS[0]),
    **dict.fromkeys(("float_parsing", "float_type"), NUMBERS[1]),
    "finite_number": "a finite number",
    **dict.fromkeys(("bool_parsing", "bool_type"), "true or false"),
    **dict.fromkeys(("string_type", "path_type"), "text"),
    **dict.fromkeys(("tuple_type", "list_type"), "a list such as [1, 2]"),
    **dict.fromkeys(("dict_type", "mapping_type", "model_type"), "a table of options by name"),
    "greater_than": "more than {gt:g}",
    "greater_than_equal": "at least {ge:g}",
    "less_than": "less than {lt:g}",
    "less_than_equal": "at most {le:g}",
    "literal_error": "{expected}",
    "too_short": "at least {min_length} in the list",
    "too_long": "at most {max_length} in the list",
}
"""What would be right, by what pydantic calls the mistake."""

BRANCH = re.compile(r"(constrained-|literal\[|function-|nullable\[|bool$|int$|float$|str$)")
"""What pydantic adds to the place of a mistake where a value may be of several types."""


def explain(error: ValidationError) -> str:
    """Say a validation error in lines of `key: what is expected, and not that`, one for each key."""
    lines: list[str] = []
    choices: dict[str, list[str]] = {}
    given: dict[str, object] = {}
    for problem in error.errors(include_url=False):
        place = ".".join(str(part) for part in problem["loc"] if not BRANCH.match(str(part)))
        text = problem["msg"].removeprefix("Value error, ")
        if (expected := EXPECTED.get(problem["type"])) is not None:
            choices.setdefault(place, []).append(expected.format_map(problem.get("ctx", {})))
            given[place] = problem["input"]
        elif problem["type"] == "missing":
            lines.append(f"{place} is required")
        else:
            if problem["type"] not in ("unknown", "value_error"):
                text = f"{text[0].lower()}{text[1:]}, not {problem['input']!r}"
            lines.append(f"{place}: {text}" if place else text)
    for place, several in choices.items():
        wide = [each for each in dict.fromkeys(several) if each != NUMBERS[0] or NUMBERS[1] not in several]
        lines.append(f"{place}: expected {' or '.join(wide)}, not {_said(given[place])}")
    return "\n".join(lines)


def _said(value: object) -> str:
    """Return a value as a setting says it."""
    return str(value).lower() if isinstance(value, bool) else repr(value)


def _within(error: ValidationError, key: str) -> ValidationError:
    """Return the same error, of what lies under that key."""
    found = [
        InitErrorDetails(
            type=PydanticCustomError(each["type"], "{text}", {**each.get("ctx", {}), "text": each["msg"]}),
            loc=(key, *each["loc"]),
            input=each["input"],
        )
        for each in error.errors(include_url=False)
    ]
    return ValidationError.from_exception_data(error.title, found)
