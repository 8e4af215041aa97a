"""FedAvg: the mean of the clients' models."""

from __future__ import annotations

from feddecorr.methods.method import Method


class FedAvg(Method):
    """Averages the clients' weights by their numbers of examples (McMahan et al., AISTATS 2017)."""
