"""How worker processes are started; light to import, so that it can happen while PyTorch is imported."""

from __future__ import annotations

import multiprocessing
import sys
from functools import cache
from multiprocessing.context import ForkServerContext, SpawnContext


@cache
def context() -> ForkServerContext | SpawnContext:
    """Return the way to start processes.

    On Linux, workers are forked from a server process that has imported everything once: they start at once
    and share its memory. Elsewhere forking is not safe, and each worker imports for itself.
    """
    if not sys.platform.startswith("linux"):
        return multiprocessing.get_context("spawn")
    forkserver = multiprocessing.get_context("forkserver")
    forkserver.set_forkserver_preload(["feddecorr.settings.experiment", "feddecorr.engines.preloaded"])
    return forkserver


def warm_up() -> None:
    """Let the server process begin with its imports now, before it is needed."""
    if context().get_start_method() == "forkserver":
        from multiprocessing.forkserver import ensure_running  # noqa: PLC0415 - not there on every platform

        ensure_running()
