"""Data sets by name."""

from feddecorr.data.cifar import Cifar10, Cifar100
from feddecorr.data.dataset import Data, Dataset, Images, Own, PixelSums
from feddecorr.data.digits import Digits
from feddecorr.data.folder import Folder
from feddecorr.data.mnist import FashionMnist, Mnist
from feddecorr.data.npz import Npz
from feddecorr.data.on_nodes import OnNodes
from feddecorr.data.synthetic import Synthetic
from feddecorr.data.tinyimagenet import TinyImageNet
from feddecorr.settings.kinds import Family

DATA = Family(
    "data set",
    Data,
    {
        "digits": Digits,
        "synthetic": Synthetic,
        "cifar10": Cifar10,
        "cifar100": Cifar100,
        "tinyimagenet": TinyImageNet,
        "mnist": Mnist,
        "fashion_mnist": FashionMnist,
        "folder": Folder,
        "npz": Npz,
        "nodes": OnNodes,
    },
)

__all__ = [
    "DATA",
    "Cifar10",
    "Cifar100",
    "Data",
    "Dataset",
    "Digits",
    "FashionMnist",
    "Folder",
    "Images",
    "Mnist",
    "Npz",
    "OnNodes",
    "Own",
    "PixelSums",
    "Synthetic",
    "TinyImageNet",
]
