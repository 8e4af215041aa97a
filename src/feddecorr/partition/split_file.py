"""Splits from a file, and the checks of every split that is made elsewhere."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Annotated

import numpy as np
from pydantic import Field, TypeAdapter, ValidationError, ValidationInfo, field_validator

from feddecorr.core.files import write_bytes
from feddecorr.errors import UserError
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
        return digest or (_digest(info.data["path"]) if "path" in info.data else "")

    def assign(self, labels: Indices, clients: int, stream: np.random.RandomState) -> Indices:  # noqa: ARG002 - nothing is drawn
        """Read the file, if it still has the recorded digest."""
        found = _digest(self.path)
        if found != self.sha256:
            raise UserError(f"{self.path} has changed: its sha256 is {found}, no longer {self.sha256}")
        return self._check(read_split(self.path), count=len(labels), clients=clients, source=str(self.path))


def _digest(path: Path) -> str:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise UserError(f"the split {path} cannot be read: {error.strerror}") from error


def read_split(path: Path) -> Parts:
    """Return the split that a JSON file holds."""
    try:
        lists = _LISTS.validate_json(path.read_bytes())
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
