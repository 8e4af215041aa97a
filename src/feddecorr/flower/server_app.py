"""The ServerApp of a deployed federation: a run like any other, whose clients are on SuperNodes."""

from __future__ import annotations

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Begin the run that the app describes, or go on with it."""
    from feddecorr.flower.serving import serve  # noqa: PLC0415 - PyTorch is loaded when it is needed

    serve(grid, context.run_config)
