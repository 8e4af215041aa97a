"""A reverse proxy that exposes only the SuperLink's Fleet API, which SuperNodes use.

Flower's node authentication lets only registered keys connect as SuperNodes. But the Fleet, Control and Runtime APIs
share one port, and the open-source SuperLink has no flag that authenticates users of the Control API or disables it:
anyone who reaches the port can register a key or start a run. So the SuperLink listens on the loopback, and this proxy
faces the network. Any other reverse proxy can do the same; this one needs no further program, and the tests run it.
"""

from __future__ import annotations

import re
import ssl
from pathlib import Path

import httpx
import uvicorn
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

OPEN_PATHS = re.compile(r"/v1/fleet/[a-z-]+|/health")
"""The paths that SuperNodes use."""

MAX_BODY = 1 << 26
"""Size limit of a request: Flower sends chunks of five megabytes."""

HOP_BY_HOP = (b"host", b"connection", b"transfer-encoding", b"content-length", b"keep-alive")
"""Headers of a single connection, which a proxy does not forward."""


class FleetProxy:
    """An ASGI app that forwards requests to open paths and refuses all others."""

    def __init__(self, superlink: str, ca: Path) -> None:
        context = ssl.create_default_context(cafile=str(ca))
        self._client = httpx.AsyncClient(base_url=f"https://{superlink}", verify=context, timeout=120)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        response = await self._respond(Request(scope, receive))
        await response(scope, receive, send)

    async def _respond(self, request: Request) -> Response:
        path = request.scope["raw_path"].decode("ascii", errors="replace").partition("?")[0]
        if not OPEN_PATHS.fullmatch(path):
            return Response("this path is closed", 403)
        body = bytearray()
        async for chunk in request.stream():
            body += chunk
            if len(body) > MAX_BODY:
                return Response("too large", 413)
        headers = [(name, value) for name, value in request.headers.raw if name not in HOP_BY_HOP]
        try:
            found = await self._client.request(request.method, path, content=bytes(body), headers=headers)
        except httpx.HTTPError:
            return Response("the SuperLink does not respond", 502)
        response = Response(found.content, found.status_code)
        dropped = (*HOP_BY_HOP, b"content-encoding")  # httpx has decoded the body
        response.raw_headers += [
            (name.lower(), value) for name, value in found.headers.raw if name.lower() not in dropped
        ]
        return response


def serve(superlink: str, *, ca: Path, certfile: Path, keyfile: Path, address: tuple[str, int]) -> None:
    """Serve until the process ends."""
    host, port = address
    uvicorn.run(
        FleetProxy(superlink, ca),
        host=host,
        port=port,
        ssl_certfile=str(certfile),
        ssl_keyfile=str(keyfile),
        lifespan="off",
        log_level="warning",
    )
