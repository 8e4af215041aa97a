"""Data sets by name."""

from feddecorr.core.registry import Registry
from feddecorr.data.builtin import Digits, DigitsByWriter, RotatedDigits, Synthetic
from feddecorr.data.cifar import Cifar10, Cifar100
from feddecorr.data.dataset import Data, OnNodes
from feddecorr.data.folder import Folder
from feddecorr.data.hugging_face import HuggingFace
from feddecorr.data.leaf import Leaf
from feddecorr.data.memory import Memory, in_memory
from feddecorr.data.mnist import FashionMnist, Mnist
from feddecorr.data.npz import Npz
from feddecorr.data.tables import TableFile
from feddecorr.data.text import Speeches
from feddecorr.data.tinyimagenet import TinyImageNet

DATA = Registry(
    "data set",
    Data,
    {
        "digits": Digits,
        "rotated_digits": RotatedDigits,
        "digits_by_writer": DigitsByWriter,
        "speeches": Speeches,
        "synthetic": Synthetic,
        "cifar10": Cifar10,
        "cifar100": Cifar100,
        "tinyimagenet": TinyImageNet,
        "mnist": Mnist,
        "fashion_mnist": FashionMnist,
        "folder": Folder,
        "npz": Npz,
        "hf": HuggingFace,
        "table": TableFile,
        "leaf": Leaf,
        "memory": Memory,
        "nodes": OnNodes,
    },
    adapt=in_memory,
)
