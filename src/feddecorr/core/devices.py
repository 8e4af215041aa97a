"""What kinds of device there are and how they differ; no other file knows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from feddecorr.errors import UserError

HOST = "cpu"

NO_FLOAT64 = ("mps",)
"""Kinds of device without double precision: what needs it is computed on the host."""


def kind(device: str | torch.device) -> str:
    """Return what kind of device it is: cpu, cuda, mps, xpu."""
    return torch.device(device).type


def on_host(device: str | torch.device) -> bool:
    """Tell whether that is the processor and its memory."""
    return kind(device) == HOST


def has_float64(device: str | torch.device) -> bool:
    """Tell whether it computes in double precision."""
    return kind(device) not in NO_FLOAT64


def require(device: str) -> None:
    """Refuse a device that cannot be used here."""
    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError, NotImplementedError) as error:  # not a device, not there, or not built in
        reason = (str(error) or type(error).__name__).splitlines()[0]
        raise UserError(f"device={device} cannot be used here: {reason}") from error


def free_memory(device: str | torch.device) -> int | None:
    """Return the bytes that are free on a device; None where it does not say."""
    ask = getattr(_module(device), "mem_get_info", None)
    return None if on_host(device) or ask is None else int(ask(torch.device(device))[0])


def move(tensor: Tensor, device: str | torch.device) -> Tensor:
    """Return the tensor on a device; to a CUDA card through page-locked memory, while the host does other things."""
    if kind(device) == "cuda" and on_host(tensor.device):
        return tensor.pin_memory().to(device, non_blocking=True)
    return tensor.to(device)


def seed_all(seed: int) -> None:
    """Seed the generators of the accelerator, if there is one."""
    if (accelerator := _accelerator()) is not None:
        _module(accelerator).manual_seed_all(seed)


@contextmanager
def forked_randomness() -> Iterator[None]:
    """Put PyTorch's global generators back in the end: that of the host, and those of the current accelerator."""
    accelerator = _accelerator()
    if accelerator is None:
        with torch.random.fork_rng([]):
            yield
    else:
        with torch.random.fork_rng([torch.accelerator.current_device_index()], device_type=accelerator.type):
            yield


def _accelerator() -> torch.device | None:
    return torch.accelerator.current_accelerator() if torch.accelerator.is_available() else None


def _module(device: str | torch.device) -> Any:
    return torch.get_device_module(torch.device(device))
