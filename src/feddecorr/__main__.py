"""The command `feddecorr`."""

import atexit
import gc
import os
import sys
from pathlib import Path

from feddecorr import _MISSING
from feddecorr.interrupts import wait_for_imports


def main() -> None:
    """Run the command line; it is imported only here, so that worker processes don't load it.

    A Python that it starts would look for modules in the working directory first, which may be a stranger's: it must
    not, unless this very package lies there. In the end, what was imported is not looked through for garbage: for
    PyTorch alone that takes half a second.
    """
    if Path.cwd() != Path(__file__).resolve().parents[1]:
        os.environ["PYTHONSAFEPATH"] = "1"
    atexit.register(gc.freeze)
    wait_for_imports()
    try:
        from feddecorr.paper.commands import main as run_command_line  # noqa: PLC0415 - see above
    except ModuleNotFoundError as error:
        sys.exit(f"error: the command {_MISSING} ({error})")

    run_command_line()


if __name__ == "__main__":
    main()
