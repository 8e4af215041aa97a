"""Data sets of Hugging Face, from the disk or from its cache."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from pydantic import Field, PositiveInt, field_validator

from feddecorr.data import cache
from feddecorr.data.dataset import Dataset, Images, Own, split_off_test
from feddecorr.data.folder import TEST_NAMES
from feddecorr.data.formats.pictures import GREY_MODES, to_array
from feddecorr.errors import UserError, nearest


class HuggingFace(Own):
    """A data set of Hugging Face with images and labels, on this disk or in its cache: data=hf:PATH_OR_NAME.

    A path is what `save_to_disk` wrote, or a folder that `load_dataset` reads; anything else is the name of a data
    set that was fetched before. Nothing is fetched here. Without a test split, every fifth image of a class is a test
    image. Decoded pixels are kept in the cache.
    """

    argument: ClassVar[str | None] = "path"

    path: Path = Field(description="where it lies, or its name")
    image: str | None = Field(None, description="the column of images; by default the one that holds images")
    label: str | None = Field(None, description="the column of labels; by default the one that holds classes")
    size: PositiveInt | None = Field(None, description="height and width to resize to; else all must be equal")

    @field_validator("path")
    @classmethod
    def _resolve(cls, path: Path) -> Path:
        return path.expanduser().absolute() if path.expanduser().exists() else path

    def read(self) -> Dataset:
        """Return the images, grey if all of them are."""
        train, test = self._splits()
        known = [f"{part._fingerprint}" for part in (train, test) if part is not None]
        name = f"hf-{'-'.join(known)}-{self.image}-{self.label}-{self.size}"
        if not cache.is_whole(name, source=str(self.path)):
            cache.store(name, self._decode(train, test), source=str(self.path))
        return cache.load(name)

    def _splits(self) -> tuple[Any, Any]:
        library = _library()
        saved = any((self.path / name).is_file() for name in ("dataset_dict.json", "state.json"))
        try:
            found = (
                library.load_from_disk(str(self.path))
                if saved
                else library.load_dataset(str(self.path), download_config=library.DownloadConfig(local_files_only=True))
            )
        except Exception as error:  # whatever its loaders raise
            raise UserError(f"{self.path} is no data set that is there: {str(error).splitlines()[0]}") from error
        if not isinstance(found, dict):
            return found, None
        if "train" not in found:
            raise UserError(f"{self.path}: no split 'train'; there are: {', '.join(found)}")
        return found["train"], next((found[name] for name in TEST_NAMES if name in found), None)

    def _decode(self, train: Any, test: Any) -> Dataset:
        image = self._column(train, self.image, "Image", "images")
        label = self._column(train, self.label, "ClassLabel", "labels")
        parts = [part for part in (train, test) if part is not None]
        grey = all(picture.mode in GREY_MODES for part in parts for picture in part[image])
        names = getattr(train.features[label], "names", None)
        if names is None:
            names = [str(value) for value in range(1 + max(max(part[label]) for part in parts))]
        found = [self._images(part[image], part[label], grey=grey) for part in parts]
        if test is None:
            out = split_off_test(found[0].labels)
            both = found[0]
            found = [Images(both.pixels[chosen], both.labels[chosen]) for chosen in (~out, out)]
        return Dataset.of(found[0], found[1], tuple(names))

    def _column(self, part: Any, asked: str | None, kind: str, what: str) -> str:
        if asked is not None:
            if asked not in part.features:
                raise UserError(f"{self.path}: no column '{asked}': {nearest(asked, part.features)}")
            return asked
        found = [name for name, feature in part.features.items() if type(feature).__name__ == kind]
        if len(found) != 1 and kind == "ClassLabel":
            found = [name for name in ("label", "labels", "fine_label") if name in part.features][:1]
        if len(found) != 1:
            option = "image" if kind == "Image" else "label"
            raise UserError(
                f"{self.path}: {len(found)} columns hold {what}; name one by data.{option}: {', '.join(part.features)}"
            )
        return str(found[0])

    def _images(self, pictures: Any, labels: Any, *, grey: bool) -> Images:
        values = [to_array(picture, size=self.size, grey=grey) for picture in pictures]
        for number, value in enumerate(values):
            if value.shape != values[0].shape:
                height, width, _ = value.shape
                raise UserError(
                    f"{self.path}: image {number} has {width}×{height} pixels, unlike the first; data.size resizes all"
                )
        return Images(torch.from_numpy(np.stack(values)), torch.tensor([int(label) for label in labels]))


def _library() -> Any:
    try:
        import datasets  # noqa: PLC0415 - an extra, loaded when it is needed
    except ImportError as error:
        raise UserError("data=hf needs Hugging Face's datasets: pip install 'feddecorr[huggingface]'") from error
    return datasets
