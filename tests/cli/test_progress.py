from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from io import StringIO

import pytest
from rich.console import Console

from feddecorr.cli import console as console_module
from feddecorr.cli import progress as progress_module
from feddecorr.cli.progress import Progress, ShownRun, duration, follow, follow_runs
from feddecorr.sweeps.status import Running, Status

HALF = Status(total=4, done=1, failed=1, running=[Running("fedavg seed 0", 3, 20)], elsewhere=1, left=150.0)
END = Status(total=4, done=3, failed=1, running=[], elsewhere=0, left=0.0)


@dataclass
class Clock:
    """Time that passes on demand."""

    now: float = 1000.0

    def __call__(self) -> float:
        return self.now


@dataclass(frozen=True)
class Round:
    round: int
    accuracy: float | None


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(time, "monotonic", clock)
    return clock


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> StringIO:
    """Give the test a terminal, and return what is written to it."""
    written = StringIO()
    console = Console(file=written, force_terminal=True, width=120)
    monkeypatch.setattr(progress_module, "messages", lambda: console)
    monkeypatch.setattr(progress_module, "say", console.print)
    return written


def test_lines_come_now_and_then_with_the_time_left(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    """Of 100 steps of a second each: the first, one every three seconds, the last; each with what is left."""
    with Progress() as progress:
        for done in range(101):
            progress("walking", done, 100)
            clock.now += 1
    out, err = capsys.readouterr()
    lines = err.splitlines()
    assert lines[:3] == ["walking: 0 %", "walking: 3 %, 97 s left", "walking: 6 %, 94 s left"]
    assert lines[-1] == "walking: 100 %"
    assert len(lines) == 1 + 33 + 1
    assert not out


@pytest.mark.parametrize(("seconds", "words"), [(30, "30 s"), (119, "119 s"), (120, "2 min"), (9000, "2 h 30 min")])
def test_long_times_are_reported_in_larger_units(
    clock: Clock, capsys: pytest.CaptureFixture[str], seconds: int, words: str
) -> None:
    with Progress() as progress:
        progress("half", 0, 2)
        clock.now += seconds
        progress("half", 1, 2)
    assert capsys.readouterr().err.splitlines()[-1] == f"half: 50 %, {words} left"


def test_what_was_done_before_does_not_count_as_fast_work(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    """A download that goes on at 80 % and takes 10 s for the next 10 % needs another 10 s."""
    with Progress() as progress:
        progress("downloading", 80, 100)
        clock.now += 10
        progress("downloading", 90, 100)
    assert capsys.readouterr().err.splitlines()[-1] == "downloading: 90 %, 10 s left"


def test_every_new_work_is_named_at_once(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    """Files come one after the other, with a clock each; what cannot be measured is a line of its own."""
    with Progress() as progress:
        progress("unpacking", 0, 0)
        progress("one", 1, 10)
        clock.now += 1
        progress("two", 5, 10)
        clock.now += 4
        progress("two", 6, 10)
    assert capsys.readouterr().err.splitlines() == ["unpacking", "one: 10 %", "two: 50 %", "two: 60 %, 16 s left"]


def test_what_is_quick_stays_silent(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    with Progress(silence=5) as progress:
        progress("quick", 1, 10)
        clock.now += 4.9
        progress("quick", 10, 10)
        assert not capsys.readouterr().err
        clock.now += 0.1
        progress("slow", 1, 10)
    assert capsys.readouterr().err.splitlines() == ["slow: 10 %"]


def test_a_run_tells_its_rounds_and_the_last_known_accuracy(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    """A run that goes on after round 2 has the time of the rounds since then; not every round is evaluated."""

    def rounds() -> Iterator[Round]:
        for number, accuracy in [(3, 0.25), (4, None), (5, 0.5)]:
            clock.now += 10
            yield Round(number, accuracy)

    follow(rounds(), title="a", done=2, rounds=5)
    assert capsys.readouterr().err.splitlines() == [
        "a: round 2/5",
        "a: round 3/5, accuracy 25.0 %, 20 s left",
        "a: round 4/5, accuracy 25.0 %, 10 s left",
        "a: round 5/5, accuracy 50.0 %",
    ]


def test_a_terminal_shows_a_bar_for_each_work(clock: Clock, terminal: StringIO) -> None:
    """The names may hold anything, also what looks like a style."""
    with Progress() as progress:
        progress("[bold]one", 0, 4)
        clock.now += 6
        progress("[bold]one", 3, 4)
        progress("two", 1, 1, "round 1/1")
    one, two = (line for line in terminal.getvalue().splitlines()[-3:] if "━" in line)
    assert "[bold]one" in one
    assert "75 %, 2 s left" in one
    assert "round 1/1" in two


def test_a_quick_work_draws_no_bar(clock: Clock, terminal: StringIO) -> None:
    with Progress(silence=5) as progress:
        progress("quick", 1, 1)
    assert clock.now == 1000
    assert not terminal.getvalue()


@pytest.fixture
def screen(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> StringIO:
    """Return what is written to standard error, which is a terminal if the test asks for one."""
    stream = StringIO()
    shown = Console(file=stream, force_terminal=request.param, width=200, soft_wrap=True)
    monkeypatch.setattr(console_module, "messages", lambda: shown)
    monkeypatch.setattr(progress_module, "messages", lambda: shown)
    return stream


@pytest.mark.parametrize("screen", [True, False], indirect=True)
def test_progress_says_what_is_done_running_failed_elsewhere_and_left(screen: StringIO) -> None:
    with follow_runs("small") as tell:
        tell(HALF)
    text = screen.getvalue()
    for part in ("small", "1 failed", "fedavg seed 0 in round 3 of 20", "1 by another process", "2 min"):
        assert part in text


@pytest.mark.parametrize("screen", [False], indirect=True)
def test_elsewhere_than_in_a_terminal_lines_come_now_and_then_and_at_the_end(screen: StringIO, clock: Clock) -> None:
    with follow_runs("small") as tell:
        for seconds, status in ((0, HALF), (1, HALF), (4, HALF), (6, HALF), (1, END), (1, END)):
            clock.now += seconds
            tell(status)
    lines = screen.getvalue().splitlines()
    assert len(lines) == 3
    assert lines[-1] == "small: 3 of 4 runs done, 1 failed"


@pytest.mark.parametrize("screen", [False], indirect=True)
def test_lack_of_memory_is_reported(screen: StringIO) -> None:
    with follow_runs("small") as tell:
        tell(Status(total=2, done=0, failed=0, running=[], elsewhere=0, left=None, short_of_memory=True))
    assert screen.getvalue() == "small: 0 of 2 runs done, memory allows no more at once\n"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.4, "0 s"), (119, "119 s"), (121, "2 min"), (5340, "89 min"), (9000, "2 h 30 min"), (3e5, "3.5 days")],
)
def test_a_time_is_reported_in_the_units_that_matter(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_a_long_round_is_shown_from_its_first_step_on(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    """With what is left of the whole run; nothing before there is a step, and no more than the round."""
    trained = 0.0
    with Progress() as progress:
        shown = ShownRun(progress, "a", 0, 2, lambda: trained)
        for trained in (0.0, 0.25, 0.5, 1.5):
            clock.now += 10 * (trained > 0)
            shown.look()
        shown.finish(Round(1, 0.5))
        clock.now += 10
        trained = 1.75
        shown.look()
    assert capsys.readouterr().err.splitlines() == [
        "a: round 0/2",
        "a: round 1/2, 25 % of it, 70 s left",
        "a: round 1/2, 50 % of it, 60 s left",
        "a: round 1/2, 100 % of it, 30 s left",
        "a: round 2/2, 25 % of it, accuracy 50.0 %, 24 s left",
    ]


def test_lines_about_one_round_become_rare(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    trained = [0.0]
    with Progress() as progress:
        shown = ShownRun(progress, "a", 0, 1, lambda: trained[0])
        for second in range(1, 10_000):
            clock.now += 1
            trained[0] = second / 10_000
            shown.look()
    assert 50 < len(capsys.readouterr().err.splitlines()) < 200
