"""A reverse proxy that exposes only the SuperLink's Fleet API, which SuperNodes use.

Flower's node authentication lets only registered keys connect as SuperNodes. But the Fleet, Control and Runtime APIs
share one port, and the open-source SuperLink has no flag that authenticates users of the Control API or disables it:
anyone who reaches the port can register a key or start a run. So the SuperLink listens on the loopback, and this proxy
faces the network. Any other reverse proxy can do the same; this one needs no further program, and the tests run it.
"""

from __future__ import annotations

import re
import ssl
from collections.abc import Awaitable, Callable, MutableMapping
from pathlib import Path
from typing import Any

import httpx
import uvicorn

OPEN_PATHS = re.compile(r"/v1/fleet/[a-z-]+|/health")
"""The paths that SuperNodes use."""

MAX_BODY = 1 << 26
"""Size limit of a request: Flower sends chunks of five megabytes."""

HOP_BY_HOP = (b"host", b"connection", b"transfer-encoding", b"content-length", b"keep-alive")
"""Headers of a single connection, which a proxy does not forward."""

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]


class FleetProxy:
    """An ASGI app that forwards requests to open paths and refuses all others."""

    def __init__(self, superlink: str, ca: Path) -> None:
        context = ssl.create_default_context(cafile=str(ca))
        self._client = httpx.AsyncClient(base_url=f"https://{superlink}", verify=context, timeout=120)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http":
            raise RuntimeError(f"the proxy handles http requests, not {scope['type']}")
        path = scope["raw_path"].decode("ascii", errors="replace").partition("?")[0]
        if not OPEN_PATHS.fullmatch(path):
            await _respond(send, 403, b"this path is closed")
            return
        body = bytearray()
        while True:
            message = await receive()
            body += message.get("body", b"")
            if len(body) > MAX_BODY:
                await _respond(send, 413, b"too large")
                return
            if not message.get("more_body"):
                break
        headers = [(name, value) for name, value in scope["headers"] if name not in HOP_BY_HOP]
        try:
            response = await self._client.request(scope["method"], path, content=bytes(body), headers=headers)
        except httpx.HTTPError:
            await _respond(send, 502, b"the SuperLink does not respond")
            return
        dropped = (*HOP_BY_HOP, b"content-encoding")  # httpx has decoded the body
        kept = [(name.lower(), value) for name, value in response.headers.raw if name.lower() not in dropped]
        await _respond(send, response.status_code, response.content, kept)


async def _respond(send: Send, status: int, body: bytes, headers: list[tuple[bytes, bytes]] | None = None) -> None:
    await send({"type": "http.response.start", "status": status, "headers": headers or []})
    await send({"type": "http.response.body", "body": body})


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
