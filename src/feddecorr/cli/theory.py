"""Commands of the theory: each runs one study of it. The options are the fields of the study's settings."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from types import NoneType
from typing import TYPE_CHECKING, Annotated, Any, get_args

import typer
from pydantic import ValidationError

from feddecorr.cli.console import JsonOption, print_json, print_table, print_text, say
from feddecorr.errors import UserError
from feddecorr.settings.kinds import Kind, explain
from feddecorr.theory.settings import Alignment, Decorrelate, Flow, Sweep

if TYPE_CHECKING:
    from feddecorr.report.study_page import Study

OutOption = Annotated[Path | None, typer.Option(help="Directory for a page, its pictures, and all figures.")]

theory_app = typer.Typer(
    help="The paper's theory, made to run: gradient flow of deep linear networks.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


def _command(kind: type[Kind]) -> Callable[[Callable[[Any], Study]], Callable[[Any], Study]]:
    """Make a study a command with an option for each field of its settings, and --out and --json."""

    def decorate(study: Callable[[Any], Study]) -> Callable[[Any], Study]:
        def command(out: Path | None, json: bool, **options: Any) -> None:
            try:
                settings = kind.model_validate(options)
            except ValidationError as error:
                raise UserError(explain(error)) from error
            if out and out.exists() and not out.is_dir():
                raise UserError(f"--out {out} is a file: choose a directory")
            _tell(study(settings), out, json=json)

        hints = {name: _option(kind, name) for name in kind.model_fields} | {"out": OutOption, "json": JsonOption}
        defaults = {name: _default(kind, name) for name in kind.model_fields} | {"out": None, "json": False}
        only = inspect.Parameter.KEYWORD_ONLY
        parameters = [inspect.Parameter(name, only, default=defaults[name], annotation=hints[name]) for name in hints]
        command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # what typer reads
        command.__annotations__ = hints
        command.__doc__ = study.__doc__
        theory_app.command(study.__name__)(command)
        return study

    return decorate


def _option(kind: type[Kind], name: str) -> Any:
    """Return the option of a field: numbers as such, all else as text that the settings read."""
    field = kind.model_fields[name]
    parts = {field.annotation, *get_args(field.annotation)}
    parts |= {part for nested in parts for part in get_args(nested)}
    number = next((plain for plain in (int, float) if plain in parts), str)
    kept = str if isinstance(field.default, tuple) else number
    return Annotated[kept | None if NoneType in parts else kept, typer.Option(help=field.description)]


def _default(kind: type[Kind], name: str) -> Any:
    default = kind.model_fields[name].default
    return ",".join(map(str, default)) if isinstance(default, tuple) else default


def _tell(study: Study, out: Path | None, *, json: bool) -> None:
    files = study.write(out) if out else []
    if json:
        print_json({**study.document, "files": [str(file) for file in files]})
        return
    print_text(study.lead)
    print_table(study.headings, study.rows)
    if files:
        print_text(f"page: {files[0].resolve()}")
    else:
        say("--out DIR writes a page with pictures.")


@_command(Flow)
def flow(settings: Flow) -> Study:
    """Watch the theorem hold: integrate the gradient flow and compare growth with prediction.

    Two flows, with balanced and with imbalanced classes. For every singular value of the product of the first
    L layers and every recorded time, the measured growth is compared with Theorem 1 and with Lemma 2.

    Example:  feddecorr theory flow --layers 3 --imbalance 0.05 --out theory-flow
    """
    from feddecorr.theory.studies.flow import study_flow  # noqa: PLC0415 - solvers are loaded when they are needed

    return study_flow(settings)


@_command(Sweep)
def sweep(settings: Sweep) -> Study:
    """From all classes to one: how the ranks of G, of the product and of the representations fall together.

    Example:  feddecorr theory sweep --out theory-sweep
    """
    from feddecorr.theory.studies.sweep import study_sweep  # noqa: PLC0415 - see flow

    return study_sweep(settings)


@_command(Alignment)
def alignment(settings: Alignment) -> Study:
    """See whether Assumption 2 holds: the singular vectors of a linear network that learns real images.

    MNIST has to be there already ('feddecorr data get mnist'); the digits come with the package.

    Example:  feddecorr theory alignment --data digits --out theory-alignment
    """
    from feddecorr.theory.studies.alignment import study_alignment  # noqa: PLC0415 - see flow

    return study_alignment(settings, tell=say)


@_command(Decorrelate)
def decorrelate(settings: Decorrelate) -> Study:
    """Add the FedDecorr term to the flow: the small singular values now grow.

    Example:  feddecorr theory decorrelate --beta 6.4 --out theory-decorrelate
    """
    from feddecorr.theory.studies.decorrelate import study_decorrelate  # noqa: PLC0415 - see flow

    return study_decorrelate(settings)
