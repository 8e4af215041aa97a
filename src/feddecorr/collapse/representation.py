"""Representations and feature maps, captured during the ordinary forward pass.

The representation is the classifier's input; feature maps are the outputs of the layers before it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import takewhile
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.linear import NonDynamicallyQuantizableLinear

from feddecorr.errors import UserError, closest
from feddecorr.loss.decorrelation import as_batch

WRAPPERS = {"module", "_orig_mod", "_fsdp_wrapped_module", "_forward_module", "_original_module"}
"""Where DataParallel, DistributedDataParallel, torch.compile, FSDP and Lightning Fabric keep what they wrap."""

CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d)


class NotCapturedError(UserError, AttributeError):
    """No forward pass has gone through the layer; `hasattr(seen, "z")` asks without raising."""


class Representations:
    """The representations of the latest forward pass through the layer named `layer`."""

    def __init__(self, layer: str, module: nn.Module) -> None:
        self.layer = layer
        self.parts: list[Tensor] = []  # one for each device that DataParallel uses
        self._module = module

    @property
    def raw(self) -> Tensor:
        """What the layer took in, as it is."""
        if not self.parts:
            raise NotCapturedError(
                f"no forward pass has gone through the layer '{self.layer}' yet: call the model inside of the block; "
                "if the model does not call this layer, name another by layer=… (in an experiment, model.layer=…); "
                "if it is compiled, open the block before its first call: code compiled without the hook ignores it"
            )
        if len(self.parts) == 1:
            return self.parts[0]
        parts = sorted(self.parts, key=lambda part: part.device.index or 0)
        return torch.cat([part.to(parts[0].device) for part in parts])

    @property
    def z(self) -> Tensor:
        """The representations, of shape (n, d) and in float32 at least.

        Where the layer works position by position, they are averaged over the positions: for a linear layer
        (n, …, d) over all between, for a convolution (n, d, …) over all after; for other layers see `as_batch`.
        """
        raw = self.raw
        if raw.ndim > 2 and isinstance(self._module, nn.Linear):
            raw = raw.flatten(1, -2)
        elif raw.ndim > 2 and isinstance(self._module, CONVOLUTIONS):
            raw = raw.flatten(2).mT
        return as_batch(raw)


def find_classifier(model: nn.Module, layer: str | None = None) -> nn.Module:
    """Return the layer of that name or, without a name, the one that must be the classifier.

    That is the layer named by the model's attribute `representation_layer`, if it has one; else the last linear
    layer that the model registers or, if it has none, the last convolution. Where another such layer with as
    many outputs does not simply come before it in a Sequential (auxiliary heads), a name is asked for.
    Wrappers, as of DataParallel or torch.compile, need not be named.
    """
    return _find(model, layer)[1]


@contextmanager
def capture_representations(
    model: nn.Module, layer: str | None = None, *, in_training: bool = True
) -> Iterator[Representations]:
    """Catch the input of the classifier (or of the named layer) in every forward pass inside of the block.

    Can be opened around one forward pass or around a whole training loop. What was seen last stays readable
    after the block. The model is the same after it as before. Without `in_training`, passes of a layer in training
    mode are left alone.
    """
    name, module = _find(model, layer)
    seen = Representations(_plain(name), module)
    parallel = isinstance(model, nn.DataParallel)

    def catch(layer: nn.Module, inputs: tuple[Any, ...], named: dict[str, Any]) -> None:
        if layer.training and not in_training:
            return
        taken = inputs[0] if inputs else next(iter(named.values()), None)
        if not isinstance(taken, Tensor):
            raise UserError(f"the layer '{name}' takes in {type(taken).__name__}, not a tensor: name another layer")
        if parallel:
            seen.parts.append(taken)
        else:
            seen.parts = [taken]

    with ExitStack() as hooks:
        hooks.enter_context(module.register_forward_pre_hook(catch, with_kwargs=True))
        if parallel:  # its replicas share the hook, each with its part of the batch
            hooks.enter_context(model.register_forward_pre_hook(lambda _model, _inputs: seen.parts.clear()))
        yield seen


def _find(model: nn.Module, layer: str | None) -> tuple[str, nn.Module]:
    modules = dict(model.named_modules())
    layer = layer if layer is not None else getattr(_unwrap(model), "representation_layer", None)
    if layer is None:
        return _find_last(modules)
    if layer in modules:
        return layer, modules[layer]
    plain = {_plain(name): name for name in modules}
    if _plain(layer) not in plain:
        names = ", ".join(name for name in plain if name)
        meant = closest(layer, plain)
        hint = f": did you mean '{meant}'?" if meant else ""
        raise UserError(f"the model has no layer '{layer}'{hint} (its layers: {names})")
    name = plain[_plain(layer)]
    return name, modules[name]


def _find_last(modules: dict[str, nn.Module]) -> tuple[str, nn.Module]:
    linear = {name: module for name, module in modules.items() if _is_linear(module)}
    candidates = linear or {name: module for name, module in modules.items() if isinstance(module, CONVOLUTIONS)}
    if not candidates:
        raise UserError(
            "the model has no linear layer and no convolution: name the layer whose input is the representation, "
            "by layer=… (in an experiment, model.layer=…)"
        )
    last = next(reversed(candidates))
    rivals = [
        name
        for name, module in candidates.items()
        if _outputs(module) == _outputs(candidates[last]) and not _follow_each_other(modules, name, last)
    ]
    if rivals:
        names = ", ".join(f"'{_plain(name)}'" for name in [*rivals[-7:], last])
        raise UserError(
            f"several layers could be the classifier, each with {_outputs(candidates[last])} outputs: name one by "
            f"layer=…, for example {names} (in an experiment, by model.layer=…)"
        )
    return last, candidates[last]


def _is_linear(module: nn.Module) -> bool:
    # Attention uses its last layer's weights without ever calling the layer.
    return isinstance(module, nn.Linear) and not isinstance(module, NonDynamicallyQuantizableLinear)


def _outputs(module: nn.Module) -> object:
    return module.out_features if isinstance(module, nn.Linear) else module.out_channels


def _follow_each_other(modules: dict[str, nn.Module], first: str, second: str) -> bool:
    """Return whether both are one, or lie in different members of one Sequential."""
    pairs = zip(first.split("."), second.split("."), strict=False)
    common = ".".join(one for one, other in takewhile(lambda pair: pair[0] == pair[1], pairs))
    return first == second or isinstance(modules[common], nn.Sequential)


def _plain(name: str) -> str:
    return ".".join(part for part in name.split(".") if part not in WRAPPERS)


def _unwrap(model: nn.Module) -> nn.Module:
    inner = dict(model.named_children())
    while inner and inner.keys() <= WRAPPERS:
        model = next(iter(inner.values()))
        inner = dict(model.named_children())
    return model


class FeatureMaps:
    """The feature maps of the latest forward pass."""

    def __init__(self) -> None:
        self._maps: dict[tuple[int, ...], Tensor] = {}

    def catch(self, module: nn.Module, _inputs: object, output: object) -> None:
        """Take a feature map: later ones of the same height and width replace it.

        A height and width count once a layer with parameters has made them: not those of a margin around the image,
        and not those that pooling alone leads to.
        """
        if not isinstance(output, Tensor) or output.ndim != 4:
            return
        size = tuple(output.shape[2:])
        if size in self._maps or _has_weights(module):
            self._maps[size] = output

    def begin(self, _module: nn.Module, _inputs: object) -> None:
        """Forget the pass before."""
        self._maps.clear()

    def levels(self, z: Tensor) -> list[Tensor]:
        """Return the maps averaged over their positions, (n, channels) each, in the network's order.

        The last is left out if its average is the representation z: a network that pools it.
        """
        maps = list(self._maps.values())
        if maps and maps[-1].shape[1] == z.shape[-1]:
            maps.pop()
        return [as_batch(found) for found in maps]


def _has_weights(module: nn.Module) -> bool:
    """Return whether it holds parameters, or frozen weights that are plain tensors."""
    held = (value for each in module.modules() for value in vars(each).values())
    return next(module.parameters(), None) is not None or any(isinstance(value, Tensor) for value in held)


@contextmanager
def capture_feature_maps(model: nn.Module) -> Iterator[FeatureMaps]:
    """Capture the feature maps of every forward pass inside of the block; the model is unchanged afterwards.

    Looked at is what comes out of the network's members, and of the members of those that are Sequential: not what is
    inside of a residual block.
    """
    maps = FeatureMaps()
    with ExitStack() as hooks:
        for member in model.children():
            for module in (member, *(member.children() if isinstance(member, nn.Sequential) else ())):
                hooks.enter_context(module.register_forward_hook(maps.catch))
        hooks.enter_context(model.register_forward_pre_hook(maps.begin))
        yield maps
