"""Your own data of many clients, in the layout of LEAF (Caldas et al., 2018): FEMNIST, Shakespeare, tables."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import numpy as np
import torch
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, model_validator
from torch import Tensor

from feddecorr.core.files import reading
from feddecorr.core.limits import CLASSES, TOTAL, Allowance, brief, check_plain, check_width, read_plain
from feddecorr.data.dataset import Dataset, Images, UserData
from feddecorr.data.text import WINDOW, Passages, from_text
from feddecorr.errors import UserError


class _Strict(BaseModel):
    model_config = ConfigDict(strict=True, allow_inf_nan=False)


class _NumbersOfUser(_Strict):
    x: list[list[float]]
    y: list[Annotated[int, Field(ge=0, lt=CLASSES)]]


class _TextOfUser(_Strict):
    x: list[str]
    y: list[Annotated[str, Field(min_length=1, max_length=1)]]


class _OfNumbers(_Strict):
    users: list[str]
    num_samples: list[int]
    user_data: dict[str, _NumbersOfUser]


class _OfText(_Strict):
    users: list[str]
    num_samples: list[int]
    user_data: dict[str, _TextOfUser]


FILES: dict[str, TypeAdapter[Any]] = {
    "images": TypeAdapter(_OfNumbers),
    "features": TypeAdapter(_OfNumbers),
    "text": TypeAdapter(_OfText),
}
"""What a file holds, by the kind of data."""

WANTED = {
    "images": "x: lists of a grey image's pixels from 0 to 1, y: whole numbers from 0",
    "features": "x: lists of numbers, y: whole numbers from 0",
    "text": "x: pieces of text, y: the character that follows each",
}


class Leaf(UserData):
    """Your own data of many clients in LEAF's layout, such as FEMNIST and Shakespeare: data=leaf:FOLDER.

    The folders `train` and `test` hold JSON files with `users`, `num_samples` and, by user, lists `x` and `y` in
    `user_data`. The users of the training files, in the order of their names, are the clients of partition=given.
    Images are square and grey, from 0 to 1 (multiplied by 255 and rounded). Of text, the last `window` characters are
    ones and zeros, and the class is the next character; features and text are for model=mlp.
    """

    path: Path = Field(description="the folder that has train and test in it")
    kind: Literal["images", "features", "text"] = Field("images", description="what the lists x hold")
    window: int = Field(WINDOW, ge=1, le=1024, description="characters from which the next one is predicted, for text")

    @model_validator(mode="after")
    def _refuse(self) -> Self:
        if self.augment and not self.images:
            raise ValueError(f"augmentation is for images, not for data.kind={self.kind}")
        return self

    @property
    def images(self) -> bool:
        """Whether they are images, as is said."""
        return self.kind == "images"

    def read(self) -> Dataset:
        """Return the examples of all users; owners are numbered by the names of those who train."""
        size = sum(path.stat().st_size for part in ("train", "test") for path in self._files(part))
        allowance = Allowance(size, most=TOTAL, hint=": lower data.window")
        train, test = (self._users(part) for part in ("train", "test"))
        sizes = torch.tensor([len(held.y) for held in train.values()])
        if 0 in sizes:
            name = list(train)[sizes.tolist().index(0)]
            raise UserError(f"{self.path / 'train'}: user '{brief(name)}' has no example")
        owners = torch.arange(len(train)).repeat_interleave(sizes)
        if not len(owners) or not any(held.y for held in test.values()):
            raise UserError(f"{self.path}: there are no {'test' if len(owners) else 'training'} examples")
        with reading(self.path):
            if self.kind == "text":
                before, after = (Passages(_joined(part, "x"), _joined(part, "y")) for part in (train, test))
                return from_text(before, after, window=self.window, owners=owners, allowance=allowance)
            mine, theirs = (Images(self._numbers(part), torch.tensor(_joined(part, "y"))) for part in (train, test))
            if mine.pixels.shape[1:] != theirs.pixels.shape[1:]:
                raise UserError("training and test examples differ in length")
            count = 1 + int(max(mine.labels.max(), theirs.labels.max()))
            return Dataset.of(mine, theirs, tuple(map(str, range(count))), owners)

    def _files(self, part: str) -> list[Path]:
        found = sorted(path for path in (self.path / part).glob("*.json") if not path.name.startswith("."))
        if not found:
            raise UserError(f"{self.path / part}: no .json file; LEAF's layout has them in the folders train and test")
        for path in found:
            check_plain(path)
        if sum(path.stat().st_size for path in found) > TOTAL:
            raise UserError(f"{self.path / part}: refused, for its files have more than {TOTAL:,} bytes together")
        return found

    def _users(self, part: str) -> dict[str, Any]:
        """Return what each user of the part holds, in the order of their names."""
        held: dict[str, Any] = {}
        for path in self._files(part):
            for name, mine in self._read(path):
                if name in held:
                    raise UserError(f"{path}: user '{brief(name)}' is there twice, here or in another file")
                held[name] = mine
        return dict(sorted(held.items()))

    def _read(self, path: Path) -> Iterator[tuple[str, Any]]:
        with reading(path):
            content = read_plain(path)
        try:
            found = FILES[self.kind].validate_json(content)
        except ValidationError as error:
            problem = error.errors(include_url=False, include_input=False)[0]
            place = ".".join(brief(part) for part in problem["loc"])
            raise UserError(
                f"{path}: {place}: {brief(problem['msg'])}; with data.kind={self.kind} it holds {WANTED[self.kind]} "
                f"(data.kind is one of {', '.join(WANTED)})"
            ) from error
        if sorted(found.users) != sorted(found.user_data) or len(found.num_samples) != len(found.users):
            raise UserError(f"{path}: users, num_samples and user_data are not of the same users")
        for name, count in zip(found.users, found.num_samples, strict=True):
            mine = found.user_data[name]
            if not len(mine.x) == len(mine.y) == count:
                said = f"{len(mine.x)} x, {len(mine.y)} y and num_samples {brief(count)}"
                raise UserError(f"{path}: user '{brief(name)}' has {said}, which should be the same number")
            yield name, mine

    def _numbers(self, part: dict[str, Any]) -> Tensor:
        """Return images of one channel, or features as channels of one pixel."""
        rows = _joined(part, "x")
        width = len(rows[0])
        for name, held in part.items():
            if wrong := [place for place, row in enumerate(held.x) if len(row) != width]:
                said = f"x[{wrong[0]}] has {len(held.x[wrong[0]])} numbers"
                raise UserError(f"user '{brief(name)}': {said}, the first example has {width}")
        check_width(width)
        with np.errstate(over="ignore"):  # what is too large is infinite then, and refused
            values = np.array(rows, np.float32)
        if not width or not np.isfinite(values).all():
            raise UserError("an example is empty, or has a number too large for float32")
        if not self.images:
            return torch.from_numpy(values)[:, None, None, :]
        side = math.isqrt(width)
        if side**2 != width:
            raise UserError(f"{width} numbers are no square image; data.kind=features takes them as features")
        if values.min() < 0 or values.max() > 1:
            said = f"from {values.min():g} to {values.max():g}"
            raise UserError(f"pixels are {said}, not from 0 to 1; data.kind=features takes them as features")
        return torch.from_numpy((values * 255).round().astype(np.uint8)).view(-1, side, side, 1)


def _joined(part: dict[str, Any], name: str) -> list[Any]:
    return [each for held in part.values() for each in getattr(held, name)]
