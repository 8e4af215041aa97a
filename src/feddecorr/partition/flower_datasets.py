"""The partitioners of flwr-datasets, an optional dependency."""

from __future__ import annotations

import inspect
import warnings
from importlib import import_module
from typing import Any

import numpy as np
from pydantic import Field, ValidationInfo, field_validator

from feddecorr.core.trust import import_named
from feddecorr.errors import UserError, nearest
from feddecorr.partition.split import Indices, Parts
from feddecorr.partition.split_file import ExternalSplit


class FlowerPartitioner(ExternalSplit):
    """Any partitioner of flwr-datasets that splits rows, with its own options.

    Unless the options say otherwise, it receives the number of clients, `label` as the column to split by,
    `minimum`, and a seed derived from the run's seed, each if it has a parameter for it. A list of lists becomes an
    array; package.module:name is imported, for partitioners that take a function.
    """

    partitioner: str = Field("DirichletPartitioner", description="the name of its class")
    options: dict[str, Any] = Field({}, description="its arguments, by name, e.g. partition.options.alpha=0.5")

    @field_validator("options")
    @classmethod
    def _open(cls, options: dict[str, Any], info: ValidationInfo) -> dict[str, Any]:
        """Import what they name now, while its origin is known: code that only a file names is not trusted."""
        if info.context is not None and not info.context.closed:
            for value in filter(_is_name, options.values()):
                import_named(value, info.context)
        return options

    def assign(self, labels: Indices, clients: int, stream: np.random.RandomState) -> Indices:
        """Let the partitioner split the rows of a table."""
        try:
            known, datasets = import_module("flwr_datasets.partitioner"), import_module("datasets")
        except ImportError as error:
            raise UserError(
                f"partition=flower needs flwr-datasets ({error}): pip install 'feddecorr[flower-datasets]'"
            ) from error
        if self.partitioner not in known.__all__:
            raise UserError(f"flwr-datasets has no {self.partitioner}: {nearest(self.partitioner, known.__all__)}")
        given = {
            "num_partitions": clients,
            "partition_by": "label",
            "min_partition_size": self.minimum,
            "seed": int(stream.randint(2**31, dtype=np.int64)),
        }
        cls = getattr(known, self.partitioner)
        accepted = inspect.signature(cls).parameters
        options = {name: _value(value) for name, value in self.options.items()}
        try:
            partitioner = cls(**{name: value for name, value in given.items() if name in accepted} | options)
            partitioner.dataset = datasets.Dataset.from_dict({"index": np.arange(len(labels)), "label": labels})
            with warnings.catch_warnings():
                warnings.simplefilter(
                    "ignore", FutureWarning
                )  # among the packages below; users can do nothing about them
                tables = [partitioner.load_partition(client) for client in range(partitioner.num_partitions)]
        except (TypeError, ValueError, AssertionError) as error:
            raise UserError(f"{self.partitioner}: {error}; partition.options.NAME=VALUE sets its arguments") from error
        if any("index" not in table.column_names for table in tables):
            raise UserError(f"{self.partitioner} splits columns; choose a partitioner that splits rows")
        parts = Parts.of([np.array(table["index"]) for table in tables])
        return self._check(parts, count=len(labels), clients=clients, source=self.partitioner)


def _is_name(value: Any) -> bool:
    return isinstance(value, str) and ":" in value


def _value(value: Any) -> Any:
    if _is_name(value):
        return import_named(value)
    if isinstance(value, list) and value and isinstance(value[0], list):
        return np.array(value)
    return value
