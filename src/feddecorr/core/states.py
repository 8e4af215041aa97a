"""Tensors by name: arithmetic, means, and putting them into a module."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

import torch
from torch import Tensor, nn

from feddecorr.core.checks import LARGEST, LONGEST_NAME, is_plain, printable
from feddecorr.errors import UserError

State = dict[str, Tensor]
"""Tensors by name."""

SHOWN = 5

NEVER_NEGATIVE = ("running_var", "num_batches_tracked")
"""BatchNorm's variances, of which a root is taken, and its counters."""

GROWTH = 1e12
"""How much further than before a whole number may be from zero: so it never overflows, however long a run is."""

WIDE = {torch.float16: torch.float32, torch.bfloat16: torch.float32}


class Mean:
    """A running weighted mean of states.

    Each state is mixed in by its share of the weight so far. So the mean of one is that one, and the mean of
    equals is their value, to the last bit; nothing is held but the mean.
    """

    def __init__(self) -> None:
        self.value: State = {}
        self.weight = 0.0

    def add(self, state: State, weight: float) -> None:
        """Mix in one state; of integer tensors (BatchNorm's counters) the largest is kept."""
        self.weight += weight
        if not self.value:
            self.value = {name: tensor.clone() for name, tensor in state.items()}
            return
        for name, theirs in state.items():
            mine = self.value[name]
            if mine.is_floating_point():
                mine.lerp_(theirs, weight / self.weight)
            else:
                torch.maximum(mine, theirs, out=mine)


class PooledMean(Mean):
    """A running mean in which BatchNorm's variances are those over the samples of all states together.

    That is the mean of the variances plus the variance of the means, which a mean of each alone leaves out.
    """

    def add(self, state: State, weight: float) -> None:
        """Mix in one state, and to its variances how far its means lie from those so far."""
        share = weight / (self.weight + weight)
        means = [name for name in self.value if name.endswith("running_mean")]
        apart = {
            variance: (state[name] - self.value[name]).square() * (share * (1 - share))
            for name in means
            if (variance := name.removesuffix("mean") + "var") in state
        }
        super().add(state, weight)
        for variance, spread in apart.items():
            self.value[variance].add_(spread)


STATISTICS: dict[str, type[Mean]] = {"average": Mean, "pooled": PooledMean, "fixed": Mean, "local": Mean}
"""How the clients' BatchNorm statistics become those of the global model."""


def extrapolate(start: State, mean: State, factor: float) -> State:
    """Return start + factor·(mean − start), written so that a factor of 1 gives the mean to the last bit."""
    return {name: torch.add(mean[name], mean[name] - start[name], alpha=factor - 1) for name in start}


def size_of(*states: State) -> int:
    """Return the bytes of all tensors."""
    return sum(tensor.nbytes for state in states for tensor in state.values())


def square_distance(one: State, other: State) -> float:
    """Return ‖one − other‖² over all tensors of the other."""
    return sum(float((one[name] - other[name]).square().sum()) for name in other)


def norm(tensors: Iterable[Tensor]) -> Tensor:
    """Return the norm of all numbers together."""
    together: Tensor = torch.linalg.vector_norm(torch.stack([torch.linalg.vector_norm(tensor) for tensor in tensors]))
    return together


@torch.no_grad()
def copy_into(targets: Iterable[Tensor], sources: Iterable[Tensor]) -> None:
    """Give each target the values of its source; types and devices may differ."""
    for target, source in zip(targets, sources, strict=True):
        target.copy_(source)


def has_layout(state: State, like: Mapping[str, Tensor]) -> bool:
    """Return whether each tensor is in the memory format of its namesake, and on no graph."""
    return all(tensor.stride() == like[name].stride() and not tensor.requires_grad for name, tensor in state.items())


def match_layout(state: State, like: Mapping[str, Tensor]) -> State:
    """Return the state with each tensor in the memory format of its namesake.

    Sums over a tensor depend on that in their last bits; files and messages do not keep it.
    """
    return {
        name: each if each.stride() == like[name].stride() else torch.empty_like(like[name]).copy_(each)
        for name, each in ((name, tensor.detach()) for name, tensor in state.items())
    }


def state_dict_names(model: nn.Module) -> dict[str, str]:
    """Return, for each name in the module's `state_dict`, that of `named_parameters` or `named_buffers` for it.

    There, tied weights come once; a `state_dict` has them under each of their names, and leaves some buffers out.
    """
    known = {id(tensor): name for name, tensor in (*model.named_parameters(), *model.named_buffers())}
    held = model.state_dict(keep_vars=True)
    return {name: known[id(tensor)] for name, tensor in held.items() if id(tensor) in known}


def load_into(model: nn.Module, state: Mapping[str, Tensor]) -> None:
    """Give the module's parameters and buffers these values, every one of them; refuse a misfit by name.

    Names are those of `named_parameters` and `named_buffers`: tied weights come once, and buffers that a
    `state_dict` leaves out come along.
    """
    mine: State = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    if problems := misfits(state, mine):
        raise UserError(f"the state does not fit the model ({'; '.join(problems)})")
    copy_into(mine.values(), (state[name] for name in mine))


def misfits(
    state: Mapping[str, Tensor], expected: Mapping[str, Tensor], *, types: bool = False, strict: bool = False
) -> list[str]:
    """Return in which ways names and shapes, and if asked also types, are not the expected ones.

    Strictly, types count, too, and whatever is no plain tensor (sparse, nested, without numbers) is named first.
    """
    types = types or strict
    if strict and (strange := [name for name, tensor in state.items() if not is_plain(tensor)]):
        return [f"no plain tensors: {_few(strange)}"]
    shared = [name for name in expected if name in state]
    lists = {
        "missing": [name for name in expected if name not in state],
        "unknown": [name for name in state if name not in expected],
        "of another shape": [
            f"{name} {tuple(state[name].shape)} in place of {tuple(expected[name].shape)}"
            for name in shared
            if state[name].shape != expected[name].shape
        ],
        "of another type": [
            f"{name} {state[name].dtype} in place of {expected[name].dtype}"
            for name in shared
            if types and state[name].dtype != expected[name].dtype
        ],
    }
    return [f"{what}: {_few(names)}" for what, names in lists.items() if names]


def not_finite(state: Mapping[str, Tensor]) -> list[str]:
    """Return the names of tensors that hold NaN or infinity; one sum over each where all is well."""
    # Half precision is summed as float32: the sum of many fair numbers must not overflow.
    sums = (tensor.sum(dtype=WIDE.get(tensor.dtype)) for tensor in state.values() if tensor.is_floating_point())
    if math.isfinite(sum(map(float, sums))):
        return []
    return [name for name, tensor in state.items() if not bool(tensor.isfinite().all())]


def magnitudes(section: str, state: State, like: Mapping[str, Tensor]) -> float:
    """Return the largest number of a state that fits another, or refuse what would end a sum, a square or a root.

    Numbers are finite and no larger than `LARGEST`, but for whole numbers that grew by no more than `GROWTH`;
    variances and counters are not negative.
    """
    largest = 0.0
    for name, tensor in state.items():
        if tensor.numel() == 0:
            continue
        least, most = torch.aminmax(_row(tensor))
        low, high = least.item(), most.item()
        if not -LARGEST <= low <= high <= LARGEST and not _is_counted(tensor, like[name], max(-low, high)):
            raise UserError(_out_of_bounds(section, name, low, high))
        if low < 0 and name.endswith(NEVER_NEGATIVE):
            raise UserError(f"its {section} hold {low:.3g} (in {name}), which is never negative")
        largest = max(largest, -low, high)
    return largest


def _is_counted(tensor: Tensor, like: Tensor, largest: float) -> bool:
    """Return whether it holds whole numbers that may have been counted from those of the other."""
    return not tensor.is_floating_point() and largest <= GROWTH + float(like.abs().max())


def _out_of_bounds(section: str, name: str, low: float, high: float) -> str:
    if math.isfinite(low) and math.isfinite(high):
        return f"its {section} hold {max(low, high, key=abs):.3g} (in {name}), beyond {LARGEST:g}; lower training.lr"
    return f"its {section} hold NaN or infinity (in {name}); lower training.lr"


def _row(tensor: Tensor) -> Tensor:
    """Return the same numbers as they lie in memory, where that is known: a pass in another order is a copy first."""
    if tensor.ndim == 4 and not tensor.is_contiguous():
        return tensor.permute(0, 2, 3, 1)  # as channels last are
    return torch.view_as_real(tensor.resolve_conj()) if tensor.is_complex() else tensor


def _few(names: Sequence[str]) -> str:
    few = ", ".join(printable(str(name), LONGEST_NAME) for name in names[:SHOWN])
    return few + (f" and {len(names) - SHOWN} more" if len(names) > SHOWN else "")
