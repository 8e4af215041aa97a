"""What training changes of a network: the spectrum of each layer's change, and how alike the changes of clients are."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch import Tensor, nn

from feddecorr.collapse import spectrum
from feddecorr.collapse.averaging import geometric_mean
from feddecorr.collapse.representation import WRAPPERS
from feddecorr.errors import UserError, nearest

if TYPE_CHECKING:
    from rich.console import RenderableType

Tensors = Mapping[str, Tensor]

LORA = re.compile(r"(.*?)(?:\.parametrizations\.weight\.\d+)?\.lora_(?:embedding_)?([ABab])((?:\.\w+)?)")
"""The names of the factors of a low-rank adapter, as peft gives them or `training.adapter`: layer, factor, adapter."""


@dataclass(frozen=True)
class Change:
    """The change of one layer as a matrix, or as the two factors of which it is the product."""

    layer: str
    matrix: Tensor
    times: Tensor | None = None
    before: float = 0.0

    def singular_values(self) -> Tensor:
        """Return min(rows, columns) of them, largest first; of factors, from their triangles."""
        if self.times is None:
            whole: Tensor = torch.linalg.svdvals(self.matrix)
            return whole
        left, right = (torch.linalg.qr(each, mode="r").R for each in (self.matrix, self.times.T))
        values: Tensor = torch.linalg.svdvals(left @ right.T)
        most = min(self.shape)
        return torch.nn.functional.pad(values[:most], (0, max(0, most - len(values))))

    @property
    def shape(self) -> tuple[int, int]:
        """Rows (outputs) and columns (inputs)."""
        return len(self.matrix), (self.matrix if self.times is None else self.times).shape[1]

    def whole(self) -> Tensor:
        """Return the matrix."""
        return self.matrix if self.times is None else self.matrix @ self.times


@dataclass(frozen=True)
class LayerUpdate:
    """The change ΔW of one layer: ranks of its singular values σ, its size, and its size by that of the weights before.

    `effective_rank` is exp(−Σ pₖ log pₖ) with pₖ = σₖ/Σσ, `stable_rank` is ‖ΔW‖²_F/‖ΔW‖²₂.
    """

    rows: int
    columns: int
    norm: float
    relative_norm: float | None
    effective_rank: float
    stable_rank: float
    singular_values: list[float] = field(repr=False)

    @classmethod
    def of(cls, change: Change) -> LayerUpdate:
        """Measure a change."""
        values = change.singular_values()
        norm = float(values.norm())
        if not math.isfinite(norm):
            raise UserError(f"the change of '{change.layer}' is not finite: the model has diverged")
        return cls(
            *change.shape,
            norm=norm,
            relative_norm=norm / change.before if change.before > 0 else None,
            effective_rank=spectrum.effective_rank(values),
            stable_rank=spectrum.stable_rank(values.square()),
            singular_values=values.tolist(),
        )

    @property
    def maximum_rank(self) -> int:
        """The most that a rank can be."""
        return min(self.rows, self.columns)


@dataclass(frozen=True, repr=False)
class UpdateDiagnosis:
    """How many dimensions the change of each layer has; `print` and notebooks show it as a table."""

    layers: dict[str, LayerUpdate]
    name: str = "update"

    HEADINGS: ClassVar = ("layer", "shape", "effective rank", "of", "stable rank", "‖ΔW‖", "‖ΔW‖/‖W‖")

    def rows(self) -> list[list[str]]:
        """Return the table, by `HEADINGS`."""
        return [
            [
                layer,
                f"{each.rows}×{each.columns}",
                f"{each.effective_rank:.1f}",
                str(each.maximum_rank),
                f"{each.stable_rank:.2f}",
                f"{each.norm:.3g}",
                "–" if each.relative_norm is None else f"{each.relative_norm:.3g}",
            ]
            for layer, each in self.layers.items()
        ]

    def to_dict(self) -> dict[str, Any]:
        """Return it ready for JSON."""
        return asdict(self) | {"answer": self.answer()}

    def answer(self) -> list[str]:
        """Return the answer in sentences."""
        changed = {layer: each for layer, each in self.layers.items() if each.norm > 0}
        if not changed:
            return [f"{self.name}: no layer has changed."]
        shares = {layer: each.effective_rank / each.maximum_rank for layer, each in changed.items()}
        least = min(shares, key=lambda layer: shares[layer])
        said = [
            f"{self.name}: in effect the layers' changes use {100 * sum(shares.values()) / len(shares):.0f} % of their "
            f"possible dimensions on the average, and the fewest in '{least}': {changed[least].effective_rank:.1f} of "
            f"{changed[least].maximum_rank}."
        ]
        if still := len(self.layers) - len(changed):
            said.append(f"{still} of {len(self.layers)} layers have not changed.")
        return said

    def __repr__(self) -> str:
        return f"<UpdateDiagnosis of {self.name}: {len(self.layers)} layers>"

    def __str__(self) -> str:
        table = [list(self.HEADINGS), *self.rows()]
        widths = [max(map(len, column)) for column in zip(*table, strict=True)]
        lines = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in table]
        return "\n".join([self.name, *lines, "", *self.answer()])

    def __rich__(self) -> RenderableType:
        from rich.console import Group  # noqa: PLC0415 - who asks has it
        from rich.table import Table  # noqa: PLC0415
        from rich.text import Text  # noqa: PLC0415

        table = Table(*self.HEADINGS, title=self.name, title_justify="left")
        for row in self.rows():
            table.add_row(*map(Text, row))
        return Group(table, *map(Text, self.answer()))


def diagnose_update(
    before: nn.Module | Tensors, after: nn.Module | Tensors, *, name: str = "update"
) -> UpdateDiagnosis:
    """Return the spectrum of the change of every layer between two models or state dicts.

    Layers are all weights of two dimensions or more, as matrices from a position's inputs to its outputs. The change
    of a low-rank adapter is that of the product of its factors, up to its scaling, which no state dict holds. Names
    may differ by what `torch.compile` and data parallelism put in front of them.
    """
    layers = {each.layer: LayerUpdate.of(each) for each in changes(before, after)}
    if not layers:
        raise UserError("there is no weight of two dimensions or more, and so no layer whose change has a spectrum")
    return UpdateDiagnosis(layers, name)


def changes(before: nn.Module | Tensors, after: nn.Module | Tensors) -> Iterator[Change]:
    """Yield the change of every layer, in the order of the first model; refuse models that do not fit."""
    old, new = _plain(before), _plain(after)
    for one, other in ((old, new), (new, old)):
        if missing := [layer for layer in one if layer not in other]:
            raise UserError(f"only one of the two models has '{missing[0]}': {nearest(missing[0], list(other))}")
    for layer, tensor in old.items():
        if tensor.shape != new[layer].shape:
            raise UserError(f"'{layer}' has the shape {tuple(tensor.shape)} before and {tuple(new[layer].shape)} after")
    for layer, tensor in old.items():
        factor = LORA.fullmatch(layer)
        if factor is None:
            start = tensor.double()
            yield Change(layer, (new[layer].double() - start).flatten(1), before=float(start.norm()))
        elif (found := _of_factors(factor, old, new)) is not None:
            yield found


def _of_factors(factor: re.Match[str], old: Tensors, new: Tensors) -> Change | None:
    """Return the change of BA, in factors: [B' −B] [A'; A]; None for B, which comes with A."""
    name, letter, adapter = factor.groups()
    start, end = factor[0][: factor.start(2)], factor[0][factor.end(2) :]
    first, second = (f"{start}{each}{end}" for each in ("AB" if letter.isupper() else "ab"))
    for each in (first, second):
        if each not in old:
            raise UserError(f"'{factor[0]}' is one factor of a low-rank adapter, but there is no '{each}'")
    if letter in "Bb":
        return None
    (a, b), (later_a, later_b) = (
        (each[first].double().flatten(1), each[second].double().flatten(1)) for each in (old, new)
    )
    layer = name if adapter in ("", ".default") else name + adapter
    return Change(layer, torch.cat([later_b, -b], 1), torch.cat([later_a, a]), float((b @ a).norm()))


def _plain(model: nn.Module | Tensors) -> dict[str, Tensor]:
    """Return the matrices by the names of their layers; biases, scales and statistics are vectors."""
    tensors = model.state_dict() if isinstance(model, nn.Module) else model
    return {
        ".".join(part for part in name.split(".") if part not in WRAPPERS).removesuffix(".weight"): tensor.detach()
        for name, tensor in tensors.items()
        if isinstance(tensor, Tensor) and tensor.ndim >= 2 and tensor.is_floating_point()
    }


@dataclass(frozen=True)
class LayerUpdates:
    """The clients' changes of one layer in a round, and the change that their average is.

    Of the clients, `effective_rank` and `stable_rank` are geometric means, and `alignment` is the mean cosine between
    the changes of two clients: 1 where all go the same way, 0 where they have nothing in common. It is None of fewer
    than two clients that changed the layer.
    """

    maximum_rank: int
    effective_rank: float
    stable_rank: float
    averaged_effective_rank: float
    averaged_stable_rank: float
    alignment: float | None = None


class RoundUpdates:
    """Takes the clients' models of a round one by one, and keeps two sums of the size of a model."""

    def __init__(self, sent: Tensors) -> None:
        self._sent = sent
        self._found: dict[str, list[tuple[float, float]]] = {}
        self._directions: dict[str, Tensor] = {}
        self._moving: dict[str, int] = {}
        self._sums: dict[str, Tensor] = {}
        self._examples = 0

    def take(self, model: Tensors, examples: int) -> UpdateDiagnosis:
        """Add a client's change of the weights that it received, and return the change's spectrum."""
        layers = {}
        for change in changes({name: self._sent[name] for name in model}, model):
            layer, whole = change.layer, change.whole()
            layers[layer] = found = LayerUpdate.of(change)
            self._found.setdefault(layer, []).append((found.effective_rank, found.stable_rank))
            moving = found.norm > 0
            direction = whole / found.norm if moving else whole
            self._moving[layer] = self._moving.get(layer, 0) + moving
            self._directions[layer] = self._directions.get(layer, 0) + direction
            self._sums[layer] = self._sums.get(layer, 0) + examples * whole
        self._examples += examples
        return UpdateDiagnosis(layers)

    def layers(self) -> dict[str, LayerUpdates]:
        """Return what was found, by layer; empty where there was no client."""
        return {layer: self._layer(layer) for layer in self._found}

    def _layer(self, layer: str) -> LayerUpdates:
        effective, stable = (list(each) for each in zip(*self._found[layer], strict=True))
        averaged = LayerUpdate.of(Change(layer, self._sums[layer] / self._examples))
        n = self._moving[layer]
        together = float(self._directions[layer].square().sum())
        return LayerUpdates(
            maximum_rank=averaged.maximum_rank,
            effective_rank=geometric_mean(effective),
            stable_rank=geometric_mean(stable),
            averaged_effective_rank=averaged.effective_rank,
            averaged_stable_rank=averaged.stable_rank,
            alignment=(together - n) / (n * (n - 1)) if n > 1 else None,
        )


@dataclass(frozen=True)
class UpdatedRound:
    """The updates of a round: of all clients together, and of each."""

    name: str
    layers: dict[str, LayerUpdates]
    clients: dict[int, UpdateDiagnosis]

    HEADINGS: ClassVar = (
        "layer", "of", "effective rank", "of their average", "stable rank", "of their average", "alignment"
    )  # fmt: skip

    def to_dict(self) -> dict[str, Any]:
        """Return it ready for JSON."""
        return asdict(self) | {"answer": self.answer()}

    def rows(self) -> list[list[str]]:
        """Return the layers as a table, by `HEADINGS`."""
        return [
            [
                layer,
                str(each.maximum_rank),
                f"{each.effective_rank:.1f}",
                f"{each.averaged_effective_rank:.1f}",
                f"{each.stable_rank:.2f}",
                f"{each.averaged_stable_rank:.2f}",
                "–" if each.alignment is None else f"{each.alignment:.2f}",
            ]
            for layer, each in self.layers.items()
        ]

    def answer(self) -> list[str]:
        """Return the answer in sentences."""
        if not self.layers:
            return [f"{self.name}: no layer with a matrix of weights was trained."]
        own = _mean([each.effective_rank / each.maximum_rank for each in self.layers.values()])
        averaged = _mean([each.averaged_effective_rank / each.maximum_rank for each in self.layers.values()])
        said = [
            f"{self.name}: in effect the update of one of {len(self.clients)} clients uses {100 * own:.0f} % of the "
            f"layers' possible dimensions, and the average of all updates {100 * averaged:.0f} %."
        ]
        known = {layer: each.alignment for layer, each in self.layers.items() if each.alignment is not None}
        if known:
            least, most = min(known, key=known.__getitem__), max(known, key=known.__getitem__)
            said.append(
                f"The changes of two clients have a cosine of {sum(known.values()) / len(known):.2f} on the average: "
                f"from {known[least]:.2f} in '{least}' to {known[most]:.2f} in '{most}'."
            )
        return said


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)
