"""Regularizers by name: terms that any method's objective can be given."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from pydantic import Field, PositiveFloat, PositiveInt
from torch import Tensor

from feddecorr.core.registry import Config, Registry
from feddecorr.loss import contrastive, decorrelation
from feddecorr.loss.decorrelation import Dying, Normalization
from feddecorr.objective.terms import Pass


class Regularizer(Config):
    """A term of the local objective that knows nothing of the federated method."""

    of_several: ClassVar[bool] = False
    """Whether it also takes a pass of several clients (see `objective.of_several`)."""

    def __call__(self, forward: Pass) -> Tensor:
        """Return the weighted term."""
        raise NotImplementedError


class FedDecorr(Regularizer):
    """Decorrelates the dimensions of the representation (Shi et al., ICLR 2023)."""

    of_several = True

    beta: float = Field(0.1, ge=0, description="weight of the term, the paper's β")
    normalization: Normalization = Field("released", description="scale: the authors' code, or the paper's formula")
    dying: Dying = Field(
        "ignored", description="features that die: uncorrelated, as published, or counted as correlated with all others"
    )

    def __call__(self, forward: Pass) -> Tensor:
        """Return β times the loss of the batch's representations."""
        loss = decorrelation.feddecorr if forward.z.ndim == 2 else decorrelation.feddecorr_of_each
        return self.beta * loss(forward.z, self.normalization, self.dying)


class Weighted(Regularizer):
    """A loss of the batch's representations, times a weight; further options are those of the function."""

    function: ClassVar[Callable[..., Tensor]]

    weight: float = Field(0.1, ge=0, description="weight of the term")

    def __call__(self, forward: Pass) -> Tensor:
        """Return the weighted loss."""
        return self.weight * self.loss(forward.z)

    def loss(self, z: Tensor) -> Tensor:
        """Return the loss itself: the function with its options."""
        return type(self).function(z, **{name: value for name, value in self if name != "weight"})


class LogDet(Weighted):
    """Raises the log-determinant of the correlation matrix where FedDecorr lowers its norm (as FedBlade, 2026)."""

    function = decorrelation.logdet

    weight: float = Field(1.0, ge=0, description="weight of the term")
    shrinkage: float = Field(0.01, gt=0, lt=1, description="share of the identity that is mixed in: bounds the term")


class DeCov(Weighted):
    """Penalizes covariances between all dimensions (Cogswell et al., ICLR 2016)."""

    function = decorrelation.decov

    weight: float = Field(0.001, ge=0, description="weight of the term, which is a sum over all pairs of dimensions")


class StructuredDeCov(Weighted):
    """Penalizes covariances between groups of dimensions, not within (Xiong et al., ICDM 2016)."""

    function = decorrelation.structured_decov

    weight: float = Field(0.001, ge=0, description="weight of the term, which is a sum over all pairs of dimensions")
    size: PositiveInt = Field(8, description="dimensions in a group")


class Singular(Weighted):
    """Evens out the covariance's singular values: L_singular, the yardstick of the FedDecorr paper."""

    function = decorrelation.singular


class VICRegCovariance(Weighted):
    """The covariance term of VICReg (Bardes, Ponce and LeCun, ICLR 2022)."""

    function = decorrelation.vicreg_covariance


class VICRegVariance(Weighted):
    """The variance term of VICReg: lifts standard deviations to one (Bardes, Ponce and LeCun, ICLR 2022)."""

    function = decorrelation.vicreg_variance


class SpectralEntropy(Weighted):
    """Maximizes the effective rank (Roy and Vetterli, 2007) of the batch's representations."""

    function = decorrelation.spectral_entropy


class Uniformity(Weighted):
    """Spreads representations evenly over the unit sphere (Wang and Isola, ICML 2020; FedUV: Son et al., CVPR 2024)."""

    function = contrastive.uniformity

    t: PositiveFloat = Field(2.0, description="t of the kernel exp(−t·‖u−v‖²): how near samples count as near")


class SupervisedContrastive(Regularizer):
    """Draws samples of a class together, but not too near: FedRCL's relaxed contrast (Seo et al., CVPR 2024)."""

    weight: float = Field(1.0, ge=0, description="weight of the term")
    temperature: PositiveFloat = Field(0.05, description="τ, by which cosines are divided")
    beta: float = Field(
        1.0, ge=0, description="β, weight of the penalty on samples that are too near; 0 relaxes nothing"
    )
    threshold: float = Field(0.7, ge=-1, le=1, description="λ, the cosine above which samples of a class are too near")

    def __call__(self, forward: Pass) -> Tensor:
        """Return the weighted loss of representations and labels."""
        loss = contrastive.supervised_contrastive(forward.z, forward.y, self.temperature, self.beta, self.threshold)
        return self.weight * loss


REGULARIZERS = Registry(
    "regularizer",
    Regularizer,
    {
        "feddecorr": FedDecorr,
        "logdet": LogDet,
        "decov": DeCov,
        "structured_decov": StructuredDeCov,
        "singular": Singular,
        "vicreg_covariance": VICRegCovariance,
        "vicreg_variance": VICRegVariance,
        "spectral_entropy": SpectralEntropy,
        "uniformity": Uniformity,
        "supervised_contrastive": SupervisedContrastive,
    },
)
