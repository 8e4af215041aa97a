"""Splits: from the training labels to the indices of each client's examples."""

from feddecorr.core.registry import Registry
from feddecorr.partition.external import FlowerPartitioner, Given, SplitFile
from feddecorr.partition.skew import ClassesPerClient, Dirichlet, EqualShares, Homogeneous, Quantity
from feddecorr.partition.split import Partition

PARTITIONS = Registry(
    "partition",
    Partition,
    {
        "dirichlet": Dirichlet,
        "equal_shares": EqualShares,
        "homogeneous": Homogeneous,
        "classes": ClassesPerClient,
        "quantity": Quantity,
        "given": Given,
        "file": SplitFile,
        "flower": FlowerPartitioner,
    },
)
