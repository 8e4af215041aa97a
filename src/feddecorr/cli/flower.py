"""Commands about Flower: write an app, run it, clean up, and expose only the Fleet API."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import typer

from feddecorr.cli.console import Commands, JsonOption, TrustOption, Words, print_json, print_result, print_text, say
from feddecorr.config.overrides import said
from feddecorr.core.trust import Trust
from feddecorr.errors import RunError, UserError

flower_app = typer.Typer(
    cls=Commands,
    help="Deploy a federation on Flower.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

COLOURS = re.compile(r"\x1b\[[\d;]*m")
"""Flower's log has them even without a terminal."""

AppFolder = Annotated[Path, typer.Argument(metavar="DIR", help="Folder of the Flower app.")]


@flower_app.command()
def app(
    directory: AppFolder,
    words: Words = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="Directory of the run, on the ServerApp's machine; by default in runs/."),
    ] = None,
    test: Annotated[
        str, typer.Option(metavar="DATA", help="Data set whose test images the server evaluates on, if any.")
    ] = "",
    trust: TrustOption = False,
    json: JsonOption = False,
) -> None:
    r"""Write an experiment as a Flower app: a pyproject.toml that names our components, with nothing to install.

    Each SuperNode says which client it is and where its images are:
    flower-supernode … --node-config "client=3 data='folder:/srv/pictures'"; without data, it takes its part of
    the experiment's data set. 'feddecorr flower run DIR' or 'flwr run DIR' starts or resumes the run.

        feddecorr flower app apps/a data=nodes clients=3 method=scaffold \
            regularizers=feddecorr
    """
    from feddecorr.deployment.app import write_app
    from feddecorr.flower.engine import Flower
    from feddecorr.settings.flat import parse_settings, to_settings
    from feddecorr.settings.options import ENGINES
    from feddecorr.settings.short_keys import read_settings

    trusted = Trust(said(words or []), files=trust)
    settings = read_settings(words or [], {"engine": {"name": "flower"}}, trusted)
    experiment, options = parse_settings(settings, trusted)
    if not isinstance(options.engine, Flower):
        raise UserError(f"engine={ENGINES.name(options.engine)}: an app runs on Flower; leave the engine out")
    out = (out or Path("runs") / f"{experiment.label()}-{experiment.digest()[:16]}").absolute()
    write_app(directory, experiment, options, out=out, test=test)
    if json:
        print_json({"app": str(directory), "run": str(out), "experiment": to_settings(experiment, options)})
        return
    print_text(f"{directory}: a Flower app for {experiment.clients} clients; its run will be in {out}")
    say(f"'feddecorr flower run {directory}' starts it, on the SuperLink of your Flower configuration.")


@flower_app.command()
def run(
    directory: AppFolder,
    superlink: Annotated[str | None, typer.Argument(help="Name of the SuperLink in Flower's configuration.")] = None,
    json: JsonOption = False,
) -> None:
    """Run an app like 'flwr run', show its log, and exit with 1 if the run fails.

    For example:

        feddecorr flower run apps/a lab
    """
    from feddecorr.deployment.app import run_app

    status = run_app(directory, superlink, lambda line: say(COLOURS.sub("", line)))
    if status != "finished:completed":
        raise RunError(f"Flower reports the run as {status}")
    print_result(f"{directory}: {status}", {"app": str(directory), "status": status}, json=json)


@flower_app.command()
def clean(
    memory: Annotated[
        Path | None, typer.Option(metavar="DIR", help="The node's memory, as in its --node-config.")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Remove the files; by default, they are only listed.")] = False,
    json: JsonOption = False,
) -> None:
    """List what this user's nodes keep on disk (clients' memories, decoded pictures), and remove it with --yes.

    Without its memory, a client cannot continue a run of SCAFFOLD or FedDyn; pictures are decoded again when needed.
    Other files are left alone.

        feddecorr flower clean --memory /var/lib/feddecorr
    """
    from feddecorr.data.cache import cache_folder
    from feddecorr.flower.node import DEFAULT_MEMORY, find_files, remove_files

    place = (memory or DEFAULT_MEMORY).expanduser().absolute()
    files = list(find_files(place, cache_folder()))
    sizes = {str(file): file.stat().st_size for file in files}
    if yes:
        remove_files(files, place)
    if json:
        print_json({"removed": yes, "files": sizes})
        return
    for name, size in sizes.items():
        print_text(f"{name}  {size} bytes")
    print_text(f"{len(sizes)} files, {sum(sizes.values())} bytes{': removed' if yes else ''}")
    if files and not yes:
        say("use --yes to remove them")


@flower_app.command()
def proxy(
    superlink: Annotated[str, typer.Argument(help="Address of the SuperLink on the loopback, host:port.")],
    ca: Annotated[Path, typer.Option(help="Certificate of the authority that signed the SuperLink's.")],
    certfile: Annotated[Path, typer.Option(help="Certificate to show to SuperNodes.")],
    keyfile: Annotated[Path, typer.Option(help="Its private key.")],
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "0.0.0.0",  # noqa: S104 - it faces the network
    port: Annotated[int, typer.Option(min=1, max=65535, help="Port to listen on.")] = 9443,
) -> None:
    r"""Expose only a SuperLink's Fleet API: SuperNodes can connect, nobody can register keys or start runs.

    In front of a SuperLink that listens on the loopback alone:

        feddecorr flower proxy 127.0.0.1:8443 --ca ca.crt \
            --certfile server.crt --keyfile server.key
    """
    from feddecorr.flower.fleet_proxy import serve

    for file in (ca, certfile, keyfile):
        if not file.is_file():
            raise UserError(f"there is no file {file}")
    say(f"SuperNodes can connect to {host}:{port}; only the Fleet API of {superlink} is exposed")
    serve(superlink, ca=ca, certfile=certfile, keyfile=keyfile, address=(host, port))
