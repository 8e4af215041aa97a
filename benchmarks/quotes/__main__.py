"""Write into all pages what they quote, and draw the pictures of recorded runs."""

from __future__ import annotations

from benchmarks.quotes.drawn import draw
from benchmarks.quotes.places import fill
from benchmarks.quotes.records import ROOT

for page in (*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").glob("*.md"))):
    text = page.read_text()
    if (filled := fill(text)) != text:
        page.write_text(filled)
        print(f"{page.relative_to(ROOT)}: written anew")
draw()
