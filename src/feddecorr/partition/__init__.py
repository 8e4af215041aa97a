"""Who holds which examples: the training labels go in, each client's indices come out."""

from feddecorr.core.registry import Registry
from feddecorr.partition.dirichlet import Dirichlet
from feddecorr.partition.flower_datasets import Flower
from feddecorr.partition.homogeneous import Homogeneous
from feddecorr.partition.quantity import Quantity
from feddecorr.partition.shards import Classes
from feddecorr.partition.split import Indices, Partition, Parts
from feddecorr.partition.split_file import File

PARTITIONS = Registry(
    "partition",
    Partition,
    {
        "dirichlet": Dirichlet,
        "homogeneous": Homogeneous,
        "classes": Classes,
        "quantity": Quantity,
        "file": File,
        "flower": Flower,
    },
)

__all__ = [
    "PARTITIONS",
    "Classes",
    "Dirichlet",
    "File",
    "Flower",
    "Homogeneous",
    "Indices",
    "Partition",
    "Parts",
    "Quantity",
]
