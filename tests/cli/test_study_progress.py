import io

import pytest
from rich.console import Console

from feddecorr.cli import console, study_progress
from feddecorr.cli.study_progress import duration, follow_runs
from feddecorr.sweeps.status import Running, Status

HALF = Status(total=4, done=1, failed=1, running=[Running("fedavg seed 0", 3, 20)], elsewhere=1, left=100.0)
END = Status(total=4, done=3, failed=1, running=[], elsewhere=0, left=0.0)


@pytest.fixture
def screen(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> io.StringIO:
    """Return what is written to standard error, which is a terminal if the test asks for one."""
    stream = io.StringIO()
    shown = Console(file=stream, force_terminal=request.param, width=200, soft_wrap=True)
    monkeypatch.setattr(console, "messages", lambda: shown)
    monkeypatch.setattr(study_progress, "messages", lambda: shown)
    return stream


@pytest.mark.parametrize("screen", [True, False], indirect=True)
def test_progress_says_what_is_done_running_failed_elsewhere_and_left(screen: io.StringIO) -> None:
    with follow_runs("small") as tell:
        tell(HALF)
    text = screen.getvalue()
    for part in ("small", "1 failed", "fedavg seed 0 in round 3 of 20", "1 by another process", "2 min"):
        assert part in text


@pytest.mark.parametrize("screen", [False], indirect=True)
def test_elsewhere_than_in_a_terminal_lines_come_now_and_then_and_at_the_end(
    screen: io.StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = iter([100.0, 101.0, 105.0, 111.0, 112.0])
    monkeypatch.setattr("feddecorr.cli.study_progress.monotonic", lambda: next(clock))
    with follow_runs("small") as tell:
        for status in (HALF, HALF, HALF, HALF, END):
            tell(status)
    lines = screen.getvalue().splitlines()
    assert len(lines) == 3
    assert lines[-1] == "small: 3 of 4 runs done, 1 failed"


@pytest.mark.parametrize("screen", [False], indirect=True)
def test_lack_of_memory_is_told(screen: io.StringIO) -> None:
    with follow_runs("small") as tell:
        tell(Status(total=2, done=0, failed=0, running=[], elsewhere=0, left=None, short_of_memory=True))
    assert screen.getvalue() == "small: 0 of 2 runs done, memory allows no more at once\n"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(None, "–"), (0.4, "0 s"), (89, "89 s"), (91, "2 min"), (5340, "89 min"), (9000, "2 h 30 min"), (3e5, "3.5 days")],
)
def test_a_time_is_told_in_the_units_that_matter(seconds: float | None, text: str) -> None:
    assert duration(seconds) == text
