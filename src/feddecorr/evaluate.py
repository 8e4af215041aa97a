"""The global model on the test images: accuracy, loss, and the spectrum of its representations."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import reduce
from operator import add

import torch
from torch.nn.functional import cross_entropy

from feddecorr.errors import RunError
from feddecorr.federation import Federation
from feddecorr.machine import threads
from feddecorr.messages import Server
from feddecorr.representation import capture_representations
from feddecorr.spectrum import Moments, effective_rank, significant, singular_values


@dataclass(frozen=True)
class Evaluated:
    """What was found out; `accuracy` is a fraction, `singular_values` are the covariance's, largest first."""

    accuracy: float
    loss: float
    effective_rank: float
    significant_singular_values: int
    singular_values: list[float]


class Evaluator:
    """Evaluates servers with one model; draws no random number."""

    def __init__(self, federation: Federation) -> None:
        self.federation = federation
        self.model = federation.build_model().eval()

    @torch.no_grad()
    def __call__(self, server: Server) -> Evaluated:
        """Go once over the test images."""
        experiment, dataset = self.federation.experiment, self.federation.dataset
        self.model.load_state_dict({**server.weights, **server.buffers}, strict=False)
        device = experiment.training.device
        right, loss = 0, 0.0
        parts = []
        with threads(experiment.training.threads), capture_representations(self.model) as seen:
            batches = zip(
                dataset.test.pixels.split(experiment.evaluation.batch),
                dataset.test.labels.split(experiment.evaluation.batch),
                strict=True,
            )
            for pixels, labels in batches:
                y = labels.to(device)
                logits = self.model(dataset.normalize(pixels.to(device)))
                loss += float(cross_entropy(logits, y, reduction="sum"))
                right += int((logits.argmax(1) == y).sum())
                parts.append(Moments.of(seen.z.flatten(1)))
            if not math.isfinite(loss):
                raise RunError(f"the loss of the global model became {loss}; lower training.lr")
            values = singular_values(reduce(add, parts).covariance)
        count = len(dataset.test)
        return Evaluated(
            accuracy=right / count,
            loss=loss / count,
            effective_rank=effective_rank(values),
            significant_singular_values=significant(values),
            singular_values=values.tolist(),
        )
