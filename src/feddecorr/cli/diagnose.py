"""The command that says whether a model has collapsed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from feddecorr.cli.console import JsonOption, TrustOption, number, percent, print_json, print_table, print_text, say
from feddecorr.config.overrides import read_overrides, said
from feddecorr.core.text import read_list
from feddecorr.core.trust import Trust
from feddecorr.errors import UserError

if TYPE_CHECKING:
    from feddecorr.collapse.diagnosis import Diagnosis
    from feddecorr.report.page import Section
    from feddecorr.runs.diagnosis import Examination, Wanted


def diagnose(  # noqa: PLR0913, PLR0917 - one parameter for each option of the command
    words: Annotated[
        list[str] | None,
        typer.Argument(metavar="[DIR]... [KEY=VALUE]...", help="Runs; settings for --model and --data."),
    ] = None,
    features: Annotated[
        list[Path] | None,
        typer.Option(help="Features, (samples, features): npy, npz, safetensors, csv or parquet; repeatable."),
    ] = None,
    labels: Annotated[
        list[Path] | None, typer.Option(help="Their labels: one file for all, or one for each file of features.")
    ] = None,
    model: Annotated[str | None, typer.Option(help="A model by name, or your own as package.module:build.")] = None,
    weights: Annotated[
        list[Path] | None, typer.Option(help="Its weights: safetensors or torch.save; repeatable.")
    ] = None,
    data: Annotated[str | None, typer.Option(help="The data set to run the model on.")] = None,
    layer: Annotated[str | None, typer.Option(help="The layer whose input is the representation.")] = None,
    round: Annotated[str, typer.Option(help="Of runs: 'last' or a number.")] = "last",  # noqa: A002 - the option's name
    clients: Annotated[
        str | None, typer.Option(help="Of runs: also local models, '0,3' or 'all', which ranks them, too.")
    ] = None,
    averaging: Annotated[
        bool, typer.Option("--averaging", help="Of runs: compare all local models with their average.")
    ] = False,
    layers: Annotated[bool, typer.Option("--layers", help="With --averaging: also layer by layer.")] = False,
    updates: Annotated[
        bool, typer.Option("--updates", help="Of runs: also the ranks and the alignment of what clients changed.")
    ] = False,
    on: Annotated[str, typer.Option(help="Which images: 'test' or 'train'.")] = "test",
    statistics: Annotated[
        str, typer.Option(help="BatchNorm statistics: the 'model's own, or those of each 'batch'.")
    ] = "model",
    picture: Annotated[Path, typer.Option(help="HTML file for the picture of the spectra.")] = Path("diagnosis.html"),
    trust: TrustOption = False,
    json: JsonOption = False,
) -> None:
    r"""Has my model collapsed? In numbers, words and a picture, for any number of models side by side.

    Runs: the newest global model is stored; local models are retrained for one round, to the same bits. An older
    round takes as long as the run took to reach it.

        feddecorr diagnose runs/a runs/b --clients all
        feddecorr diagnose runs/a --round 5 --clients 0,3 --on train
        feddecorr diagnose runs/a --averaging --layers
        feddecorr diagnose --updates runs/a

    Features of any framework, and any PyTorch model:

        feddecorr diagnose --features z.npy --labels y.npy
        feddecorr diagnose --model my_module:build --weights w.safetensors \
            --data cifar10

    The representation is the input of the classifier, or of --layer. docs/diagnosis.md explains the measures.
    """
    directories = [Path(word) for word in words or [] if "=" not in word or Path(word).is_dir()]
    settings = read_overrides([word for word in words or [] if Path(word) not in directories])
    of_models = bool(directories) or model is not None
    refuse_if(
        {
            "nothing to diagnose: name a run, --features FILE, or --model NAME --data NAME": not of_models
            and not features,
            "--weights, --data, --layer and settings need --model": model is None
            and bool(weights or data or layer or settings),
            f"--on is 'test' or 'train', not '{on}'": on not in ("test", "train"),
            f"--statistics is 'model' or 'batch', not '{statistics}'": statistics not in ("model", "batch"),
            "--statistics is for models, not for features": statistics == "batch" and not of_models,
            "--labels needs --features": bool(labels) and not features,
            "--clients, --round, --averaging and --updates are for models of a run: name its directory": not directories
            and (clients is not None or round != "last" or averaging or updates),
            "--layers needs --averaging": layers and not averaging,
        }
    )
    rounds: list[Examination] = []
    if directories:
        wanted = _wanted(round, clients)
        wanted = replace(wanted, on=on, statistics=statistics, averaging=averaging, layers=layers, updates=updates)
        rounds += _runs(directories, wanted, Trust(files=trust))
    found: list[Diagnosis] = [diagnosis for each in rounds for diagnosis in each.diagnoses]
    if features:
        found += _features(features, labels or [])
    if model is not None:
        settings = model_settings(settings, model, data)
        spoken = said(words or []) | {model, str(data)}
        found += _models(settings, Trust(spoken, files=trust), weights, layer=layer, on=on, statistics=statistics)
    _print(found, rounds, picture, json=json)


def refuse_if(problems: Mapping[str, bool]) -> None:
    """Raise the first of the problems, if any."""
    for message, there in problems.items():
        if there:
            raise UserError(message)


def model_settings(settings: dict[str, Any], model: str, data: str | None) -> dict[str, Any]:
    """Return the settings with a model and data that were named by options."""

    def with_name(key: str, name: str) -> dict[str, Any]:
        options = settings.get(key, {})
        return {**options, "name": name} if isinstance(options, dict) else {"name": name}

    if data is None and "data" not in settings:
        raise UserError("--model needs --data: name a data set ('feddecorr list data' shows them)")
    named = {"model": with_name("model", model)} | ({} if data is None else {"data": with_name("data", data)})
    return settings | named


def _wanted(round: str, clients: str | None) -> Wanted:  # noqa: A002 - the option's name
    from feddecorr.runs.diagnosis import Wanted

    if round != "last" and not round.isdecimal():
        raise UserError(f"--round is 'last' or a number, not '{round}'")
    chosen = None
    if clients not in (None, "all"):
        parts = read_list(clients)
        if not parts or not all(part.isdecimal() for part in parts):
            raise UserError(f"--clients is 'all' or a list such as 0,3, not '{clients}'")
        chosen = [int(part) for part in parts]
    return Wanted(None if round == "last" else int(round), clients is not None, chosen)


def _runs(directories: Sequence[Path], wanted: Wanted, trust: Trust) -> Iterator[Examination]:
    from feddecorr.report.runs_page import name_directories
    from feddecorr.runs.diagnosis import examine
    from feddecorr.runs.directory import RunDirectory
    from feddecorr.runs.recompute import describe

    runs = [RunDirectory.open(directory) for directory in directories]
    for name, run in zip(name_directories(directories), runs, strict=True):
        title = name if len(runs) == 1 else f"{name} ({describe(run)})"
        yield examine(run, wanted, title, say, trust=trust)


def _features(files: Sequence[Path], labels: Sequence[Path]) -> Iterator[Diagnosis]:
    from feddecorr.data.features import diagnose_features

    if len(labels) > 1 and len(labels) != len(files):
        raise UserError(f"{len(labels)} label files for {len(files)} feature files: give one for all, or one for each")
    paired: list[Path | None] = [*labels] if labels else [None]
    if len(paired) == 1:
        paired *= len(files)
    yield from diagnose_features(list(zip(files, paired, strict=True)))


def _models(settings: dict[str, Any], trust: Trust, weights: Sequence[Path] | None, **look: Any) -> Iterator[Diagnosis]:
    from feddecorr.runs.diagnosis import diagnose_stored
    from feddecorr.settings.flat import parse_settings

    parsed = parse_settings(settings, trust)
    files: list[Path | None] = [*weights] if weights else [None]
    for file in files:
        yield diagnose_stored(*parsed, file, **look)


COLUMNS = {
    "accuracy": "accuracy",
    "effective rank": "effective_rank",
    "possible": "maximum_rank",
    "significant": "significant_singular_values",
    "for 99 %": "dimensions_for_99_percent",
    "participation ratio": "participation_ratio",
    "collapse score": "collapse_score",
    "NC1": "nc1_variability",
    "CKA": "linear_cka",
}


def _print(found: Sequence[Diagnosis], rounds: Sequence[Examination], picture: Path, *, json: bool) -> None:
    """Write the page, and print all models and rounds as tables and words, or as one JSON document."""
    from feddecorr.collapse.diagnosis import find_reference
    from feddecorr.report.diagnosis_page import write_diagnosis

    write_diagnosis(found, picture, list(_sections(rounds)))
    references = [find_reference(each, found) for each in found]
    answers = [each.answer(reference) for each, reference in zip(found, references, strict=True)]
    if json:
        documents = [
            {**each.to_dict(), "verdict": each.verdict(reference), "answer": answer}
            for each, reference, answer in zip(found, references, answers, strict=True)
        ]
        further = {"picture": str(picture.resolve()), "others": documents[1:], **_documents(rounds)}
        print_json({**documents[0], **further})
        return
    _print_models(found)
    print_text("")
    for answer in answers:
        print_text("\n".join(answer))
    for each in rounds:
        _print_round(each)
    say(f"picture: {picture.resolve()}")


def _print_models(found: Sequence[Diagnosis]) -> None:
    from feddecorr.collapse.diagnosis import rows

    if len(found) == 1:
        print_table(["measure", "value", "what it is"], rows(found[0]), title=found[0].name)
        return
    known = {
        heading: name for heading, name in COLUMNS.items() if any(getattr(each, name) is not None for each in found)
    }
    lines = [
        [
            each.name,
            *(
                percent(each.accuracy) if name == "accuracy" else number(getattr(each, name), 3)
                for name in known.values()
            ),
        ]
        for each in found
    ]
    print_table(["model", *known], lines)


def _print_round(found: Examination) -> None:
    if found.averaging is not None:
        print_text("")
        print_table(found.averaging.HEADINGS, found.averaging.rows())
        if found.averaging.layers:
            print_text("")
            print_table(found.averaging.LAYER_HEADINGS, found.averaging.layer_rows())
        print_text("")
        print_text("\n".join(found.averaging.answer()))
    if found.updates is not None:
        print_text("")
        print_table(found.updates.HEADINGS, found.updates.rows())
        print_text("")
        print_text("\n".join(found.updates.answer()))
    if found.blame is not None:
        print_text("")
        print_table(found.blame.HEADINGS, found.blame.rows())
        print_text("")
        print_text("\n".join(found.blame.answer()))


def _documents(rounds: Sequence[Examination]) -> dict[str, Any]:
    """Return one document for each run, where there is any."""
    averaged = [each.averaging.to_dict() for each in rounds if each.averaging is not None]
    blamed = [each.blame.to_dict() for each in rounds if each.blame is not None]
    updated = [each.updates.to_dict() for each in rounds if each.updates is not None]
    return {
        name: found for name, found in {"averaging": averaged, "blame": blamed, "updates": updated}.items() if found
    }


def _sections(rounds: Sequence[Examination]) -> Iterator[Section]:
    from feddecorr.report.diagnosis_page import averaging_sections, blame_section, updates_section

    for each in rounds:
        if each.averaging is not None:
            yield from averaging_sections(each.averaging)
        if each.updates is not None:
            yield updates_section(each.updates)
        if each.blame is not None:
            yield blame_section(each.blame)
