"""Splits: from the training labels to the indices of each client's examples."""

from feddecorr.core.registry import Registry
from feddecorr.partition.dirichlet import Dirichlet, Homogeneous, Quantity
from feddecorr.partition.flower_datasets import FlowerPartitioner
from feddecorr.partition.shards import ClassesPerClient
from feddecorr.partition.split import Indices, Partition, Parts
from feddecorr.partition.split_file import SplitFile

PARTITIONS = Registry(
    "partition",
    Partition,
    {
        "dirichlet": Dirichlet,
        "homogeneous": Homogeneous,
        "classes": ClassesPerClient,
        "quantity": Quantity,
        "file": SplitFile,
        "flower": FlowerPartitioner,
    },
)

__all__ = [
    "PARTITIONS",
    "ClassesPerClient",
    "Dirichlet",
    "FlowerPartitioner",
    "Homogeneous",
    "Indices",
    "Partition",
    "Parts",
    "Quantity",
    "SplitFile",
]
