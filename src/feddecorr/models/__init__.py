"""Networks by name."""

from feddecorr.kinds import Family
from feddecorr.models.convnet import ConvNet
from feddecorr.models.mlp import MLP
from feddecorr.models.model import Model

MODELS = Family("model", Model, {"convnet": ConvNet, "mlp": MLP})

__all__ = ["MODELS", "MLP", "ConvNet", "Model"]
