"""Public data sets, which lie in the cache once they were fetched."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

from pydantic import Field, PositiveInt

from feddecorr.data import cache
from feddecorr.data.dataset import Data, Dataset, content_digest
from feddecorr.data.fetch.download import Progress
from feddecorr.data.fetch.recipe import Recipe
from feddecorr.data.resizing import resize
from feddecorr.errors import RunError, UserError


class Stored(Data):
    """A data set of the cache; a run never fetches it by itself."""

    recipe: ClassVar[Recipe]

    size: PositiveInt | None = Field(
        None, description="height and width to which images are made smaller, by the mean over areas; else as they are"
    )

    def load(self) -> Dataset:
        """Return the images that the options ask for, in the size that they ask for."""
        dataset = super().load()
        return dataset if self.size is None else resize(dataset, self.size)

    def read(self) -> Dataset:
        """Return the images, mapped from the cache; they are standardized by the constants of the whole set."""
        return replace(cache.load(self.recipe.name), mean=self.recipe.mean, std=self.recipe.std)

    def verify(self) -> tuple[Dataset, list[str]]:
        """Compare with the digest that was noted, and with the official ones unless it is noted to be a part."""
        dataset, about = self.read(), cache.describe(self.recipe.name)
        found = content_digest(dataset.train, dataset.test)
        problems = [] if dataset.note else self.recipe.problems(dataset)
        if about is not None and found != about.sha256:
            problems.append(f"the pixels and labels have sha256 {found}, expected {about.sha256}")
        return dataset, problems


def read_copy(recipe: Recipe, origin: Path, *, partial: bool = False) -> Dataset:
    """Return the data set from a copy; one that is not whole only if asked for, and with a note."""
    dataset = recipe.read(origin)
    problems = recipe.problems(dataset)
    if not problems:
        return dataset
    if partial or (recipe.parts and len(dataset.train) <= recipe.train and len(dataset.test) <= recipe.test):
        return replace(dataset, note=f"not the whole, official {recipe.name}: {'; '.join(problems)}")
    hint = "--partial takes it all the same, and notes what is missing"
    raise UserError(f"{origin}: not the whole, official {recipe.name}: {'; '.join(problems)} ({hint})")


def fetch(recipe: Recipe, progress: Progress, *, source: str | None = None) -> Path:
    """Fetch from the first source that has it, and store; return the file in the cache."""
    known = [found.name for found in recipe.sources]
    if source is not None and source not in known:
        raise UserError(f"{recipe.name} has no source '{source}': there are: {', '.join(known)}")
    failures = []
    with cache.locked(recipe.name) as folder:
        for found in recipe.sources:
            if source not in (None, found.name):
                continue
            place = folder / found.name
            place.mkdir(exist_ok=True)
            try:
                origin = found.fetch(place, progress)
                progress(f"reading and checking {origin.name}", 0, 0)
                dataset = read_copy(recipe, origin)
            except (RunError, UserError) as error:
                failures.append(f"{found.name}: {error}")
                progress(failures[-1], 0, 0)
                continue
            file = cache.store(recipe.name, dataset, source=found.name)
            shutil.rmtree(folder)
            return file
    raise RunError(
        f"{recipe.name} could not be fetched ({'; '.join(failures)}); a copy that you have already is taken by "
        f"'feddecorr data get {recipe.name} --from FILE_OR_FOLDER'"
    )
