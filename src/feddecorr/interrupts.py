"""Ctrl-C where libraries would swallow it."""

from __future__ import annotations

import signal
import sys
import threading
import time
from types import FrameType

AGAIN = 0.05
"""Seconds until an interrupt that came too early is looked at again."""

PATIENCE = 10.0
"""Seconds after which it ends an import, too."""


_came: list[float] = []


def have_come() -> bool:
    """Return whether there was an interrupt: libraries turn it into errors of theirs if it meets a call from them."""
    return bool(_came)


def wait_for_imports() -> None:
    """Let interrupts wait for the end of an import that is under way.

    Extension modules drop the exception of an interrupt, or turn it into an import error, if it comes while they are
    set up (NumPy and PyTorch do): the command would go on, or end with words that explain nothing. What ignores
    interrupts, as shells arrange for what runs in the background, goes on to do so. (Windows has no way to repeat one.)
    """
    if sys.platform != "win32" and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _interrupt)


def _interrupt(number: int, frame: FrameType | None) -> None:
    _came.append(time.monotonic())
    if not _is_import(frame) or _came[-1] - _came[0] > PATIENCE:
        raise KeyboardInterrupt
    again = threading.Timer(AGAIN, signal.pthread_kill, [threading.main_thread().ident, number])
    again.daemon = True
    again.start()


def _is_import(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_filename == "<frozen importlib._bootstrap>":
            return True
        frame = frame.f_back
    return False
