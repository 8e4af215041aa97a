import pytest
from command_line import CommandLine


@pytest.fixture
def feddecorr(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> CommandLine:
    """Return the command line, in this process."""
    return CommandLine(capsys, monkeypatch)
