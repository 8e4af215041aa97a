"""What a run keeps of its data, beside the roster."""

from __future__ import annotations

from feddecorr.core.registry import Config


class AboutData(Config):
    """The file `federation.json`: what a reader of results has to know, and digests that tell other data apart."""

    note: str
    classes: tuple[str, ...]
    clients: int
    data: str | None
    split: str | None
