"""What arms of a comparison are called in every table, figure and page: as papers call them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from feddecorr.results.study import Label, Labels
from feddecorr.settings.options import REGISTRIES

ABSENT = "–"
"""The label of an option that a combination does not have."""

TITLES = {
    "cifar10": "CIFAR-10",
    "cifar100": "CIFAR-100",
    "mnist": "MNIST",
    "fashion_mnist": "Fashion-MNIST",
    "feddr": "FedDr+",
    "structured_decov": "Structured-DeCov",
    "vicreg_covariance": "VICReg (covariance)",
    "vicreg_variance": "VICReg (variance)",
}
"""Kinds that are not called as their class is."""

SYMBOLS = {
    "alpha": "α",
    "beta": "β",
    "epsilon": "ε",
    "mu": "μ",
    "rho": "ρ",
    "tau": "τ",
    "lr": "learning rate",
    "epochs": "local epochs",
    "batch": "batch size",
    "per_client": "classes per client",
}
"""Settings by their last part, where papers write something else."""

STATED = {"fedprox": "mu", "moon": "mu"}
"""Options that belong to the name of a method."""

METHOD, REGULARIZERS = "method", ("regularizers", "regularizer")
"""The labels that make an arm: studies have one regularizer at most."""


_KNOWN = {name: cls.__name__ for family in REGISTRIES.values() for name, cls in family.table.items()} | TITLES


def short_name(setting: str) -> str:
    """Return the last part of a dotted setting: `alpha` for `partition.alpha`, `method` for `method.name`."""
    return setting.removesuffix(".name").rpartition(".")[2]


def title(kind: str) -> str:
    """Return what a kind is called: FedAvg, CIFAR-10, and a class of a user's own by its name."""
    if ":" in kind and kind.partition(":")[0] not in _KNOWN:
        return kind.rpartition(":")[2]
    return re.sub(r"\w+", lambda word: _KNOWN.get(word[0], word[0]), kind, count=1)


def symbol(setting: str) -> str:
    """Return what a setting is called at the head of a column: α for `partition.alpha`."""
    short = short_name(setting)
    return SYMBOLS.get(short, short.replace("_", " "))


def shown(setting: str, value: Label) -> str:
    """Return a value as a cell of a table."""
    if value == "inf":
        return "∞"
    kinds = short_name(setting) in ("regularizer", *REGISTRIES) or setting.endswith("optimizer")
    return title(value) if kinds and isinstance(value, str) and value != ABSENT else str(value)


@dataclass(frozen=True)
class ArmName:
    """The name of an arm in its parts: `arm` combines the other three, `others` is what else distinguishes it."""

    method: str
    options: str
    regularizers: str
    arm: str
    others: str

    @property
    def whole(self) -> str:
        """The name in one line: FedAvg + FedDecorr, α = 0.05."""
        return ", ".join(filter(None, [self.arm, self.others]))


def name_arm(labels: Labels, settings: Mapping[str, Any] | None = None) -> ArmName:
    """Name an arm by the labels that distinguish it, and by the settings of a run of it where these are known.

    A regularizer is named with its method, whether or not methods differ. Without labels, an arm is its method and
    its regularizers.
    """
    settings, rest = settings or {}, {key: value for key, value in labels.items() if value != ABSENT}
    known = settings.get(METHOD)
    chosen = known if isinstance(known, Mapping) else {}
    regularizers = next((str(rest.pop(key)) for key in REGULARIZERS if key in rest), None)
    if not rest and regularizers is None and not any(key in labels for key in (METHOD, *REGULARIZERS)):
        held = settings.get("regularizers")
        regularizers = "+".join(held) if isinstance(held, Mapping) else None
    method = str(rest.pop(METHOD, chosen.get("name", "") if regularizers is not None else ""))
    stated = STATED.get(method)
    own = {stated: chosen[stated]} if stated and chosen.get("name") == method and stated in chosen else {}
    options = _braces({**own, **_options(rest, METHOD)}) if method else ""
    parts, variants = [title(method) + options] if method else [], [options]
    names = [name for name in (regularizers or "none").split("+") if name != "none"]
    for name in names:
        variants.append(_braces(_options(rest, f"regularizers.{name}")))
        parts.append(title(name) + variants[-1])
    if not parts and regularizers:
        parts = ["no regularizer"]
    others = [_describe(key, value) for key, value in rest.items()]
    return ArmName(method, "".join(variants), "+".join(names), " + ".join(parts), ", ".join(others))


def _options(rest: Labels, kind: str) -> Labels:
    """Take the options of a kind out of the labels."""
    keys = [key for key in rest if key.startswith(f"{kind}.")]
    return {key.removeprefix(f"{kind}."): rest.pop(key) for key in keys}


def _braces(options: Mapping[str, Label]) -> str:
    return f" ({', '.join(_describe(key, value) for key, value in options.items())})" if options else ""


def _describe(setting: str, value: Label) -> str:
    """Return a label in few words: numbers are named, words of kinds stand for themselves."""
    if isinstance(value, int | float) or value == "inf":
        return f"{symbol(setting)} = {shown(setting, value)}"
    short = short_name(setting)
    return shown(setting, value) if short in REGISTRIES or setting == short else f"{symbol(setting)} {value}"


def columns(named: Sequence[tuple[Labels, ArmName]]) -> tuple[list[str], list[list[str]]]:
    """Return headings and cells of the arms' labels: the arm in one column where any has one, then all else."""
    arms = any(name.arm for _, name in named)
    keys = list(dict.fromkeys(key for labels, _ in named for key in labels if not (arms and is_of_arm(key))))
    rows = [
        [*([name.arm] if arms else []), *(shown(key, labels.get(key, ABSENT)) for key in keys)]
        for labels, name in named
    ]
    return [*(["method"] if arms else []), *map(symbol, keys)], rows


def is_regularizer(key: str) -> bool:
    """Return whether a label is about regularizers."""
    return key.partition(".")[0] in REGULARIZERS


def is_of_arm(key: str) -> bool:
    """Return whether a label is part of an arm's own name."""
    return key.partition(".")[0] == METHOD or is_regularizer(key)
