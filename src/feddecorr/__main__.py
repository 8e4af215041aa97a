"""The command `feddecorr`."""

import atexit
import gc
import os
import sys
from pathlib import Path

from feddecorr.interrupts import wait_for_imports


def main() -> None:
    """Run the command line; it is imported only here, so that worker processes don't load it.

    `python -m feddecorr` looks for modules in the working directory first, and so would all processes that it starts.
    That may be the directory of a stranger's run: it is left out before anything else is imported. In the end, what was
    imported is not looked through for garbage: for PyTorch alone that takes half a second.
    """
    here = Path.cwd()
    if here not in Path(__file__).resolve().parents:  # else it is the source tree
        if not sys.flags.safe_path and sys.path[0] in ("", str(here)):  # what PYTHONPATH names stays
            del sys.path[0]
        os.environ["PYTHONSAFEPATH"] = "1"
    atexit.register(gc.freeze)
    wait_for_imports()
    from feddecorr.cli import main as run_command_line  # noqa: PLC0415 - see above

    run_command_line()


if __name__ == "__main__":
    main()
