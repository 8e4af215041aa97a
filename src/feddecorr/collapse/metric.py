"""Collapse over an evaluation, as a metric: its states are sums, so processes are put together by adding."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any, Self, cast

import torch
from torch import Tensor, distributed, nn

from feddecorr.collapse.measures import Measures, Principal, is_recorded, measure_spread
from feddecorr.collapse.neural_collapse import ClassMeasures, measure_classes
from feddecorr.collapse.statistics import ClassSpread, Moments, Statistics, as_labels, as_tensor, check
from feddecorr.errors import UserError, nearest


class SummedStates(nn.Module):
    """What `CollapseMetric` needs of torchmetrics, for where that is not installed."""

    def __init__(self) -> None:
        super().__init__()
        self._starts: dict[str, Tensor] = {}
        self._alone = False

    def add_state(self, name: str, default: Tensor, **_options: Any) -> None:
        """Keep a sum that begins with this value."""
        self._starts[name] = default
        self.register_buffer(name, default.clone())

    def reset(self) -> None:
        """Reset all sums."""
        for name, start in self._starts.items():
            getattr(self, name).copy_(start)

    def forward(self, *arguments: Any) -> dict[str, Tensor] | Tensor:
        """Update, and return what these arguments alone, in this process, would give."""
        metric = cast("CollapseMetric", self)
        before = {name: getattr(self, name).clone() for name in self._starts}
        self.reset()
        self._alone = True
        try:
            metric.update(*arguments)
            return metric.compute()
        finally:
            self._alone = False
            for name, state in before.items():
                getattr(self, name).add_(state)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """Move to another device, but keep float64 when a model around it is cast."""
        super()._apply(lambda state: state.to(fn(state.new_empty(0)).device), recurse)  # type: ignore[no-untyped-call]
        return self


if TYPE_CHECKING:
    from numpy.typing import ArrayLike

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

UNKNOWN = {
    "singular_values",
    "dead_features",
    "nc3_duality_gap",
    "classifier_effective_rank",
    "classifier_singular_values",
    "mean_per_class_effective_rank",
}
"""Measures that sums do not determine, or that are more than a number."""


class CollapseMetric(Base):
    """Measures of all features that `update(z)` or `update(z, y)` has seen, by the names of docs/diagnosis.md.

    `features` is d. With `classes`, the number of labels, it also measures neural collapse. `measures` names what
    `compute()` returns: a dictionary or, of a single name that is no list, a number, as Lightning's `self.log` wants
    it. It takes O(d² + classes·d) memory, in float64, whatever the number of samples. Where torchmetrics is installed
    it is one of its metrics; without, it has the same interface.
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
        self,
        features: int,
        classes: int | None = None,
        *,
        measures: Sequence[str] | str | None = None,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        if features < 1 or (classes is not None and classes < 2):
            raise UserError(f"features={features}, classes={classes}: at least one feature and two classes are needed")
        self.features, self.classes = features, classes
        self._only = measures if isinstance(measures, str) else None
        given = (measures,) if isinstance(measures, str) else measures
        self.measures = tuple(given or SHOWN_MEASURES + (SHOWN_WITH_CLASSES if classes else ()))
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

    def reset(self) -> None:
        """Begin anew, with states that can be added to outside of inference mode, too."""
        with torch.inference_mode(False):
            super().reset()

    def update(self, z: Tensor | ArrayLike, y: Tensor | ArrayLike | None = None) -> None:
        """Add features of shape (n, d) and, with `classes`, their labels from 0 to classes − 1."""
        z = as_tensor(z).detach()
        labels = None if self.classes is None else self._labels(y, self.classes, z.device)
        check(z, labels)
        if z.shape[1] != self.features:
            raise UserError(f"features={self.features}, but there are {z.shape[1]}")
        z = z.double()
        self.count += len(z)
        self.total += z.sum(0)
        self.products += z.T @ z
        if labels is not None:
            self.class_counts.index_add_(0, labels, torch.ones_like(z[:, 0]))
            self.class_totals.index_add_(0, labels, z)
            self.class_squares.index_add_(0, labels, z.square().sum(1))

    @staticmethod
    def _labels(y: Tensor | ArrayLike | None, classes: int, device: torch.device) -> Tensor:
        if y is None:
            raise UserError(f"classes={classes}: update(z, y) needs labels")
        labels = as_labels(y, device)
        if labels.numel() and (int(labels.min()) < 0 or int(labels.max()) >= classes):
            raise UserError(f"labels are from 0 to {classes - 1}, not from {int(labels.min())} to {int(labels.max())}")
        return labels

    def compute(self) -> dict[str, Tensor] | Tensor:
        """Return the measures of all features of all processes; NaN is what is unknown."""
        found = self._measure()
        values = {name: self.total.new_tensor(found.get(name, torch.nan)) for name in self.measures}
        return values if self._only is None else values[self._only]

    def _measure(self) -> dict[str, float]:
        count = int(self._sum("count"))
        if count < 2:
            return {}
        moments = _moments(count, self._sum("total"), self._sum("products"))
        found = vars(measure_spread(Principal(moments)))
        if self.classes is not None:
            found |= vars(measure_classes(Statistics(moments, self._spreads())))
        return {name: value for name, value in found.items() if value is not None}

    def _sum(self, name: str) -> Tensor:
        """Return a state of all processes; torchmetrics has added them already."""
        state: Tensor = getattr(self, name)
        together = distributed.is_available() and distributed.is_initialized()
        if isinstance(self, SummedStates) and together and not self._alone:
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
