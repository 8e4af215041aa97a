"""A page on this machine only: no file is ever named by who asks, and no other site's script can ask."""

from __future__ import annotations

import sys
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from plotly.offline import get_plotlyjs

from feddecorr.errors import UserError

LOOPBACK = "127.0.0.1"
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self' 'unsafe-inline'; style-src 'unsafe-inline'; "
    "img-src data: blob:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
"""The page may load nothing from elsewhere, and nobody may load it from elsewhere."""

Current = Callable[[], tuple[str, str]]
"""Returns a mark of what is to be shown now, and the page."""


def open_server(current: Current, port: int = 0) -> ThreadingHTTPServer:
    """Return a server that is bound to the loopback; port 0 is any that is free."""

    class Handler(_Handler):
        page = staticmethod(current)

    try:
        return _Server((LOOPBACK, port), Handler)
    except OSError as error:
        raise UserError(f"port {port} cannot be had ({error}): leave out --port, or name another") from error


def address(server: ThreadingHTTPServer) -> str:
    """Return where the page is."""
    return f"http://{LOOPBACK}:{server.server_port}/"


class _Server(ThreadingHTTPServer):
    """Takes no notice of readers who go away in the middle of an answer, as a closed tab does."""

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say what went wrong, unless the reader is gone."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    """Knows two addresses, the page and the library that draws it; everything else is not there."""

    page: Current
    server: ThreadingHTTPServer
    server_version = "feddecorr"
    sys_version = ""
    timeout = 60

    def do_GET(self) -> None:
        """Answer with the page, or with nothing if the reader has it already."""
        port = self.server.server_port
        # A name of another site may be made to lead here (DNS rebinding): its scripts would read what we say.
        if self.headers.get("Host") not in {f"{LOOPBACK}:{port}", f"localhost:{port}"}:
            self._answer(HTTPStatus.FORBIDDEN, "text/plain", "this server answers to the address that it printed only")
        elif self.path == "/":
            mark, html = self.page()
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
        """Say nothing: the page asks every second."""
