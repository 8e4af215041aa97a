"""Commands of the theory: each runs one study of it, with the settings that its words say."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

from feddecorr.cli.console import Commands, JsonOption, Words, print_json, print_table, print_text, say
from feddecorr.cli.progress import Progress
from feddecorr.config.overrides import read_overrides
from feddecorr.errors import UserError

if TYPE_CHECKING:
    import click

    from feddecorr.core.registry import Config
    from feddecorr.paper.theory.network import ProgressCallback
    from feddecorr.report.picture import StudyContent


def settings_of(name: str) -> type[Config]:
    """Return the settings of a command."""
    from feddecorr.paper import theory_settings  # noqa: PLC0415 - models take time to build

    found: dict[str, type[Config]] = {
        "flow": theory_settings.Flow,
        "sweep": theory_settings.ClassSweep,
        "alignment": theory_settings.Alignment,
        "decorrelate": theory_settings.Decorrelate,
    }
    return found[name]


SECONDS_OF_SILENCE = 5.0
"""A study that is done by then shows no progress."""

OutOption = Annotated[
    Path | None, typer.Option("--out", "-o", help="Directory for a page, its pictures, and all figures.")
]

theory_app = typer.Typer(
    cls=Commands,
    help="The paper's theory, made to run: gradient flow of deep linear networks.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


class StudyCommand(TyperCommand):
    """A command whose help ends with the settings of its study, their defaults and what they are."""

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the settings below the options."""
        fields = settings_of(str(self.name)).model_fields
        rows = [(name + _default(field.default), field.description or "") for name, field in fields.items()]
        with formatter.section("Settings and their defaults"):
            formatter.write_dl(rows)
        super().format_epilog(ctx, formatter)


def _default(value: object) -> str:
    """Write a default as a word would say it; none where it depends on other settings."""
    if value is None:
        return ""
    return f"={','.join(map(str, value))}" if isinstance(value, tuple) else f"={value}"


TEACHES: dict[str, str] = {
    "flow": """Watch the theorem hold: integrate the gradient flow and compare growth with prediction.

    Two flows, with balanced and with imbalanced classes. For every singular value of the product of the first
    L layers and every recorded time, the measured growth is compared with Theorem 1 and with Lemma 2.

        feddecorr theory flow layers=3 imbalance=0.05 --out theory-flow
    """,
    "sweep": """From all classes to one: how the ranks of G, of the product and of the representations fall together.

    For example:

        feddecorr theory sweep classes=5 --out theory-sweep
    """,
    "alignment": """See whether Assumption 2 holds: the singular vectors of a linear network that learns real images.

    MNIST has to be there already ('feddecorr data get mnist'); the digits come with the package.

        feddecorr theory alignment data=digits epochs=3,5 --out theory-digits
    """,
    "decorrelate": """Add the FedDecorr term to the flow: the small singular values now grow.

    For example:

        feddecorr theory decorrelate beta=6.4 --out theory-decorrelate
    """,
}
"""The help of each command."""


def _add(name: str) -> None:
    def command(words: Words = None, out: OutOption = None, json: JsonOption = False) -> None:
        settings = _read(settings_of(name), words, out)
        from feddecorr.paper.theory.studies import STUDIES  # noqa: PLC0415 - solvers are loaded when they are needed

        _carry_out(STUDIES[type(settings)], settings, out, json=json)

    command.__doc__ = TEACHES[name]
    theory_app.command(name, cls=StudyCommand)(command)


for each in TEACHES:
    _add(each)


def _read(kind: type[Config], words: list[str] | None, out: Path | None) -> Config:
    """Return the settings; refuse what is wrong before anything is computed."""
    if out and out.exists() and not out.is_dir():
        raise UserError(f"--out {out} is a file: choose a directory")
    settings = kind.parse(read_overrides(words or []))
    if out:
        out.mkdir(parents=True, exist_ok=True)  # a directory that cannot be written fails before anything is computed
    return settings


def _carry_out(
    study: Callable[[Any, ProgressCallback], StudyContent], settings: Config, out: Path | None, *, json: bool
) -> None:
    from feddecorr.report.page import write_study  # noqa: PLC0415 - plotly is loaded when it is needed
    from feddecorr.report.printed import is_available  # noqa: PLC0415

    name = type(settings).__name__.lower()
    with Progress(silence=SECONDS_OF_SILENCE) as progress:
        found = study(settings, lambda share: progress(name, share, 1))
    files = write_study(found, out) if out else []
    if files and not is_available():
        say("pictures as SVG files need matplotlib: pip install 'feddecorr[figures]'")
    if json:
        print_json({**found.document, "files": [str(file) for file in files]})
        return
    print_text(found.lead)
    print_table(found.headings, found.rows)
    if files:
        print_text(f"page: {files[0].resolve()}")
    else:
        say("--out DIR writes a page with pictures.")
