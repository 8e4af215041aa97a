"""FedBABU: the body is trained under a classifier that stays as it was drawn."""

from __future__ import annotations

from pydantic import Field, PositiveInt

from feddecorr.methods.method import Method, Trains


class FedBABU(Method):
    """Trains and averages the body alone, not the classifier, until the end (Oh, Kim and Yun, ICLR 2022).

    At the end each client adapts the network to its own images: with `head_from` the number of the last round and
    `evaluation.clients=last`, those are the clients' models of that round.
    """

    head_from: PositiveInt | None = Field(
        None, description="round from which the classifier is trained, too; by default never; 1 is FedAvg"
    )

    def trains(self, number: int) -> Trains:
        """Leave the classifier alone."""
        return "body" if self.head_from is None or number < self.head_from else "network"
