"""Weights from a file: read without running any code in it, put into a network only if they fit."""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError
from torch import Tensor, nn

from feddecorr.errors import UserError
from feddecorr.files import load_tensors
from feddecorr.states import State, misfits


def fill(model: nn.Module, path: Path, *, sha256: str = "") -> None:
    """Load weights, all of them; say which do not fit. With a digest, refuse any other weights."""
    state = read_weights(path)
    if sha256 not in ("", found := weights_digest(state)):
        raise UserError(f"{path} has changed: its weights have sha256 {found}, no longer {sha256}")
    if problems := misfits(state, model.state_dict()):
        raise UserError(f"{path} does not fit the model ({'; '.join(problems)})")
    model.load_state_dict(state)


def read_weights(path: Path) -> State:
    """Return the tensors of a safetensors file or of one that `torch.save` wrote; no code in it is run."""
    if not path.is_file():
        raise UserError(f"there is no file {path}")
    try:
        found = (
            load_tensors(path)
            if path.suffix == ".safetensors"
            else torch.load(path, map_location="cpu", weights_only=True)
        )
    except (OSError, RuntimeError, ValueError, EOFError, pickle.UnpicklingError, SafetensorError) as error:
        raise UserError(f"{path} holds no weights that can be read: {str(error).splitlines()[0]}") from error
    if isinstance(found, Mapping) and isinstance(found.get("state_dict"), Mapping):
        found = found["state_dict"]
    if not isinstance(found, Mapping) or not all(isinstance(tensor, Tensor) for tensor in found.values()):
        raise UserError(f"{path} holds no table of tensors by name: save model.state_dict()")
    return dict(found)


def weights_digest(state: State) -> str:
    """Return the sha256 of all tensors by name, the same whatever the file's format."""
    digest = hashlib.sha256()
    for name in sorted(state):
        tensor = state[name].contiguous()
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.flatten().view(torch.uint8).numpy().data)
    return digest.hexdigest()
