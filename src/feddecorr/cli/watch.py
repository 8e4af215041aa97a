"""The command that shows runs while they go on."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from feddecorr.cli.console import JsonOption, print_json, print_text, say


def watch(
    directories: Annotated[list[Path], typer.Argument(metavar="DIR...", help="Runs, or folders of runs.")],
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port on this machine; 0 is any that is free.")] = 0,
    show: Annotated[bool, typer.Option("--open", help="Open the page in the browser, too.")] = False,
    json: JsonOption = False,
) -> None:
    """Show runs in the browser while they go on: the report's figures, anew whenever a round is finished.

    Runs that begin in a folder later join by themselves. Only this machine can see the page; Ctrl-C ends it.

    Example:  feddecorr watch runs
    """
    from feddecorr.report.live import (  # noqa: PLC0415
        LivePage,
        address,
        open_server,
    )

    page = LivePage(directories)
    with open_server(page.current, port) as server:
        place = address(server)
        if json:
            print_json({"address": place})
        else:
            print_text(place)
        sys.stdout.flush()  # who started it waits for the address
        if show:
            import webbrowser  # noqa: PLC0415 - only where it is asked for

            if not webbrowser.open(place):
                say("there is no browser that could be opened")
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            say("ended")
