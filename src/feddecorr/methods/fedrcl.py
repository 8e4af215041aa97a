"""FedRCL: samples of a class are drawn together on every level of the network, but not too near."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import torch
from pydantic import Field, PositiveFloat
from torch import Tensor

from feddecorr.loss.contrastive import supervised_contrastive
from feddecorr.methods.method import Method
from feddecorr.objective.terms import ClientContext, Pass, Term


class FedRCL(Method):
    """Adds a supervised contrast with a penalty on samples of a class that are too near (Seo et al., CVPR 2024).

    It is the mean over levels: the last feature map of each resolution, averaged over its positions, and the
    representation. With the last level alone it is the regularizer `supervised_contrastive`.
    """

    needs_feature_maps = True
    term_names = ("contrast",)

    weight: float = Field(1.0, ge=0, description="weight of the contrast; 0 is FedAvg")
    temperature: PositiveFloat = Field(0.05, description="τ, by which cosines are divided")
    beta: float = Field(1.0, ge=0, description="β, weight of the penalty on samples that are too near")
    threshold: float = Field(0.7, ge=-1, le=1, description="λ, the cosine above which samples of a class are too near")
    levels: Literal["all", "last"] = Field("all", description="where: on all levels, or in the representation alone")

    def terms(self, context: ClientContext) -> Mapping[str, Term]:
        """Return the mean contrast, weighted."""

        def contrast(forward: Pass) -> Tensor:
            places = [*forward.levels, forward.z] if self.levels == "all" else [forward.z]
            losses = [supervised_contrastive(z, forward.y, self.temperature, self.beta, self.threshold) for z in places]
            return self.weight * torch.stack(losses).mean()

        return {"contrast": contrast}
