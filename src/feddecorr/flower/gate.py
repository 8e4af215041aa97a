"""A reverse proxy in front of a SuperLink: SuperNodes pass, whoever would give it orders does not.

Flower's node authentication lets only registered keys connect as SuperNodes. But whoever reaches the SuperLink's
Control API may register a key, or start a run; all APIs share one port. Behind this gate, only the Fleet API is
reached from outside, and the SuperLink itself listens on the loopback.
"""

from __future__ import annotations

import re
import ssl
from collections.abc import Awaitable, Callable, MutableMapping
from pathlib import Path
from typing import Any

import httpx
import uvicorn

OPEN = re.compile(r"/v1/fleet/[a-z-]+|/health")
"""The paths that SuperNodes use."""

LARGEST = 1 << 26
"""Bytes of one request: Flower cuts what it sends into pieces of five megabytes."""

OWN = (b"host", b"connection", b"transfer-encoding", b"content-length", b"keep-alive")
"""Headers that concern one connection only."""

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]


class Gate:
    """Hands on requests to open paths, and refuses all others."""

    def __init__(self, superlink: str, authority: Path) -> None:
        context = ssl.create_default_context(cafile=str(authority))
        self._client = httpx.AsyncClient(base_url=f"https://{superlink}", verify=context, timeout=120)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, as ASGI servers ask for it."""
        if scope["type"] != "http":
            raise RuntimeError(f"a gate knows requests of http, not {scope['type']}")
        path = scope["raw_path"].decode("ascii", errors="replace").partition("?")[0]
        if not OPEN.fullmatch(path):
            await _answer(send, 403, b"this path is closed")
            return
        body = bytearray()
        while True:
            message = await receive()
            body += message.get("body", b"")
            if len(body) > LARGEST:
                await _answer(send, 413, b"too large")
                return
            if not message.get("more_body"):
                break
        headers = [(name, value) for name, value in scope["headers"] if name not in OWN]
        try:
            answer = await self._client.request(scope["method"], path, content=bytes(body), headers=headers)
        except httpx.HTTPError:
            await _answer(send, 502, b"the SuperLink does not answer")
            return
        closed = (*OWN, b"content-encoding")  # what comes from there is read already
        kept = [(name.lower(), value) for name, value in answer.headers.raw if name.lower() not in closed]
        await _answer(send, answer.status_code, answer.content, kept)


async def _answer(send: Send, status: int, body: bytes, headers: list[tuple[bytes, bytes]] | None = None) -> None:
    await send({"type": "http.response.start", "status": status, "headers": headers or []})
    await send({"type": "http.response.body", "body": body})


def stand(superlink: str, *, authority: Path, certificate: Path, key: Path, address: tuple[str, int]) -> None:
    """Serve until the process is ended."""
    host, port = address
    uvicorn.run(
        Gate(superlink, authority),
        host=host,
        port=port,
        ssl_certfile=str(certificate),
        ssl_keyfile=str(key),
        lifespan="off",
        log_level="warning",
    )
