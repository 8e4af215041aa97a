"""The command that tells how much privacy a run has spent, or will spend."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from feddecorr.cli.console import JsonOption, print_json, print_text, say
from feddecorr.config.overrides import read_overrides
from feddecorr.core.trust import CLOSED


def privacy(
    words: Annotated[
        list[str] | None,
        typer.Argument(metavar="DIR | [FILE.toml] [KEY=VALUE]...", help="A run, or the settings of one to come."),
    ] = None,
    delta: Annotated[float | None, typer.Option(help="By default 1 over ten times the number of clients.")] = None,
    json: JsonOption = False,
) -> None:
    """Tell how much differential privacy of clients a run has spent, or will spend.

    Example:  feddecorr privacy clients=1000 participation=0.05 rounds=100 transforms=private

    Example:  feddecorr privacy runs/a --delta 1e-5
    """
    from feddecorr.runs.directory import RunDirectory  # noqa: PLC0415
    from feddecorr.server.accounting import privacy_spent  # noqa: PLC0415
    from feddecorr.settings.flat import parse_settings  # noqa: PLC0415 - PyTorch is loaded when it is needed
    from feddecorr.transforms.private import Privacy  # noqa: PLC0415

    said = words or []
    if len(said) == 1 and Path(said[0]).is_dir():
        run = RunDirectory.open(said[0])
        experiment, rounds = run.settings()[0], run.finished_rounds()
    else:
        experiment, options = parse_settings(read_overrides(said), CLOSED)
        rounds = options.rounds
    spent = privacy_spent(experiment, rounds, delta)
    if json:
        print_json(spent.to_dict())
        return
    guarantee = f"epsilon {spent.epsilon:.3f} at delta {spent.delta:.3g}"
    print_text(f"{guarantee} after {spent.rounds} rounds: {spent.neighbours}")
    if spent.epsilon_if_drawn != spent.epsilon:
        say(f"for a client that is known to have been in every round, epsilon is {spent.epsilon_if_drawn:.3f}")
    for name, transform in experiment.transforms.items():
        if isinstance(transform, Privacy) and transform.seed is not None:
            say(f"transforms.{name}.seed={transform.seed}: whoever knows it can take the noise away")
