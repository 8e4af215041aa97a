"""BatchNorm's running statistics: freeze them in training, or use those of each batch in their place.

This applies to every module with running statistics, whatever its class.
"""

from __future__ import annotations

from torch import Tensor, nn

from feddecorr.errors import UserError


def freeze_statistics(model: nn.Module) -> None:
    """Normalize by the running statistics and keep them unchanged, until the next `train()` or `eval()`."""
    for module in _with_statistics(model):
        module.eval()


def use_batch_statistics(model: nn.Module, images: int, batch: int) -> None:
    """Normalize each batch by its own statistics from now on, even in evaluation.

    Raises an error if the network has no running statistics, or if a batch would hold a single image, which has no
    statistics of its own.
    """
    modules = _with_statistics(model)
    if not modules:
        raise UserError("the model keeps no BatchNorm statistics: there is nothing to replace by those of a batch")
    if 1 in (batch, images % batch):
        raise UserError(
            f"{images} images in batches of {batch} (evaluation.batch) leave a batch of one, which has no statistics"
        )
    for module in modules:
        for name in ("running_mean", "running_var", "num_batches_tracked"):
            setattr(module, name, None)
        module.track_running_stats = False  # type: ignore[assignment]  # modules take any attribute


def _with_statistics(model: nn.Module) -> list[nn.Module]:
    return [module for module in model.modules() if isinstance(getattr(module, "running_mean", None), Tensor)]
