"""How far each field of a diagnosis goes: by default, into what a run records of every round."""

from __future__ import annotations

from dataclasses import Field
from typing import Any

DOCUMENT = {"recorded": False}
"""Metadata of what is only in the document of a whole diagnosis: tables, names."""

MEMORY = {"recorded": False, "written": False}
"""Metadata of what is in no document: matrices and samples."""


def is_recorded(field: Field[Any]) -> bool:
    """Tell whether a run records it in every round."""
    return bool(field.metadata.get("recorded", True))


def is_written(field: Field[Any]) -> bool:
    """Tell whether it is in the document of a whole diagnosis."""
    return bool(field.metadata.get("written", True))
