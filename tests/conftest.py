import signal
from collections.abc import Iterator

import plotly.graph_objects as go
import pytest
from command_line import CommandLine
from hypothesis import settings
from plotly.io import templates

settings.register_profile("loaded machine", deadline=None)  # how quick a law holds depends on who else computes
settings.load_profile("loaded machine")

# Shells start what runs in the background with interrupts ignored, and the commands that tests interrupt inherit it.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def feddecorr(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> CommandLine:
    """Return the command line, in this process."""
    return CommandLine(capsys, monkeypatch)


@pytest.fixture(scope="module")
def plain_look() -> Iterator[None]:
    """Draw without plotly's templates: they never change, and copying them is half of the work of drawing."""
    look, default = templates["plotly_white"], templates.default
    templates["plotly_white"], templates.default = go.layout.Template(), "none"
    yield
    templates["plotly_white"], templates.default = look, default
