"""The whole command line: the package's commands, and the paper's own studies, claims and theory."""

from feddecorr.cli import app, main
from feddecorr.paper.commands.claims import claims
from feddecorr.paper.commands.plan import plan
from feddecorr.paper.commands.reproduce import reproduce
from feddecorr.paper.commands.theory import theory_app

app.command()(plan)
app.command()(reproduce)
app.command()(claims)
app.add_typer(theory_app, name="theory")

__all__ = ["app", "main"]
