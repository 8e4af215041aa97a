"""The page of runs in progress, rendered again after each finished round, and its server on the loopback."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Lock
from typing import Any

from plotly.offline import get_plotlyjs

from feddecorr.errors import UserError
from feddecorr.report.page import Section, render_page
from feddecorr.report.runs_page import LEAD, group_seeds, name_directories, sections, switches
from feddecorr.results.study import plan_files, read_plan
from feddecorr.results.summary import Summary, run_directories
from feddecorr.runs.directory import RunDirectory

MARKED = ("experiment.json", "weights.safetensors")
"""Files that change when a run begins, continues with more rounds, or finishes one."""

HEADINGS = ("run", "rounds", "last finished round")


@dataclass(frozen=True)
class _RunState:
    """A run as it was when its files had that mark, and what cannot be read of it."""

    mark: str
    summary: Summary | None = None
    problem: str = ""


class LivePage:
    """The page of all runs in some folders; nothing is ever written.

    Whether a process is working on a run cannot be known without taking its lock, so the page shows when a round was
    last finished.
    """

    def __init__(self, folders: Sequence[Path]) -> None:
        for folder in folders:
            if not folder.is_dir():
                raise UserError(f"{folder} is not a directory: name a run, or a folder in which runs are or will be")
        self._folders = folders
        self._seen: dict[Path, _RunState] = {}
        self._page = "", ""
        self._lock = Lock()

    def current(self) -> tuple[str, str]:
        """Return a mark of all that is shown, and the page; runs that did not change are not read again."""
        with self._lock:
            paths = (path.resolve() for folder in self._folders for path in run_directories(folder))
            marks = {path: _mark(path) for path in paths}
            plans = {plan: _stamp(plan) for plan in plan_files(self._folders)}
            mark = hashlib.sha256(repr([sorted(marks.items()), sorted(plans.items())]).encode()).hexdigest()[:16]
            if mark != self._page[0]:
                before = {path: seen for path, seen in self._seen.items() if seen.mark == marks.get(path)}
                self._seen = {path: before.get(path) or _look(path, marks[path]) for path in marks}
                self._page = mark, self._render(mark, plans)
            return self._page

    def _render(self, mark: str, plans: Iterable[Path]) -> str:
        named = dict(zip(name_directories(list(self._seen)), self._seen.items(), strict=True))
        shown = {name: seen.summary for name, (_, seen) in named.items() if seen.summary and seen.summary.rounds}
        lines = group_seeds(shown, whole=False)
        runs = {name: RunDirectory(named[name][0]) for name in shown}
        rows, problems = self._progress(named, plans)
        found = [Section("Progress", "" if rows else "There is no run yet.", headings=HEADINGS, rows=rows)]
        try:
            found.extend(sections(lines, runs) if lines else ())
        except (UserError, OSError) as error:  # of a file that cannot be read
            problems.append(str(error))
        if problems:
            found.append(Section("What cannot be shown", "; ".join(problems)))
        return render_page("Runs, round by round", LEAD, found, switches=switches(lines), live=mark)

    def _progress(
        self, named: Mapping[str, tuple[Path, _RunState]], plans: Iterable[Path]
    ) -> tuple[list[list[str]], list[str]]:
        """Return a row for each run, those that are planned first and in their order, and what is wrong with plans."""
        by_digest = {path.name: (path, seen) for path, seen in named.values()}
        rows, problems, planned = [], [], set()
        for file in plans:
            try:
                runs = read_plan(file)
            except UserError as error:
                problems.append(str(error))
                continue
            for run in runs:
                far = _far(*by_digest[run.digest]) if run.digest in by_digest else [f"0 of {run.rounds}", ""]
                rows.append([run.name, *far])
                planned.add(run.digest)
        rows += [[name, *_far(path, seen)] for name, (path, seen) in named.items() if path.name not in planned]
        return rows, problems


def _mark(run: Path) -> str:
    """Return a text that changes with the run, without reading its files."""
    return "; ".join(filter(None, [_stamp(run / name) for name in MARKED]))


def _stamp(file: Path) -> str:
    """Return a text that changes with the file; of one that is not there, nothing."""
    try:
        found = file.lstat()
    except OSError:
        return ""
    return f"{found.st_mtime_ns} {found.st_size} {found.st_ino}"


def _look(path: Path, mark: str) -> _RunState:
    """Read a run; one that is broken, or being removed, does not hide the others."""
    try:
        run = RunDirectory.open(path)
        summary, _ = Summary.of(run), run.roster()
    except Exception as error:  # it may be a stranger's: whatever is wrong with it is shown in its row
        return _RunState(mark, problem=str(error))
    lost = run.finished_rounds() - len(summary.rounds)
    return _RunState(mark, summary, f"lines of {lost} rounds cannot be read" if lost > 0 else "")


def _far(path: Path, seen: _RunState) -> list[str]:
    if seen.summary is None:
        return [seen.problem, ""]
    done, wanted = len(seen.summary.rounds), seen.summary.options["rounds"]
    far = f"{done} of {wanted}" + (f" ({seen.problem})" if seen.problem else "")
    try:
        when = datetime.fromtimestamp((path / "weights.safetensors").lstat().st_mtime).astimezone()
    except (OSError, ValueError, OverflowError):
        return [far, ""]
    return [far, f"{when:%Y-%m-%d %H:%M:%S}"]


LOOPBACK = "127.0.0.1"
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self' 'unsafe-inline'; style-src 'unsafe-inline'; "
    "img-src data: blob:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
"""The page may load nothing from other origins, nor be loaded by them."""

Current = Callable[[], tuple[str, str]]
"""Returns a mark of what is to be shown now, and the page."""


def open_server(current: Current, port: int = 0) -> ThreadingHTTPServer:
    """Return a server that is bound to the loopback; port 0 is any that is free."""
    try:
        return _PageServer(current, port)
    except OSError as error:
        raise UserError(f"port {port} cannot be had ({error}): leave out --port, or name another") from error


def address(server: ThreadingHTTPServer) -> str:
    """Return the page's URL."""
    return f"http://{LOOPBACK}:{server.server_port}/"


class _PageServer(ThreadingHTTPServer):
    def __init__(self, current: Current, port: int) -> None:
        super().__init__((LOOPBACK, port), _PageHandler)
        self.current = current

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Report errors, but not that a reader went away in the middle of an answer, as a closed tab does."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


class _PageHandler(BaseHTTPRequestHandler):
    """Serves the page and plotly, and nothing else."""

    server: _PageServer
    server_version = "feddecorr"
    sys_version = ""
    timeout = 60

    def do_GET(self) -> None:
        """Answer with the page, or with 304 if the reader has it already."""
        port = self.server.server_port
        # The name of another site may resolve to this machine (DNS rebinding): its scripts could read the page.
        if self.headers.get("Host") not in {f"{LOOPBACK}:{port}", f"localhost:{port}"}:
            self._answer(HTTPStatus.FORBIDDEN, "text/plain", "this server answers to the address that it printed only")
        elif self.path == "/":
            mark, html = self.server.current()
            if self.headers.get("If-None-Match") == f'"{mark}"':
                self._answer(HTTPStatus.NOT_MODIFIED, mark=mark)
            else:
                self._answer(HTTPStatus.OK, "text/html", html, mark=mark)
        elif self.path == "/plotly.js":
            self._answer(HTTPStatus.OK, "text/javascript", get_plotlyjs())
        else:
            self._answer(HTTPStatus.NOT_FOUND, "text/plain", "there is nothing here")

    def _answer(self, status: HTTPStatus, kind: str = "", text: str = "", *, mark: str = "") -> None:
        content = text.encode()
        self.send_response(status)
        for name, value in HEADERS.items():
            self.send_header(name, value)
        if kind:
            self.send_header("Content-Type", f"{kind}; charset=utf-8")
            self.send_header("Content-Length", str(len(content)))
        if mark:
            self.send_header("ETag", f'"{mark}"')
            self.send_header("Cache-Control", "no-cache")
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - as the library has it
        """Log nothing: the page asks every second."""
