"""The command that says whether the features are bad or the head."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from feddecorr.cli.console import JsonOption, TrustOption, number, percent, print_json, print_table, print_text, say
from feddecorr.cli.diagnose import model_settings, refuse_if
from feddecorr.config.overrides import read_overrides, said
from feddecorr.core.trust import Trust

if TYPE_CHECKING:
    from feddecorr.collapse.probe import Probed


def probe(  # noqa: PLR0913, PLR0917 - one parameter for each option of the command
    words: Annotated[
        list[str] | None,
        typer.Argument(metavar="[DIR]... [KEY=VALUE]...", help="Runs; settings for --model and --data."),
    ] = None,
    features: Annotated[
        Path | None,
        typer.Option(help="Features to learn from, (samples, features): npy, npz, safetensors, csv or parquet."),
    ] = None,
    labels: Annotated[Path | None, typer.Option(help="Their labels.")] = None,
    test_features: Annotated[
        Path | None, typer.Option(help="Features to test on; without, every fifth of --features is tested.")
    ] = None,
    test_labels: Annotated[Path | None, typer.Option(help="Their labels.")] = None,
    model: Annotated[str | None, typer.Option(help="A model by name, or your own as package.module:build.")] = None,
    weights: Annotated[
        list[Path] | None, typer.Option(help="Its weights: safetensors or torch.save; repeatable.")
    ] = None,
    data: Annotated[str | None, typer.Option(help="The data set to run the model on.")] = None,
    layer: Annotated[str | None, typer.Option(help="The layer whose input is the representation.")] = None,
    trust: TrustOption = False,
    json: JsonOption = False,
) -> None:
    r"""Are the features bad, or is the head? Test new heads on the frozen features.

    A linear head by ridge regression in closed form, and the vote of the 20 nearest neighbours, learn from the
    representations of the training images and are tested on those of the test images, next to the model's own head:

        feddecorr probe runs/a runs/b
        feddecorr probe --model my_module:build --weights w.safetensors \
            --data cifar10

    Features of any framework:

        feddecorr probe --features train.npy --labels train_labels.npy \
            --test-features z.npy --test-labels y.npy

    docs/which-effective-rank.md has the formulas.
    """
    directories = [Path(word) for word in words or [] if "=" not in word or Path(word).is_dir()]
    settings = read_overrides([word for word in words or [] if Path(word) not in directories])
    refuse_if(
        {
            "nothing to probe: name a run, --features FILE, or --model NAME --data NAME": not directories
            and model is None
            and features is None,
            "--weights, --data and settings need --model": model is None and bool(weights or data or settings),
            "--layer is for models, not for features": layer is not None and not directories and model is None,
            "--labels and --test-features need --features": features is None and bool(labels or test_features),
            "--test-labels needs --test-features": test_features is None and test_labels is not None,
        }
    )
    found: list[Probed] = list(_runs(directories, layer, Trust(files=trust)))
    if features is not None:
        from feddecorr.runs.probe import probe_features

        tested = None if test_features is None else (test_features, test_labels)
        found.append(probe_features((features, labels), tested))
    if model is not None:
        from feddecorr.runs.probe import probe_stored
        from feddecorr.settings.flat import parse_settings

        parsed = parse_settings(
            model_settings(settings, model, data), Trust(said(words or []) | {model, str(data)}, files=trust)
        )
        files: list[Path | None] = [*weights] if weights else [None]
        found += [probe_stored(*parsed, file, layer, say) for file in files]
    _print(found, json=json)


def _runs(directories: Sequence[Path], layer: str | None, trust: Trust) -> Iterator[Probed]:
    if not directories:
        return
    from feddecorr.report.runs_page import name_directories
    from feddecorr.runs.directory import RunDirectory
    from feddecorr.runs.probe import probe_run

    runs = [RunDirectory.open(directory) for directory in directories]
    for name, run in zip(name_directories(directories), runs, strict=True):
        yield probe_run(run, name, layer, say, trust=trust)


COLUMNS = {
    "own head": "own",
    "linear probe": "linear",
    "nearest neighbours": "knn",
    "chance": "chance",
    "effective rank": "effective_rank",
}


def _print(found: Sequence[Probed], *, json: bool) -> None:
    """Print all models as a table and words, or as one JSON document."""
    if json:
        documents = [each.to_dict() for each in found]
        print_json({**documents[0], "others": documents[1:]})
        return
    known = {
        heading: name for heading, name in COLUMNS.items() if any(getattr(each, name) is not None for each in found)
    }
    lines = [
        [
            each.name,
            *(
                number(value, 1) if name == "effective_rank" else percent(value)
                for name in known.values()
                for value in [getattr(each, name)]
            ),
        ]
        for each in found
    ]
    print_table(["model", *known], lines)
    print_text("")
    for each in found:
        print_text("\n".join(each.answer()))
