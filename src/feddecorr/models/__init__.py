"""Networks by name."""

from feddecorr.core.registry import Registry
from feddecorr.models.custom import Custom
from feddecorr.models.hugging_face import HuggingFaceModel
from feddecorr.models.model import Model, Shape
from feddecorr.models.networks import MLP, ConvNet, LeNet, MobileNetV2, ResNet18, ResNet20, ResNet32, Transformer
from feddecorr.models.timm import TimmModel

MODELS = Registry(
    "model",
    Model,
    {
        "convnet": ConvNet,
        "mlp": MLP,
        "lenet": LeNet,
        "mobilenetv2": MobileNetV2,
        "resnet18": ResNet18,
        "resnet20": ResNet20,
        "resnet32": ResNet32,
        "transformer": Transformer,
        "timm": TimmModel,
        "hf": HuggingFaceModel,
        "custom": Custom,
    },
    wrapper="custom",
)

__all__ = [
    "MLP",
    "MODELS",
    "ConvNet",
    "Custom",
    "LeNet",
    "MobileNetV2",
    "Model",
    "ResNet18",
    "ResNet20",
    "ResNet32",
    "Shape",
    "Transformer",
]
