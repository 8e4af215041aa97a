import signal

import pytest
from command_line import CommandLine
from hypothesis import settings

settings.register_profile("loaded machine", deadline=None)  # how quick a law holds depends on who else computes
settings.load_profile("loaded machine")

# Shells start what runs in the background with interrupts ignored, and the commands that tests interrupt inherit it.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def feddecorr(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> CommandLine:
    """Return the command line, in this process."""
    return CommandLine(capsys, monkeypatch)
