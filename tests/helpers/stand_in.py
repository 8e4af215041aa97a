"""An accelerator that exists only in tests: the device `standin`, which is the processor behind a wall.

Its tensors hold real values. An operation that mixes them with the host's is refused, as a card refuses it; what
crosses in each direction and what is read back is counted. Import it where the device is to be known; a worker process
does when an experiment names something of this module.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import return_and_correct_aliasing
from torch.utils.backend_registration import _DummyBackendModule, _setup_privateuseone_for_python_backend

from feddecorr.collapse.measures import Principal
from feddecorr.config.training import Measure

NAME = "standin"
aten = torch.ops.aten

traffic: Counter[str] = Counter()
"""How often and with how many bytes tensors came in and went out, and how often the host waited for a value."""

READS = (
    aten._local_scalar_dense.default,
    aten.equal.default,
    aten.nonzero.default,
    aten.masked_select.default,
    aten._unique2.default,
    aten.bincount.default,
    aten.repeat_interleave.Tensor,
)
"""What a card answers to the host before it goes on: values, and sizes that depend on values."""

SOLVERS = (aten._linalg_eigh.default, aten._linalg_svd.default)
"""These give the host their status, which PyTorch checks."""

INDEXED = (aten.index.Tensor, aten.index_put.default, aten.index_put_.default, aten._index_put_impl_.default)
"""These read the number of true values, where an index is a mask."""


class OnStandIn(Tensor):
    """A tensor of the device; `held` has its values."""

    held: Tensor

    @staticmethod
    def __new__(cls, held: Tensor) -> OnStandIn:
        """Return a tensor of that form without memory of its own."""
        wrapper: OnStandIn = Tensor._make_wrapper_subclass(
            cls,
            held.size(),
            strides=held.stride(),
            storage_offset=held.storage_offset(),
            dtype=held.dtype,
            device=torch.device(NAME, 0),
        )
        return wrapper

    def __init__(self, held: Tensor) -> None:
        self.held = held

    def __repr__(self) -> str:  # type: ignore[override]  # Tensor's takes an option
        """Show the values, which reads them back."""
        traffic["reads"] += 1
        return f"OnStandIn({self.held})"

    @property
    def data(self) -> Tensor:
        """The tensor on no graph; assigned to, it takes over the other's values, which PyTorch does out of sight."""
        return self.detach()

    @data.setter
    def data(self, other: Tensor) -> None:
        assert isinstance(other, OnStandIn)
        Tensor.data.__set__(self, other)  # type: ignore[attr-defined]  # sizes and strides
        self.held = other.held

    @classmethod
    def __torch_dispatch__(cls, func: Any, _types: Any, args: Any = (), kwargs: Any = None) -> Any:  # type: ignore[override]
        """Compute on the values."""
        return compute(func, args, kwargs or {})


def compute(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Compute on the values behind the wall; count what crosses it and refuse what mixes both sides."""
    target = None if kwargs.get("device") is None else torch.device(kwargs["device"]).type
    if func in (aten._to_copy.default, aten.copy_.default):
        _count_copy(args, target)
    else:
        _refuse_mixed(func, [each for each in pytree.tree_leaves((args, kwargs)) if isinstance(each, Tensor)])
    if func in READS or (func in INDEXED and any(each is not None and each.dtype is torch.bool for each in args[1])):
        traffic["reads"] += 1
    if func in SOLVERS:
        traffic["solvers"] += 1
    held_args, held_kwargs = pytree.tree_map_only(OnStandIn, lambda each: each.held, (args, dict(kwargs)))
    if target is not None:
        held_kwargs["device"] = "cpu"
    result = func(*held_args, **held_kwargs)
    if func is aten.copy_.default:
        return args[0]
    if target == "cpu" or not any(isinstance(each, Tensor) for each in pytree.tree_leaves(result)):
        return result
    return return_and_correct_aliasing(func, args, kwargs, pytree.tree_map_only(Tensor, OnStandIn, result))


def _count_copy(args: Sequence[Any], target: str | None) -> None:
    """Count a copy from one side to the other: of the first to a device, or of the second into the first."""
    source = args[1] if target is None and len(args) > 1 and isinstance(args[1], Tensor) else args[0]
    before = NAME if isinstance(source, OnStandIn) else "cpu"
    after = (NAME if isinstance(args[0], OnStandIn) else "cpu") if target is None else target
    if before != after:
        direction = "in" if after == NAME else "out"
        traffic[direction] += 1
        traffic[f"bytes {direction}"] += source.nbytes


def _refuse_mixed(func: Any, tensors: Sequence[Tensor]) -> None:
    if len({isinstance(each, OnStandIn) for each in tensors if each.dim()}) > 1:
        raise RuntimeError(f"{func}: expected all tensors to be on the same device, but found {NAME} and cpu")


class _Backend(_DummyBackendModule):
    """What PyTorch asks of a device's module."""

    def get_rng_state(self, _device: object = None) -> Tensor:
        return torch.zeros(1, dtype=torch.uint8)

    def set_rng_state(self, _state: Tensor, _device: object = None) -> None:
        return

    def get_amp_supported_dtype(self) -> list[torch.dtype]:
        return [torch.bfloat16]


_setup_privateuseone_for_python_backend(NAME, backend_module=_Backend())
_everything = torch.library.Library("_", "IMPL", "PrivateUse1")
_everything.fallback(lambda func, *args, **kwargs: compute(func, args, kwargs), "PrivateUse1")

_no_autocast = torch.library.Library("_", "IMPL", "AutocastPrivateUse1")
_no_autocast.fallback(torch.library.fallthrough_kernel)
_autocast = torch.library.Library("aten", "IMPL", "AutocastPrivateUse1")
_KEY = torch._C._parse_dispatch_key("AutocastPrivateUse1")
assert _KEY is not None
_AUTOCAST = torch._C.DispatchKeySet(_KEY)


def _narrow(func: Any) -> Callable[..., Any]:
    """Return the operation in bfloat16, as autocast has it."""

    def call(*args: Any, **kwargs: Any) -> Any:
        with torch._C._ExcludeDispatchKeyGuard(_AUTOCAST):
            args, kwargs = pytree.tree_map_only(Tensor, lambda each: each.to(torch.bfloat16), (args, kwargs))
            return func(*args, **kwargs)

    return call


for _name in ("conv2d", "linear", "matmul", "mm", "bmm", "addmm", "baddbmm"):
    _autocast.impl(_name, _narrow(getattr(aten, _name).default))


class Registers(Measure):
    """Measures nothing of interest; a worker process that reads an experiment with it imports this module."""

    def __call__(self, principal: Principal, classes: Any) -> float | None:
        """Return the largest variance."""
        return float(principal.values[0])


class _Full(nn.Module):
    def __init__(self, inputs: int, classes: int) -> None:
        super().__init__()
        self.classifier = nn.Linear(inputs, classes)

    def forward(self, x: Tensor) -> Tensor:
        """Classify, unless it is to be trained on the device."""
        if self.training and isinstance(x, OnStandIn):
            raise torch.OutOfMemoryError("tried to allocate 2 GiB")
        logits: Tensor = self.classifier(x.flatten(1))
        return logits


def fills_memory(shape: tuple[int, int, int], classes: int) -> nn.Module:
    """Return a network for which the device is too small as soon as it is trained."""
    return _Full(math.prod(shape), classes)
