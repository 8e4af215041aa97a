"""How far a study has come, for whoever wants to hear it."""

from __future__ import annotations

from collections.abc import Callable

Listener = Callable[[float], None]
"""Hears which share of the work is done, from 0 to 1."""


def nobody(_share: float) -> None:
    """Hear nothing."""


def part(listener: Listener, start: float, stop: float) -> Listener:
    """Return the listener for a part of the work, which goes from one share of the whole to another."""

    def hear(share: float) -> None:
        listener(start + share * (stop - start))

    return hear
