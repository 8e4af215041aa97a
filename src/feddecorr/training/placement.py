"""How a network runs: where, in which precision and memory format.

All of it is put into the module itself, so that whoever calls it (the client, the evaluation, a method with
reference models of its own) runs it the same way. Parameters and buffers keep their names and stay float32.
"""

from __future__ import annotations

from threading import get_ident
from typing import Any

import torch
from torch import Tensor, nn

from feddecorr.config.training import Training
from feddecorr.core import devices

MEMORY_FORMATS = {"channels_last": torch.channels_last, "contiguous": torch.contiguous_format}


def prepare(model: nn.Module, training: Training, device: str) -> nn.Module:
    """Make the network run there, as the experiment says."""
    devices.require(device)
    placed: Any = model.to(device)
    model = placed.to(memory_format=MEMORY_FORMATS[training.memory_format])
    if training.memory_format == "contiguous":
        model.register_forward_pre_hook(lambda _model, inputs: (inputs[0].contiguous(),))
    if training.precision == "bf16":
        _cast(model)
    return model


def _cast(model: nn.Module) -> None:
    """Compute the forward pass in bfloat16 where that is safe (PyTorch's autocast), and give logits in float32."""
    open_contexts: dict[int, torch.autocast] = {}  # of each thread: copies of the network share these hooks

    def enter(_model: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        context = torch.autocast(inputs[0].device.type, torch.bfloat16)
        context.__enter__()
        open_contexts[get_ident()] = context

    def leave(_model: nn.Module, _inputs: tuple[Tensor, ...], logits: Tensor | None) -> Tensor | None:
        open_contexts.pop(get_ident()).__exit__(None, None, None)
        return None if logits is None else logits.float()  # none after an exception

    model.register_forward_pre_hook(enter)
    model.register_forward_hook(leave, always_call=True)
