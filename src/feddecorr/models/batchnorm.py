"""BatchNorm's running statistics: left as they are in training, or forgotten for those of each batch.

All of it is about modules that keep such statistics, whatever their class.
"""

from __future__ import annotations

from torch import Tensor, nn

from feddecorr.errors import UserError


def fix_statistics(model: nn.Module) -> None:
    """Let the network normalize by its running statistics and leave them as they are, until its mode is set anew."""
    for module in _with_statistics(model):
        module.eval()


def forget_statistics(model: nn.Module, images: int, batch: int) -> None:
    """Let the network normalize each batch by the batch's own statistics from now on, in evaluation, too.

    Refused where the network keeps no statistics anyway, and where so many images in such batches leave one alone,
    which has no statistics of its own.
    """
    modules = _with_statistics(model)
    if not modules:
        raise UserError("the model keeps no BatchNorm statistics: there is nothing that a batch's own could replace")
    if 1 in (batch, images % batch):
        raise UserError(
            f"{images} images in batches of {batch} (evaluation.batch) leave one alone: it has no statistics of its own"
        )
    for module in modules:
        for name in ("running_mean", "running_var", "num_batches_tracked"):
            setattr(module, name, None)
        module.track_running_stats = False  # type: ignore[assignment]  # modules take any attribute


def _with_statistics(model: nn.Module) -> list[nn.Module]:
    return [module for module in model.modules() if isinstance(getattr(module, "running_mean", None), Tensor)]
