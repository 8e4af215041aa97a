"""The command that trains."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from feddecorr.cli.completing import complete, prepare, tell
from feddecorr.cli.console import JsonOption, TrustOption
from feddecorr.config.overrides import read_overrides, said
from feddecorr.core.trust import Trust

Words = Annotated[
    list[str] | None, typer.Argument(metavar="[FILE.toml] [KEY=VALUE]...", help="Settings; later words win.")
]


def run(
    words: Words = None,
    out: Annotated[Path | None, typer.Option(help="Directory of the run; by default a new one below runs/.")] = None,
    trust: TrustOption = False,
    json: JsonOption = False,
) -> None:
    """Train a federation and keep the run in a directory.

    A bare name chooses a kind, dotted keys set its options ('feddecorr list' shows them all):

        feddecorr run data=digits clients=10 partition=dirichlet partition.alpha=0.05 model=convnet
        regularizers=feddecorr regularizers.feddecorr.beta=0.1 rounds=20 engine=pool --out runs/a

    Rounds, engine, device, evaluation and trackers say how it is run, and everything else what the experiment is:
    runs whose experiments are equal have the same model, bit for bit ('feddecorr list options').

    The same as a TOML file:  feddecorr run experiment.toml seed=1 --out runs/b
    """
    experiment, options = prepare(read_overrides(words or []), Trust(said(words or []), files=trust))
    from feddecorr.runs.pipeline import run as pipeline_run  # noqa: PLC0415 - PyTorch is loaded when it is needed

    out = out or Path("runs") / f"{experiment.label()}-{experiment.digest()[:16]}"
    records = pipeline_run(experiment, options, out)
    complete(records, out, title=out.name, done=0, rounds=options.rounds)
    tell(out, json=json)
