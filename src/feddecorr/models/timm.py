"""Networks of timm, PyTorch Image Models."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn

from feddecorr.core.states import State
from feddecorr.errors import UserError, nearest
from feddecorr.models.pretrained import WEIGHTS, Inputs, Pretrained, find_in_hub, not_fetched


class TimmModel(Pretrained):
    """A network of timm: model=timm:NAME, such as timm:resnet18.a1_in1k; `model.options.…` are its arguments."""

    def published(self) -> Path:
        """Return the file in the Hub's cache."""
        repository = self._described().pretrained_cfg.get("hf_hub_id") or f"timm/{self.source}"
        found = find_in_hub(repository, WEIGHTS)
        if found is None:
            raise not_fetched(f"model=timm:{self.source}", repository)
        return found

    def network(self, classes: int) -> nn.Module:
        """Return the network with as many classes."""
        return self._create(num_classes=classes)

    def inputs(self) -> Inputs:
        """Return what timm's configuration of these weights says."""
        network = self._described()
        data = _library().data.resolve_model_data_config(network)
        channels, *size = data["input_size"]
        return Inputs(channels, (size[0], size[1]), (tuple(data["mean"]), tuple(data["std"])))

    def filled(self, network: nn.Module, weights: State) -> tuple[nn.Module, set[str]]:
        """Let timm name and arrange the weights, strictly, for as many classes as they are for."""
        described: dict[str, Any] = getattr(network, "pretrained_cfg")  # noqa: B009 - modules take any attribute
        head = weights.get(f"{described.get('classifier')}.weight")
        classes = 0 if head is None else len(head)
        overlay = {"state_dict": dict(weights), "source": "", "num_classes": classes}
        return self._create(pretrained=True, num_classes=classes, pretrained_cfg_overlay=overlay), set()

    def _described(self) -> Any:
        """Return the network without numbers."""
        with torch.device("meta"):
            return self._create(num_classes=0)

    def _create(self, **arguments: Any) -> nn.Module:
        library = _library()
        create = partial(library.create_model, self.source, **self.options)
        try:
            network: nn.Module = create(**arguments)
        except TypeError as error:
            raise UserError(f"model=timm:{self.source}: {error}; model.options.NAME=VALUE adds arguments") from error
        except RuntimeError as error:
            if "Unknown model" not in str(error):
                raise
            known = library.list_models(pretrained=True) + library.list_models()
            raise UserError(f"model=timm:{self.source}: {nearest(self.source, known)}") from error
        return network


def _library() -> Any:
    try:
        import timm  # noqa: PLC0415 - an extra, loaded when it is needed
    except (ImportError, RuntimeError) as error:  # the latter of a torchvision that is not of this PyTorch's build
        raise UserError(
            f"model=timm needs timm, and a torchvision of the same build as PyTorch ({error}): "
            "pip install 'feddecorr[timm]'"
        ) from error
    return timm
