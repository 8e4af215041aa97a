"""Weights from a file: read without running any code in it, put into a network only if they fit."""

from __future__ import annotations

import hashlib
from pathlib import Path

import torch
from torch import nn

from feddecorr.core.files import load_tensors
from feddecorr.core.limits import brief
from feddecorr.core.states import State, copy_into, misfits, state_dict_names
from feddecorr.errors import UserError
from feddecorr.models.torch_files import read_torch


def fill(model: nn.Module, path: Path, *, sha256: str = "") -> None:
    """Load weights, all of them; say which do not fit. With a digest, refuse any other weights.

    Tied weights may come under any of their names; buffers that a `state_dict` leaves out may be there or not.
    """
    given = read_weights(path)
    if sha256 not in ("", found := weights_digest(given)):
        raise UserError(f"{path} has changed: its weights have sha256 {found}, no longer {sha256}")
    fill_with(model, given, str(path))


def fill_with(model: nn.Module, given: State, source: str) -> None:
    """Put weights into a network, all of them; say which do not fit."""
    names = state_dict_names(model)
    mine: State = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    state = {names.get(name, name): tensor for name, tensor in given.items()}
    expected = {name: tensor for name, tensor in mine.items() if name in state or name in names.values()}
    if problems := misfits(state, expected):
        raise UserError(f"{source} does not fit the model ({'; '.join(problems)})")
    copy_into((mine[name] for name in state), state.values())


def read_weights(path: Path) -> State:
    """Return the tensors of a safetensors file or of one that `torch.save` wrote; no code in it is run."""
    if not path.is_file():
        raise UserError(f"there is no file {path}")
    if path.suffix == ".safetensors":
        return load_tensors(path)
    try:
        return read_torch(path)
    except UserError as error:
        raise UserError(f"{path}: {error}") from error
    except MemoryError:
        raise
    except Exception as error:  # a broken file can raise anything at all
        reason = brief(str(error) or type(error).__name__)
        raise UserError(f"{path} holds no weights that can be read: {reason}") from error


def weights_digest(state: State) -> str:
    """Return the sha256 of all tensors by name, the same whatever the file's format."""
    digest = hashlib.sha256()
    for name in sorted(state):
        tensor = state[name].contiguous()
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.flatten().view(torch.uint8).numpy().data)
    return digest.hexdigest()
