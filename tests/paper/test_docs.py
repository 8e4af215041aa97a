"""What the pages about studies and claims say is true."""

import re
from pathlib import Path

import pytest

from feddecorr.paper.claims import COMPUTATION, MEASURED, PROPOSITION, THEOREM
from feddecorr.paper.scales import SCALE_OF
from feddecorr.paper.studies import STUDIES

DOCS = Path(__file__).parents[2] / "docs"
STUDIES_PAGE = (DOCS / "studies.md").read_text()
CLAIMS_PAGE = (DOCS / "claims.md").read_text()

SENTENCES = {number: sentence for number, (sentence, _, _) in MEASURED.items()} | {
    "14": COMPUTATION,
    "16": THEOREM,
    "17": PROPOSITION,
}


def test_the_page_lists_every_study_in_its_order() -> None:
    """With its place in the paper and what it shows."""
    rows = re.findall(r"^\| `([a-z][a-z0-9-]+)` \| ([^|]+) \| ([^|]+) \|$", STUDIES_PAGE, flags=re.MULTILINE)
    listed = [row for row in rows if row[0] not in SCALE_OF]
    assert listed == [(study.name, study.place, study.shows) for study in STUDIES.values()]


@pytest.mark.parametrize("name", SCALE_OF)
def test_the_page_lists_every_scale(name: str) -> None:
    """With its number of seeds."""
    (row,) = [line for line in STUDIES_PAGE.splitlines() if line.startswith(f"| `{name}` |") and line.count("|") == 4]
    assert row.endswith(f"| {SCALE_OF[name].seeds} |")


def test_the_rule_book_has_every_claim() -> None:
    """In their order, with the sentences of the answer, and then our own findings."""
    rows = re.findall(r"^\| (\d+) \| (.+?) \| .+ \|$", CLAIMS_PAGE, flags=re.MULTILINE)
    findings = re.findall(r"\*\*(F\d+), (.+?)\.\*\*", CLAIMS_PAGE)
    assert [int(number) for number, _ in rows] == list(range(1, len(rows) + 1))
    assert dict([*rows, *findings]) == SENTENCES
