"""Collapse over an evaluation, as a metric: its states are sums, so processes are put together by adding."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any, Self, cast

import torch
from torch import Tensor, distributed, nn

from feddecorr.collapse.measures import Measures, Principal, is_recorded, measure_spread
from feddecorr.collapse.neural_collapse import ClassMeasures, measure_classes
from feddecorr.collapse.statistics import ClassSpread, Moments, Statistics, check
from feddecorr.errors import UserError, nearest


class SummedStates(nn.Module):
    """What `CollapseMetric` needs of torchmetrics, for where that is not installed."""

    def __init__(self) -> None:
        super().__init__()
        self._starts: dict[str, Tensor] = {}

    def add_state(self, name: str, default: Tensor, **_options: Any) -> None:
        """Keep a sum that begins with this value."""
        self._starts[name] = default
        self.register_buffer(name, default.clone())

    def reset(self) -> None:
        """Reset all sums."""
        for name, start in self._starts.items():
            getattr(self, name).copy_(start)

    def forward(self, *arguments: Any) -> None:
        """Update."""
        cast("CollapseMetric", self).update(*arguments)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """Move to another device, but keep float64 when a model around it is cast."""
        super()._apply(lambda state: state.to(fn(state.new_empty(0)).device), recurse)  # type: ignore[no-untyped-call]
        return self


if TYPE_CHECKING:
    Base = SummedStates
else:
    try:
        from torchmetrics import Metric as Base
    except ImportError:
        Base = SummedStates

SHOWN_MEASURES = ("effective_rank", "rankme", "participation_ratio", "stable_rank", "power_law_exponent")
"""What is measured unless something else is asked for."""

SHOWN_WITH_CLASSES = ("within_class_share", "nc1_variability", "nc2_norm_variation", "nc2_cosine_gap")
"""The same of labels."""

UNKNOWN = {"singular_values", "dead_features", "nc3_duality_gap", "mean_per_class_effective_rank"}
"""Measures that sums do not determine, or that are more than a number."""


class CollapseMetric(Base):
    """Measures of all features that `update(z)` or `update(z, y)` has seen, by the names of docs/diagnosis.md.

    `features` is d. With `classes`, the number of labels, it also measures neural collapse. `measures` names what
    `compute()` returns. It takes O(d² + classes·d) memory, in float64, whatever the number of samples. Where
    torchmetrics is installed it is one of its metrics; without, it has the same interface.
    """

    full_state_update = False
    higher_is_better = None
    is_differentiable = False
    count: Tensor
    total: Tensor
    products: Tensor
    class_counts: Tensor
    class_totals: Tensor
    class_squares: Tensor

    def __init__(
        self, features: int, classes: int | None = None, *, measures: Sequence[str] | None = None, **options: Any
    ) -> None:
        super().__init__(**options)
        if features < 1 or (classes is not None and classes < 2):
            raise UserError(f"features={features}, classes={classes}: at least one feature and two classes are needed")
        self.features, self.classes = features, classes
        self.measures = tuple(measures or SHOWN_MEASURES + (SHOWN_WITH_CLASSES if classes else ()))
        measured = [each for kind in ((Measures, ClassMeasures) if classes else (Measures,)) for each in fields(kind)]
        names = {each.name for each in measured if is_recorded(each)} - UNKNOWN
        for name in self.measures:
            if name not in names:
                raise UserError(f"no measure '{name}' of {'labels or ' * bool(classes)}sums: {nearest(name, names)}")
        shapes = {"total": (features,), "products": (features, features), "count": ()}
        if classes is not None:
            shapes |= {"class_counts": (classes,), "class_totals": (classes, features), "class_squares": (classes,)}
        for name, shape in shapes.items():
            self.add_state(name, torch.zeros(shape, dtype=torch.float64), dist_reduce_fx="sum", persistent=True)

    def update(self, z: Tensor, y: Tensor | None = None) -> None:
        """Add features of shape (n, d) and, with `classes`, their labels from 0 to classes − 1."""
        z = z.detach()
        check(z, y)
        if z.shape[1] != self.features:
            raise UserError(f"features={self.features}, but there are {z.shape[1]}")
        z = z.double()
        self.count += len(z)
        self.total += z.sum(0)
        self.products += z.T @ z
        if self.classes is None:
            return
        if y is None:
            raise UserError(f"classes={self.classes}: update(z, y) needs labels")
        if len(y) and (int(y.min()) < 0 or int(y.max()) >= self.classes):
            raise UserError(f"labels are from 0 to {self.classes - 1}, not from {int(y.min())} to {int(y.max())}")
        y = y.long()
        self.class_counts.index_add_(0, y, torch.ones_like(z[:, 0]))
        self.class_totals.index_add_(0, y, z)
        self.class_squares.index_add_(0, y, z.square().sum(1))

    def compute(self) -> dict[str, Tensor]:
        """Return the measures of all features of all processes; NaN is what is unknown."""
        count = int(self._sum("count"))
        if count < 2:
            return {name: self.total.new_tensor(torch.nan) for name in self.measures}
        moments = _moments(count, self._sum("total"), self._sum("products"))
        found = vars(measure_spread(Principal(moments)))
        if self.classes is not None:
            found |= vars(measure_classes(Statistics(moments, self._spreads())))
        values = {name: found[name] for name in self.measures}
        return {name: moments.mean.new_tensor(torch.nan if value is None else value) for name, value in values.items()}

    def _sum(self, name: str) -> Tensor:
        """Return a state of all processes; torchmetrics has added them already."""
        state: Tensor = getattr(self, name)
        if isinstance(self, SummedStates) and distributed.is_available() and distributed.is_initialized():
            state = state.clone()
            distributed.all_reduce(state)
        return state

    def _spreads(self) -> dict[int, ClassSpread]:
        counts, totals, squares = (self._sum(name) for name in ("class_counts", "class_totals", "class_squares"))
        means = totals / counts.clamp(min=1)[:, None]
        traces = (squares - counts * means.square().sum(1)).clamp(min=0)
        return {
            label: ClassSpread(int(count), mean, None, float(trace))
            for label, (count, mean, trace) in enumerate(zip(counts, means, traces, strict=True))
            if count > 0
        }


def _moments(count: int, total: Tensor, products: Tensor) -> Moments:
    """Return the moments that follow from sums; features that vary by no more than their rounding count as constant."""
    mean = total / count
    scatter = torch.addr(products, mean, mean, alpha=-count)
    rounding = count * torch.finfo(scatter.dtype).eps * products.diagonal()
    varying = (scatter.diagonal() > rounding).to(scatter)
    return Moments(count, mean, scatter * varying * varying[:, None])
