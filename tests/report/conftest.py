"""The browser."""

from browsers import browser

__all__ = ["browser"]
