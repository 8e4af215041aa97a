"""The page of runs that are under way: the report as far as they have come, made anew when a round was finished."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from threading import Lock

from feddecorr.errors import UserError
from feddecorr.report.page import Section, render_page
from feddecorr.report.runs_page import LEAD, name_directories, sections, switches
from feddecorr.report.seed_groups import group_seeds
from feddecorr.results.summary import Summary, run_directories
from feddecorr.runs.directory import RunDirectory

MARKED = ("experiment.json", "weights.safetensors")
"""What changes when a run begins, goes on with more rounds, or has finished one."""

HEADINGS = ("run", "rounds", "last finished round")


@dataclass(frozen=True)
class _Seen:
    """A run as it was at a mark: what is known of it, and why no more can be known."""

    mark: str
    summary: Summary | None = None
    problem: str = ""


class LivePage:
    """The runs of some folders, and the page that shows them; nothing is ever written.

    Whether a process is at work on a run cannot be told without taking its lock, so the page says when a round was last
    finished instead.
    """

    def __init__(self, folders: Sequence[Path]) -> None:
        for folder in folders:
            if not folder.is_dir():
                raise UserError(f"{folder} is no directory: name a run, or a folder in which runs are or will be")
        self._folders = folders
        self._seen: dict[Path, _Seen] = {}
        self._page = "", ""
        self._lock = Lock()

    def current(self) -> tuple[str, str]:
        """Return a mark of all that is shown, and the page; runs that did not move are not read again."""
        with self._lock:
            marks = {path: _mark(path) for path in self._directories()}
            mark = hashlib.sha256(repr(sorted(marks.items())).encode()).hexdigest()[:16]
            if mark != self._page[0]:
                known = {path: self._seen.get(path) for path in marks}
                self._seen = {
                    path: seen if seen and seen.mark == marks[path] else _look(path, marks[path])
                    for path, seen in known.items()
                }
                self._page = mark, self._render(mark)
            return self._page

    def _directories(self) -> list[Path]:
        return list(dict.fromkeys(path.resolve() for folder in self._folders for path in run_directories(folder)))

    def _render(self, mark: str) -> str:
        named = dict(zip(name_directories(list(self._seen)), self._seen.items(), strict=True))
        shown = {name: seen.summary for name, (_, seen) in named.items() if seen.summary and seen.summary.rounds}
        lines = group_seeds(shown)
        runs = {name: RunDirectory(named[name][0]) for name in shown}
        rows = [[name, *_progress(path, seen)] for name, (path, seen) in named.items()]
        text = "" if rows else "There is no run yet."
        progress = Section("Progress", text, headings=HEADINGS, rows=rows)
        found = [progress, *_told(sections(lines, runs) if lines else iter(()))]
        return render_page("Runs, round by round", LEAD, found, switches=switches(lines), live=mark)


def _mark(run: Path) -> str:
    """Return what tells states of a run apart, by looking at files from outside only."""
    parts = []
    for name in MARKED:
        try:
            found = (run / name).lstat()
        except OSError:
            continue
        parts.append(f"{found.st_mtime_ns} {found.st_size} {found.st_ino}")
    return "; ".join(parts)


def _look(path: Path, mark: str) -> _Seen:
    """Read a run; one that is broken, or being removed, keeps nobody from seeing the others."""
    try:
        run = RunDirectory.open(path)
        summary, _ = Summary.of(run), run.roster()
    except Exception as error:  # it may be a stranger's: whatever is wrong with it is shown as its own
        return _Seen(mark, problem=str(error))
    lost = run.finished_rounds() - len(summary.rounds)
    return _Seen(mark, summary, f"lines of {lost} rounds cannot be read" if lost > 0 else "")


def _progress(path: Path, seen: _Seen) -> list[str]:
    if seen.summary is None:
        return [seen.problem, ""]
    done, wanted = len(seen.summary.rounds), seen.summary.options["rounds"]
    far = f"{done} of {wanted}" + (f" ({seen.problem})" if seen.problem else "")
    try:
        when = datetime.fromtimestamp((path / "weights.safetensors").lstat().st_mtime).astimezone()
    except (OSError, ValueError, OverflowError):
        return [far, ""]
    return [far, f"{when:%Y-%m-%d %H:%M:%S}"]


def _told(found: Iterator[Section]) -> Iterator[Section]:
    """Yield what can be shown; a file that cannot be read ends it with a sentence, not the page."""
    try:
        yield from found
    except (UserError, OSError) as error:
        yield Section("What cannot be shown", str(error))
