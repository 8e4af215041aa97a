"""What kinds of device there are and how they differ; no other file knows."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from feddecorr.errors import UserError

HOST = "cpu"


def kind(device: str | torch.device) -> str:
    """Return what kind of device it is: cpu, cuda, mps, xpu."""
    try:
        return torch.device(device).type
    except RuntimeError as error:
        raise UserError(f"device={device} cannot be used here: say cpu, cuda, cuda:0, mps or xpu") from error


def expand(names: Iterable[str]) -> list[str]:
    """Return the devices of these names, one by one: a kind without a number is all that are visible of it."""
    found = []
    for name in names:
        device = kind(name) and torch.device(name)
        if on_host(device) or device.index is not None:
            found.append(name)
        else:
            require(name)
            found += [f"{name}:{number}" for number in range(_module(device).device_count())]
    return found


def on_host(device: str | torch.device) -> bool:
    """Return whether that is the processor and its memory."""
    return kind(device) == HOST


def require(device: str) -> None:
    """Refuse a device that cannot be used here."""
    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError, NotImplementedError) as error:  # not a device, not there, or not built in
        reason = (str(error) or type(error).__name__).splitlines()[0].partition(". ")[0]
        raise UserError(f"device={device} cannot be used here, device=cpu can: {reason}") from error


def free_memory(device: str | torch.device) -> int | None:
    """Return the bytes that are free on a device; None where it does not say."""
    ask = getattr(_module(device), "mem_get_info", None)
    return None if on_host(device) or ask is None else int(ask(torch.device(device))[0])


def move(tensor: Tensor, device: str | torch.device) -> Tensor:
    """Return the tensor on a device; to a CUDA card through page-locked memory, while the host does other things."""
    if kind(device) == "cuda" and on_host(tensor.device):
        return tensor.pin_memory().to(device, non_blocking=True)
    return tensor.to(device)


@contextmanager
def configured(device: str, *, deterministic: bool) -> Iterator[None]:
    """Let an accelerator multiply float32 in full and, if asked to, by algorithms that give the same bits each time.

    PyTorch warns of an operation that has no such algorithm. The host's results are the same anyway.
    """
    if on_host(device):
        yield
        return
    cuda, cudnn = torch.backends.cuda.matmul, torch.backends.cudnn
    before = cuda.allow_tf32, cudnn.allow_tf32, cudnn.benchmark
    known = torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # read when cuBLAS is first called
    try:
        cuda.allow_tf32, cudnn.allow_tf32, cudnn.benchmark = False, False, not deterministic
        torch.use_deterministic_algorithms(deterministic, warn_only=True)
        yield
    finally:
        cuda.allow_tf32, cudnn.allow_tf32, cudnn.benchmark = before
        torch.use_deterministic_algorithms(known[0], warn_only=known[1])


def describe(device: str, *, deterministic: bool = True) -> dict[str, Any]:
    """Return what results of an accelerator depend on, ready for JSON; nothing of the host."""
    if on_host(device):
        return {}
    name = getattr(_module(device), "get_device_name", lambda _device: kind(device))(torch.device(device))
    with configured(device, deterministic=deterministic):
        settings = {
            "tf32": torch.backends.cuda.matmul.allow_tf32 or torch.backends.cudnn.allow_tf32,
            "cudnn_benchmark": torch.backends.cudnn.benchmark,
            "deterministic_algorithms": torch.are_deterministic_algorithms_enabled(),
            "cublas_workspace": os.environ["CUBLAS_WORKSPACE_CONFIG"],
        }
    versions = {"cuda": torch.version.cuda, "cudnn": torch.backends.cudnn.version()}
    return {"device": name, **versions, **settings}


def peak_memory(device: str) -> int | None:
    """Return the most bytes that this process had in use there; None where the device does not say."""
    ask = getattr(_module(device), "max_memory_allocated", None)
    return None if ask is None else int(ask(torch.device(device)))


def what_helps(error: BaseException, device: str) -> str:
    """Return what helps against an error of a device; nothing for any other error."""
    if isinstance(error, torch.OutOfMemoryError):
        return f"{device} is full: take fewer engine.workers, a smaller training.batch or precision=bf16"
    if isinstance(error, getattr(torch, "AcceleratorError", ())):
        return f"{device} is lost: resume the run, on other engine.devices if it stays away"
    return ""


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
