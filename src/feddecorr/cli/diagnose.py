"""The command that answers whether a model has collapsed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from feddecorr.cli.console import JsonOption, TrustOption, say
from feddecorr.cli.diagnosis_output import tell
from feddecorr.config.overrides import read_overrides, said
from feddecorr.core.text import read_list
from feddecorr.core.trust import Trust
from feddecorr.errors import UserError

if TYPE_CHECKING:
    from feddecorr.collapse.diagnosis import Diagnosis
    from feddecorr.config.experiment import Experiment
    from feddecorr.runs.diagnosis import Examination, Wanted
    from feddecorr.settings.options import RunOptions


def diagnose(  # noqa: PLR0913, PLR0917 - one parameter for each option of the command
    words: Annotated[
        list[str] | None,
        typer.Argument(metavar="[DIR]... [KEY=VALUE]...", help="Runs; settings for --model and --data."),
    ] = None,
    features: Annotated[
        list[Path] | None,
        typer.Option(help="Features, (samples, features): npy, npz, safetensors, csv, parquet; repeatable."),
    ] = None,
    labels: Annotated[
        list[Path] | None, typer.Option(help="Their labels: one file for all, or one for each file of features.")
    ] = None,
    model: Annotated[str | None, typer.Option(help="A model by name, or package.module:build of your own.")] = None,
    weights: Annotated[
        list[Path] | None, typer.Option(help="Its weights: safetensors or torch.save; repeatable.")
    ] = None,
    data: Annotated[str | None, typer.Option(help="The data set that the model sees.")] = None,
    layer: Annotated[str | None, typer.Option(help="The layer whose input is the representation.")] = None,
    round: Annotated[str, typer.Option(help="Of runs: 'last' or a number.")] = "last",  # noqa: A002 - the option's name
    clients: Annotated[
        str | None, typer.Option(help="Of runs: local models, too: 'all', which also ranks them, or '0,3'.")
    ] = None,
    averaging: Annotated[
        bool, typer.Option("--averaging", help="Of runs: compare all local models with their average.")
    ] = False,
    layers: Annotated[bool, typer.Option("--layers", help="With --averaging: layer by layer, too.")] = False,
    on: Annotated[str, typer.Option(help="Which images: 'test' or 'train'.")] = "test",
    statistics: Annotated[
        str, typer.Option(help="BatchNorm's: the 'model's, or those of each 'batch' of the images.")
    ] = "model",
    picture: Annotated[Path, typer.Option(help="HTML file to draw the spectra in.")] = Path("diagnosis.html"),
    trust: TrustOption = False,
    json: JsonOption = False,
) -> None:
    """Has my model collapsed? In numbers, in words and in a picture; any number of models side by side.

    Runs: the newest global model is there; local models are trained again for one round, to the same bits;
    an older round takes as long as the run took to get there.

        feddecorr diagnose runs/a runs/b --clients all

        feddecorr diagnose runs/a --round 5 --clients 0,3 --on train

        feddecorr diagnose runs/a --averaging --layers

    Features of any framework, and any PyTorch model:

        feddecorr diagnose --features z.npy --labels y.npy

        feddecorr diagnose --model my_module:build --weights w.safetensors --data cifar10

    The representation is what the classifier takes in, or what --layer names. What each measure means:
    docs/diagnosis.md.
    """
    directories = [Path(word) for word in words or [] if "=" not in word or Path(word).is_dir()]
    settings = read_overrides([word for word in words or [] if Path(word) not in directories])
    of_models = bool(directories) or model is not None
    _refuse_if(
        {
            "nothing to diagnose: name a run, --features FILE, or --model NAME --data NAME": not of_models
            and not features,
            "--weights, --data, --layer and settings say something about --model: name it, too": model is None
            and bool(weights or data or layer or settings),
            f"--on is 'test' or 'train', not '{on}'": on not in ("test", "train"),
            f"--statistics is 'model' or 'batch', not '{statistics}'": statistics not in ("model", "batch"),
            "--statistics are those of models, not of features": statistics == "batch" and not of_models,
            "--labels belong to --features: name them, too": bool(labels) and not features,
            "--clients, --round and --averaging are about models of a run: name its directory": not directories
            and (clients is not None or round != "last" or averaging),
            "--layers are those of --averaging: say that, too": layers and not averaging,
        }
    )
    rounds: list[Examination] = []
    if directories:
        wanted = _wanted(round, clients)
        wanted = replace(wanted, on=on, statistics=statistics, averaging=averaging, layers=layers)
        rounds += _runs(directories, wanted, Trust(files=trust))
    found: list[Diagnosis] = [diagnosis for each in rounds for diagnosis in each.diagnoses]
    if features:
        found += _features(features, labels or [])
    if model is not None:
        settings |= {"model": _named(settings, "model", model), **_data(settings, data)}
        spoken = said(words or []) | {model, str(data)}
        parsed = _parse(settings, Trust(spoken, files=trust))
        found += _models(parsed, weights, layer=layer, on=on, statistics=statistics)
    tell(found, rounds, picture, json=json)


def _refuse_if(problems: Mapping[str, bool]) -> None:
    """Raise the first of the problems that there is."""
    for message, there in problems.items():
        if there:
            raise UserError(message)


def _named(settings: dict[str, Any], key: str, name: str) -> dict[str, Any]:
    options = settings.get(key, {})
    return {**options, "name": name} if isinstance(options, dict) else {"name": name}


def _data(settings: dict[str, Any], data: str | None) -> dict[str, Any]:
    if data is None and "data" not in settings:
        raise UserError("--model needs images to see: name a data set by --data ('feddecorr list data' shows them)")
    return {} if data is None else {"data": _named(settings, "data", data)}


def _wanted(round: str, clients: str | None) -> Wanted:  # noqa: A002 - the option's name
    from feddecorr.runs.diagnosis import Wanted  # noqa: PLC0415 - PyTorch is loaded when it is needed

    if round != "last" and not round.isdecimal():
        raise UserError(f"--round is 'last' or a number, not '{round}'")
    chosen = None
    if clients not in (None, "all"):
        parts = read_list(clients)
        if not parts or not all(part.isdecimal() for part in parts):
            raise UserError(f"--clients is 'all' or numbers with commas between, such as 0,3, not '{clients}'")
        chosen = [int(part) for part in parts]
    return Wanted(None if round == "last" else int(round), clients is not None, chosen)


def _runs(directories: Sequence[Path], wanted: Wanted, trust: Trust) -> Iterator[Examination]:
    from feddecorr.report.runs_page import name_directories  # noqa: PLC0415
    from feddecorr.runs.diagnosis import examine  # noqa: PLC0415 - PyTorch is loaded when it is needed
    from feddecorr.runs.directory import RunDirectory  # noqa: PLC0415
    from feddecorr.runs.recompute import describe  # noqa: PLC0415

    runs = [RunDirectory.open(directory) for directory in directories]
    for name, run in zip(name_directories(directories), runs, strict=True):
        title = name if len(runs) == 1 else f"{name} ({describe(run)})"
        yield examine(run, wanted, title, say, trust=trust)


def _features(files: Sequence[Path], labels: Sequence[Path]) -> Iterator[Diagnosis]:
    from feddecorr.data.features import diagnose_features  # noqa: PLC0415 - PyTorch is loaded when it is needed

    if len(labels) > 1 and len(labels) != len(files):
        raise UserError(
            f"{len(labels)} files of labels for {len(files)} of features: give one for all, or one for each"
        )
    paired: list[Path | None] = [*labels] if labels else [None]
    if len(paired) == 1:
        paired *= len(files)
    yield from diagnose_features(list(zip(files, paired, strict=True)))


def _parse(settings: dict[str, Any], trust: Trust) -> tuple[Experiment, RunOptions]:
    from feddecorr.settings.flat import parse_settings  # noqa: PLC0415 - PyTorch is loaded when it is needed

    return parse_settings(settings, trust)


def _models(parsed: tuple[Experiment, RunOptions], weights: Sequence[Path] | None, **look: Any) -> Iterator[Diagnosis]:
    from feddecorr.runs.diagnosis import diagnose_stored  # noqa: PLC0415 - PyTorch is loaded when it is needed

    files: list[Path | None] = [*weights] if weights else [None]
    for file in files:
        yield diagnose_stored(*parsed, file, **look)
