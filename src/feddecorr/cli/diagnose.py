"""The command that answers whether a model has collapsed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from feddecorr.cli.console import JsonOption, TrustOption, number, print_json, print_table, print_text, say
from feddecorr.errors import UserError
from feddecorr.settings.trust import Trust
from feddecorr.settings.words import read_list, read_words, said

if TYPE_CHECKING:
    from feddecorr.collapse.diagnosis import Diagnosis
    from feddecorr.runs.recomputing import Wanted

COLUMNS = {
    "accuracy": "accuracy",
    "effective rank": "effective_rank",
    "possible": "maximum_rank",
    "significant": "significant_singular_values",
    "for 99 %": "dimensions_for_99_percent",
    "participation ratio": "participation_ratio",
    "NC1": "nc1_variability",
    "CKA": "linear_cka",
}


def diagnose(  # noqa: PLR0913, PLR0917 - one parameter for each option of the command
    words: Annotated[
        list[str] | None,
        typer.Argument(metavar="[DIR]... [KEY=VALUE]...", help="Runs; settings for --model and --data."),
    ] = None,
    features: Annotated[
        list[Path] | None, typer.Option(help="Features, (samples, features): npy, npz, safetensors or csv; repeatable.")
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
    clients: Annotated[str | None, typer.Option(help="Of runs: local models, too: 'all' or '0,3'.")] = None,
    on: Annotated[str, typer.Option(help="Which images: 'test' or 'train'.")] = "test",
    picture: Annotated[Path, typer.Option(help="HTML file to draw the spectra in.")] = Path("diagnosis.html"),
    trust: TrustOption = False,
    json: JsonOption = False,
) -> None:
    """Has my model collapsed? In numbers, in words and in a picture; any number of models side by side.

    Runs: the newest global model is there; local models are trained again for one round, to the same bits;
    an older round takes as long as the run took to get there.

        feddecorr diagnose runs/a runs/b --clients all

        feddecorr diagnose runs/a --round 5 --clients 0,3 --on train

    Features of any framework, and any PyTorch model:

        feddecorr diagnose --features z.npy --labels y.npy

        feddecorr diagnose --model my_module:build --weights w.safetensors --data cifar10

    The representation is what the classifier takes in, or what --layer names. What each measure means:
    docs/diagnosis.md.
    """
    directories = [Path(word) for word in words or [] if "=" not in word or Path(word).is_dir()]
    settings = read_words([word for word in words or [] if Path(word) not in directories])
    if not directories and not features and model is None:
        raise UserError("nothing to diagnose: name a run, --features FILE, or --model NAME --data NAME")
    if model is None and (weights or data or layer or settings):
        raise UserError("--weights, --data, --layer and settings say something about --model: name it, too")
    if on not in ("test", "train"):
        raise UserError(f"--on is 'test' or 'train', not '{on}'")
    if labels and not features:
        raise UserError("--labels belong to --features: name them, too")
    if not directories and (clients is not None or round != "last"):
        raise UserError("--clients and --round choose models of a run: name its directory")
    found: list[Diagnosis] = []
    if directories:
        found += _runs(directories, _wanted(round, clients, on), Trust(files=trust))
    if features:
        found += _features(features, labels or [])
    if model is not None:
        settings |= {"model": _named(settings, "model", model), **_data(settings, data)}
        spoken = said(words or []) | {model, str(data)}
        found += _models(settings, Trust(spoken, files=trust), weights, layer=layer, on=on)
    _tell(found, picture, json=json)


def _named(settings: dict[str, Any], key: str, name: str) -> dict[str, Any]:
    options = settings.get(key, {})
    return {**options, "name": name} if isinstance(options, dict) else {"name": name}


def _data(settings: dict[str, Any], data: str | None) -> dict[str, Any]:
    if data is None and "data" not in settings:
        raise UserError("--model needs images to see: name a data set by --data ('feddecorr list data' shows them)")
    return {} if data is None else {"data": _named(settings, "data", data)}


def _wanted(round: str, clients: str | None, on: str) -> Wanted:  # noqa: A002 - the option's name
    from feddecorr.runs.recomputing import Wanted  # noqa: PLC0415 - PyTorch is loaded when it is needed

    if round != "last" and not round.isdecimal():
        raise UserError(f"--round is 'last' or a number, not '{round}'")
    chosen = None
    if clients not in (None, "all"):
        parts = read_list(clients)
        if not parts or not all(part.isdecimal() for part in parts):
            raise UserError(f"--clients is 'all' or numbers with commas between, such as 0,3, not '{clients}'")
        chosen = [int(part) for part in parts]
    return Wanted(None if round == "last" else int(round), clients is not None, chosen, on)


def _runs(directories: Sequence[Path], wanted: Wanted, trust: Trust) -> Iterator[Diagnosis]:
    from feddecorr.report.runs_page import name_directories  # noqa: PLC0415
    from feddecorr.runs.directory import RunDirectory  # noqa: PLC0415
    from feddecorr.runs.recomputing import describe, diagnose_run  # noqa: PLC0415 - PyTorch is loaded when it is needed

    runs = [RunDirectory.open(directory) for directory in directories]
    for name, run in zip(name_directories(directories), runs, strict=True):
        title = name if len(runs) == 1 else f"{name} ({describe(run)})"
        yield from diagnose_run(run, wanted, title, say, trust=trust)


def _features(files: Sequence[Path], labels: Sequence[Path]) -> Iterator[Diagnosis]:
    from feddecorr.collapse.feature_files import diagnose_features  # noqa: PLC0415 - PyTorch is loaded when it is needed

    if len(labels) > 1 and len(labels) != len(files):
        raise UserError(
            f"{len(labels)} files of labels for {len(files)} of features: give one for all, or one for each"
        )
    paired: list[Path | None] = [*labels] if labels else [None]
    if len(paired) == 1:
        paired *= len(files)
    yield from diagnose_features(list(zip(files, paired, strict=True)))


def _models(
    settings: dict[str, Any], trust: Trust, weights: Sequence[Path] | None, *, layer: str | None, on: str
) -> Iterator[Diagnosis]:
    from feddecorr.runs.model_files import diagnose_stored  # noqa: PLC0415
    from feddecorr.settings.experiment import Experiment  # noqa: PLC0415 - PyTorch is loaded when it is needed

    experiment = Experiment.parse(settings, trust)
    files: list[Path | None] = [*weights] if weights else [None]
    for file in files:
        yield diagnose_stored(experiment, file, layer=layer, on=on)


def _tell(found: Sequence[Diagnosis], picture: Path, *, json: bool) -> None:
    from feddecorr.collapse.answer import rows  # noqa: PLC0415
    from feddecorr.collapse.diagnosis import find_reference  # noqa: PLC0415 - PyTorch is loaded when it is needed
    from feddecorr.report.diagnosis_page import write_diagnosis  # noqa: PLC0415

    write_diagnosis(found, picture)
    answers = [each.answer(find_reference(each, found)) for each in found]
    if json:
        documents = [{**each.to_dict(), "answer": said} for each, said in zip(found, answers, strict=True)]
        print_json({**documents[0], "picture": str(picture.resolve()), "others": documents[1:]})
        return
    if len(found) == 1:
        print_table(["measure", "value", "what it is"], rows(found[0]), title=found[0].name)
    else:
        told = {name for name in COLUMNS.values() if any(getattr(each, name) is not None for each in found)}
        known = {heading: name for heading, name in COLUMNS.items() if name in told}
        lines = [[each.name, *(number(getattr(each, name), 3) for name in known.values())] for each in found]
        print_table(["model", *known], lines)
    print_text("")
    for sentences in answers:
        print_text("\n".join(sentences))
    say(f"picture: {picture.resolve()}")
