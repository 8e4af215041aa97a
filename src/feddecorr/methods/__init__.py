"""Federated methods by name."""

from feddecorr.kinds import Family
from feddecorr.methods.fedavg import FedAvg
from feddecorr.methods.method import Local, Mean, Method, mean_weights

METHODS = Family("method", Method, {"fedavg": FedAvg})

__all__ = ["METHODS", "FedAvg", "Local", "Mean", "Method", "mean_weights"]
