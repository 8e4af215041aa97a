"""What a study has found, as plain values: for the terminal, for JSON, and for a page with pictures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from feddecorr.report.picture import Array, Picture


@dataclass(frozen=True)
class StudyContent:
    """The outcome of a study: a document ready for JSON, its table, its pictures, and all that was measured."""

    title: str
    lead: str
    document: Mapping[str, Any]
    headings: Sequence[str]
    rows: Sequence[Sequence[str]]
    pictures: Sequence[Picture]
    arrays: Mapping[str, Array]
