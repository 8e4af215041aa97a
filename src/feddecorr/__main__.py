"""The command `feddecorr`."""


def main() -> None:
    """Run the command line; it is imported only here, so that worker processes don't load it."""
    from feddecorr.cli import main as run_command_line  # noqa: PLC0415 - see above

    run_command_line()


if __name__ == "__main__":
    main()
