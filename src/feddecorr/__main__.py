"""The command `feddecorr`."""


def main() -> None:
    """Run the command line; it is imported only here, so that worker processes don't load it."""
    from feddecorr.cli import app  # noqa: PLC0415 - see above

    app()


if __name__ == "__main__":
    main()
