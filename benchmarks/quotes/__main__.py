"""Write into all pages what they quote, draw the pictures of recorded runs, and write the package's table of them."""

from __future__ import annotations

from benchmarks.quotes.drawn import draw
from benchmarks.quotes.places import fill
from benchmarks.quotes.records import ROOT
from benchmarks.references import FILE, text

FILE.write_text(text())  # pages quote diagnoses, which compare with it
for page in (*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").glob("*.md"))):
    before = page.read_text()
    if (filled := fill(before)) != before:
        page.write_text(filled)
        print(f"{page.relative_to(ROOT)}: written anew")
draw()
