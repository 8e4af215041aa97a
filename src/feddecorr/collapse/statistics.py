"""What one pass over representations keeps: sums in float64, decisions, and a few samples to draw."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from feddecorr.collapse import spectrum
from feddecorr.errors import UserError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike


@dataclass(frozen=True)
class ClassSpread:
    """Count, mean, and `rows` F with FᵀF = Σ(z−z̄)(z−z̄)ᵀ, in float64.

    Classes are many and their samples few: F has the size of the samples where a scatter matrix each would be
    d×d. Beyond 2·d rows it is replaced by the d×d triangle R of F = QR, for which RᵀR = FᵀF. `rows` is None
    where there is no room for it; `trace` is that of FᵀF and always there.
    """

    count: int
    mean: Tensor
    rows: Tensor | None
    trace: float

    @classmethod
    def of(cls, mean: Tensor, centred: Tensor) -> ClassSpread:
        """Take a mean and the deviations from it."""
        whole = cls(len(centred), mean, centred, float(centred.square().sum()))
        return whole.reduced() if len(centred) > 2 * len(mean) else whole

    def __add__(self, other: ClassSpread) -> ClassSpread:
        count = self.count + other.count
        gap = other.mean - self.mean
        between = self.count * other.count / count
        mean = self.mean + gap * (other.count / count)
        trace = self.trace + other.trace + between * float(gap @ gap)
        if self.rows is None or other.rows is None:
            return ClassSpread(count, mean, None, trace)
        rows = torch.cat([self.rows, other.rows, gap[None] * between**0.5])
        merged = ClassSpread(count, mean, rows, trace)
        return merged.reduced() if len(rows) > 2 * len(mean) else merged

    @property
    def bytes(self) -> int:
        """The memory that the rows take."""
        return 0 if self.rows is None else self.rows.nbytes

    def without_rows(self) -> ClassSpread:
        """Return count, mean and trace alone."""
        return replace(self, rows=None)

    def reduced(self) -> ClassSpread:
        """Return the same with the triangle R for rows: a function of the scatter matrix, up to signs."""
        return self if self.rows is None else replace(self, rows=torch.linalg.qr(self.rows, mode="r").R)

    def effective_rank(self) -> float | None:
        """Return that of the covariance; None where the rows are not kept."""
        if self.rows is None:
            return None
        few = len(self.rows) < self.rows.shape[1]  # the smaller product has the same singular values but for zeros
        product = self.rows @ self.rows.T if few else self.rows.T @ self.rows
        return spectrum.effective_rank(spectrum.singular_values(product / self.count))


CLASS_MEMORY = 1 << 30
"""Bytes that the spread within the classes may take; beyond, it is not kept."""


@dataclass(frozen=True)
class Moments:
    """Count, mean and scatter Σ(z−z̄)(z−z̄)ᵀ of representations, in float64, without holding them.

    Two parts are merged by the update of Chan, Golub and LeVeque (1979), which stays exact under large means.
    """

    count: int
    mean: Tensor
    scatter: Tensor

    @classmethod
    def of(cls, z: Tensor) -> Moments:
        """Return the moments of one batch of shape (n, d)."""
        mean, centred = centre(z)
        return cls(len(z), mean, centred.T @ centred)

    def __add__(self, other: Moments) -> Moments:
        count = self.count + other.count
        gap = other.mean - self.mean
        mean = self.mean + gap * (other.count / count)
        scatter = (self.scatter + other.scatter).addr_(gap, gap, alpha=self.count * other.count / count)
        return Moments(count, mean, scatter)

    @property
    def second(self) -> Tensor:
        """Σzzᵀ, of the representations as they are."""
        return torch.addr(self.scatter, self.mean, self.mean, alpha=self.count)

    @property
    def covariance(self) -> Tensor:
        """The paper's Σ, with 1/N."""
        return self.scatter / self.count


def centre(z: Tensor) -> tuple[Tensor, Tensor]:
    """Return the mean and the deviations from it, in float64, of samples of shape (…, n, d).

    One sample is taken off first: so a feature that never varies has deviations of exactly zero.
    """
    first = z[..., :1, :].to(torch.float64)
    moved = z.to(torch.float64) - first
    shift = moved.mean(-2, keepdim=True)
    centred = moved - shift if moved.requires_grad else moved.sub_(shift)
    return (first + shift).squeeze(-2), centred


@dataclass(frozen=True)
class CrossMoments:
    """Count, both means and Σ(x−x̄)(y−ȳ)ᵀ of two representations of the same samples, in float64.

    Merged like `Moments`.
    """

    count: int
    first: Tensor
    second: Tensor
    scatter: Tensor

    @classmethod
    def of(cls, x: Tensor, y: Tensor) -> CrossMoments:
        """Return the statistics of one batch: (n, d) and (n, e)."""
        if len(x) != len(y):
            raise UserError(f"{len(x)} and {len(y)} samples cannot be compared one by one")
        (first, moved), (second, others) = centre(x), centre(y)
        return cls(len(x), first, second, moved.T @ others)

    def __add__(self, other: CrossMoments) -> CrossMoments:
        count = self.count + other.count
        share = other.count / count
        gap, others = other.first - self.first, other.second - self.second
        scatter = torch.addr(self.scatter + other.scatter, gap, others, alpha=self.count * share)
        return CrossMoments(count, self.first + gap * share, self.second + others * share, scatter)


@dataclass(frozen=True)
class Statistics:
    """Moments of all representations and, with labels, what is kept of each class.

    Statistics of parts (batches, processes, clients) add up to those of the whole. What they say about the
    samples is their mean and covariance, no features: `sealed` sees to that for classes, too.
    """

    moments: Moments
    classes: dict[int, ClassSpread] | None = None

    @classmethod
    def of(cls, z: Tensor, labels: Tensor | None = None) -> Statistics:
        """Return the statistics of one batch of shape (n, d), and of labels of shape (n,)."""
        check(z, labels)
        if labels is None:
            return cls(Moments.of(z))
        found = {int(label): ClassSpread.of(*centre(z[labels == label])) for label in labels.unique()}
        return cls(Moments.of(z), found)

    def __add__(self, other: Statistics) -> Statistics:
        if self.moments.mean.shape != other.moments.mean.shape:
            raise UserError(f"{self.dimensions} features cannot be merged with {other.dimensions}")
        if (self.classes is None) != (other.classes is None):
            raise UserError("some of the representations have labels and some have none")
        return Statistics(self.moments + other.moments, self._merge(other))

    def _merge(self, other: Statistics) -> dict[int, ClassSpread] | None:
        if self.classes is None or other.classes is None:
            return None
        merged = dict(self.classes)
        for label, factor in other.classes.items():
            merged[label] = merged[label] + factor if label in merged else factor
        if sum(factor.bytes for factor in merged.values()) > CLASS_MEMORY:
            return {label: factor.without_rows() for label, factor in merged.items()}
        return merged

    @property
    def dimensions(self) -> int:
        """The number of features, d."""
        return len(self.moments.mean)

    def without_rows(self) -> Statistics:
        """Return the same with counts, means and traces alone of each class."""
        kept = {label: factor.without_rows() for label, factor in (self.classes or {}).items()}
        return self if self.classes is None else Statistics(self.moments, kept)

    def sealed(self) -> Statistics:
        """Return the same statistics in a form that is a function of counts, means and covariances alone."""
        if self.classes is None:
            return self
        return Statistics(self.moments, {label: factor.reduced() for label, factor in self.classes.items()})


def check(z: Tensor, labels: Tensor | None) -> None:
    """Refuse what is not a batch of representations."""
    if z.ndim != 2 or z.shape[1] == 0:
        raise UserError(f"representations have the shape (samples, features), not {tuple(z.shape)}")
    if not z.is_floating_point():
        raise UserError(f"representations are floating-point numbers, not {z.dtype}")
    if not torch.isfinite(z.sum()) and (wrong := int((~torch.isfinite(z)).any(1).sum())):  # sums alone may overflow
        raise UserError(f"{wrong} of {len(z)} samples of a batch hold NaN or infinity: the model has diverged")
    if labels is not None and labels.shape != (len(z),):
        raise UserError(f"{len(z)} samples need as many labels, not labels of shape {tuple(labels.shape)}")
    if labels is not None:
        _check_whole(labels)


def _check_whole(labels: Tensor) -> None:
    if labels.is_floating_point() and not torch.equal(labels, labels.floor()):
        raise UserError("labels are whole numbers, one for each class")


def as_tensor(values: Tensor | ArrayLike, device: torch.device | None = None) -> Tensor:
    """Return numbers as a tensor: arrays of any layout, too, such as backwards, read-only or of other machines."""
    given: Any = values
    if not isinstance(given, Tensor) and hasattr(given, "__array__"):
        given = given.__array__()
        if not (given.flags.writeable and given.dtype.isnative and min(given.strides, default=0) >= 0):
            given = given.astype(given.dtype.newbyteorder("="), order="C")
    try:
        return torch.as_tensor(given, device=device)
    except (TypeError, ValueError, RuntimeError) as error:
        raise UserError(f"a tensor or an array of numbers is needed, not {type(values).__name__}: {error}") from error


def as_labels(y: Tensor | ArrayLike, device: torch.device) -> Tensor:
    """Return labels as a tensor of whole numbers."""
    try:
        labels = as_tensor(y, device)
    except UserError as error:
        raise UserError(
            "labels are whole numbers, one for each sample; numpy.unique(y, return_inverse=True)[1] has those of names"
        ) from error
    _check_whole(labels)
    return labels.long()


def in_double(z: Tensor) -> Tensor:
    """Return features in float64; those of an MPS device, which has none, in the host's memory."""
    return (z.cpu() if z.device.type == "mps" else z).double()


CHUNK = 4096
"""Samples that are summed at once: large products are quick, and results do not depend on the size of batches."""

SAMPLE = 1 << 24
"""Numbers that the sample may hold: 64 megabytes of float32, which is 13 107 samples at d = 1280."""


class Batch(NamedTuple):
    """Representations of shape (n, d) and, each of n and each if there is one: labels, decisions, a reference.

    `decisions` are the classes that the model chose, `reference` another model's representations of the same.
    """

    z: Tensor
    labels: Tensor | None = None
    decisions: Tensor | None = None
    reference: Tensor | None = None

    @property
    def right(self) -> int | None:
        """How many decisions are right; None without labels or decisions."""
        if self.labels is None or self.decisions is None:
            return None
        return int((self.labels == self.decisions).sum())


class Subsample:
    """The representations of every k-th sample, k the smallest power of two for which there is room."""

    def __init__(self, room: int = SAMPLE) -> None:
        self.step = 1
        self._room = room
        self._next = 0
        self._parts: list[Batch] = []

    def add(self, batch: Batch) -> None:
        """Take from a batch what fits into the pattern."""
        first = -self._next % self.step
        self._next += len(batch.z)
        taken = Batch(batch.z.float(), batch.labels, batch.decisions)
        self._parts.append(_each(lambda tensor: tensor[first :: self.step].clone(), taken))  # a view keeps all of it
        rows = max(1, self._room // batch.z.shape[1])
        while sum(len(part.z) for part in self._parts) > rows:
            self._parts = [_each(lambda tensor: tensor[::2].clone(), self.batch)]
            self.step *= 2

    @property
    def batch(self) -> Batch:
        """All that was taken."""
        return _join(self._parts)


@dataclass(frozen=True)
class ChunkStatistics:
    """The statistics of one chunk, on its own; the chunk is kept for the subsample."""

    chunk: Batch
    statistics: Statistics
    right: int | None
    together: CrossMoments | None

    @classmethod
    def of(cls, chunk: Batch) -> ChunkStatistics:
        """Add a chunk."""
        together = None if chunk.reference is None else CrossMoments.of(chunk.z, chunk.reference)
        return cls(chunk, Statistics.of(chunk.z, chunk.labels), chunk.right, together)


@dataclass(frozen=True)
class Gathered:
    """What one pass leaves: `right` is the number of right decisions, None without labels or decisions."""

    statistics: Statistics
    sample: Subsample
    right: int | None
    together: CrossMoments | None


def gather(batches: Iterable[Batch]) -> Gathered:
    """Go once over all batches."""
    return add_up(map(ChunkStatistics.of, chunks(batches)))


def add_up(parts: Iterable[ChunkStatistics]) -> Gathered:
    """Put parts together, one after another: their order is a part of the result's last bits."""
    statistics, together, right, sample = None, None, None, Subsample()
    for part in parts:
        statistics = part.statistics if statistics is None else statistics + part.statistics
        sample.add(part.chunk)
        if part.right is not None:
            right = (right or 0) + part.right
        if part.together is not None:
            together = part.together if together is None else together + part.together
    if statistics is None:
        raise UserError("there are no samples: the loader gave no batch")
    return Gathered(statistics, sample, right, together)


def chunks(batches: Iterable[Batch], size: int = CHUNK) -> Iterator[Batch]:
    """Cut the stream of batches into batches of that size and a last one."""
    waiting: list[Batch] = []
    count = 0
    for batch in map(on_host, batches):
        check(batch.z, batch.labels)
        start = 0
        while start < len(batch.z):
            stop = start + size - count
            part = _each(itemgetter(slice(start, stop)), batch)
            waiting.append(part)
            start, count = start + len(part.z), count + len(part.z)
            if count == size:
                yield _join(waiting)
                waiting, count = [], 0
    if waiting:
        yield _join(waiting)


def on_host(batch: Batch) -> Batch:
    """Return the batch in the host's memory: not every device has float64, and few are good at it."""
    return _each(Tensor.cpu, batch)


def _each(change: Callable[[Tensor], Tensor], batch: Batch) -> Batch:
    z, *others = batch
    return Batch(change(z), *(None if each is None else change(each) for each in others))


def _join(parts: list[Batch]) -> Batch:
    if len(parts) == 1:
        return parts[0]
    if len(widths := {part.z.shape[1] for part in parts}) > 1:
        raise UserError(f"batches differ in their number of features: {sorted(widths)}")
    z, *others = zip(*parts, strict=True)
    return Batch(torch.cat(z), *map(_join_column, others))


def _join_column(parts: tuple[Tensor | None, ...]) -> Tensor | None:
    there = [part for part in parts if part is not None]
    if there and len(there) < len(parts):
        raise UserError("some of the samples have labels and some have none")
    return torch.cat(there) if there else None
