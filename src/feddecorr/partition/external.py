"""Splits that are made elsewhere, and their checks: from a file, or by a partitioner of flwr-datasets (optional)."""

from __future__ import annotations

import hashlib
import inspect
import json
import warnings
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from pydantic import Field, TypeAdapter, ValidationError, ValidationInfo, field_validator

from feddecorr.core.files import write_bytes
from feddecorr.core.limits import read_plain
from feddecorr.core.trust import import_named
from feddecorr.errors import UserError, nearest
from feddecorr.partition.split import UNASSIGNED, Indices, Partition, Parts

_LISTS = TypeAdapter(list[list[Annotated[int, Field(strict=True, ge=0, lt=2**62)]]])


class ExternalSplit(Partition):
    """A split that is made elsewhere, and therefore checked."""

    partial: bool = Field(False, description="accept a split that leaves examples out")

    def _check(self, parts: Parts, *, count: int, clients: int, source: str) -> Indices:
        """Return the client of each example."""
        if len(parts) != clients:
            raise UserError(f"{source} is for {len(parts)} clients: set clients={len(parts)} (now {clients})")
        if (largest := parts.order.max(initial=0)) >= count:
            raise UserError(f"{source} names example {largest}, but there are {count}, counted from 0")
        held = np.bincount(parts.order, minlength=count)
        if held.max(initial=0) > 1:
            raise UserError(f"{source} repeats example {held.argmax()}: it is there {held.max()} times")
        if not self.partial and held.min(initial=1) == 0:
            left, first = int((held == 0).sum()), int(held.argmin())
            raise UserError(
                f"{source} leaves out {left} examples (the first is {first}): partition.partial=true accepts it"
            )
        holders = np.full(count, UNASSIGNED)
        holders[parts.order] = parts.holders
        return holders


class Given(Partition):
    """The clients that the data themselves name: writers, speakers, sites. Nothing is drawn."""

    minimum: int = Field(1, ge=1, description="examples that every client must hold")

    def _holders(self, labels: Indices, owners: Indices | None, clients: int, seed: int) -> Indices:  # noqa: ARG002
        """Return the owners, if there are as many as clients."""
        if owners is None:
            raise UserError(
                "partition=given: these data do not assign examples to clients; data=digits_by_writer, data=speeches, "
                "data=leaf:FOLDER and data=table:FILE with data.client=COLUMN do; the other partitions draw clients"
            )
        if (found := int(owners.max()) + 1) != clients:
            raise UserError(f"partition=given: the data are those of {found} clients: set clients={found}")
        return owners


class SplitFile(ExternalSplit):
    """A split read from a JSON file: a list with, for each client, the list of its examples' indices."""

    minimum: int = Field(1, ge=1, description="examples that every client must hold")
    path: Path = Field(description="the file, as 'feddecorr partition … --out FILE' writes it")
    sha256: str = Field("", validate_default=True, description="digest of the file; by default computed")

    @field_validator("path")
    @classmethod
    def _resolve(cls, path: Path) -> Path:
        return path.expanduser().absolute()  # a run may be resumed from elsewhere

    @field_validator("sha256")
    @classmethod
    def _pin(cls, digest: str, info: ValidationInfo) -> str:
        """Keep the digest with the experiment, so that a run is never resumed with another split."""
        if digest or "path" not in info.data or (info.context is not None and info.context.closed):
            return digest
        return _digest(info.data["path"])

    def assign(self, labels: Indices, clients: int, stream: np.random.RandomState) -> Indices:  # noqa: ARG002 - nothing is drawn
        """Read the file, if it still has the recorded digest."""
        found = _digest(self.path)
        if found != self.sha256:
            raise UserError(f"{self.path} has changed: its sha256 is {found}, no longer {self.sha256}")
        return self._check(read_split(self.path), count=len(labels), clients=clients, source=str(self.path))


def _digest(path: Path) -> str:
    try:
        return hashlib.sha256(read_plain(path)).hexdigest()
    except OSError as error:
        raise UserError(f"the split {path} cannot be read: {error.strerror}") from error


def read_split(path: Path) -> Parts:
    """Return the split that a JSON file holds."""
    try:
        lists = _LISTS.validate_json(read_plain(path))
    except ValidationError as error:
        problem = error.errors(include_url=False)[0]
        place = "".join(f"[{part}]" for part in problem["loc"])
        raise UserError(
            f"{path}{place}: {problem['msg']}; expected a list of lists of indices, one for each client"
        ) from error
    return Parts.of(lists)


def write_split(path: Path, parts: Parts) -> None:
    """Write a split for `read_split`, with one client in each line."""
    lines = ",\n".join(json.dumps(part.tolist()) for part in parts)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_bytes(path, f"[\n{lines}\n]\n".encode())


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
