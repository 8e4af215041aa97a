"""The command `feddecorr`."""

import atexit
import gc


def main() -> None:
    """Run the command line; it is imported only here, so that worker processes don't load it.

    In the end, what was imported is not looked through for garbage: for PyTorch alone that takes half a second.
    """
    atexit.register(gc.freeze)
    from feddecorr.cli import main as run_command_line  # noqa: PLC0415 - see above

    run_command_line()


if __name__ == "__main__":
    main()
