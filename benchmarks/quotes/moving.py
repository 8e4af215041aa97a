"""The moving picture of the README: how the spectra of the demonstration's three runs form, round by round.

    python -m benchmarks.quotes.moving DIR

takes the directory that `feddecorr demo --out DIR` wrote, records its spectra in docs/moving/rounds.json, and draws
docs/moving/spectra.svg, which `make quotes` draws again from the record.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.quotes.first_hour import ARMS, styles
from benchmarks.quotes.records import ROOT
from feddecorr.collapse.spectrum import LOG_TAU, logarithms
from feddecorr.core.text import one_line
from feddecorr.report.picture import DASHES
from feddecorr.runs.directory import RunDirectory, environment

RECORD = ROOT / "docs" / "moving" / "rounds.json"
WIDTH, HEIGHT, LEFT, TOP, BOTTOM = 760, 380, 60, 46, 44
SHOWN, DIGITS = 100, 3
STEP, REST = 0.8, 3.0
"""Seconds of a round, and of the last one."""

PLACES = (0, 185, 455)
"""Where the names of the lines begin."""

SVG_DASHES = {"solid": "none", "dash": "9 5"}

HEAD = f"""<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" font-family="sans-serif" \
font-size="14">
<title>Singular spectra of three runs, round by round</title>
<style>
text {{ fill: #333; }} .axis {{ stroke: #999; }} .paper {{ fill: #fff; }}
@media (prefers-color-scheme: dark) {{ text {{ fill: #ddd; }} .paper {{ fill: #16181c; }} }}
</style>
<rect class="paper" width="{WIDTH}" height="{HEIGHT}"/>"""

Spectra = Mapping[str, Sequence[Sequence[float]]]
"""The logarithms of the singular values by run and round."""


def record(folder: Path) -> None:
    """Write down the spectra of the demonstration."""
    found = {
        name: [[round(value, DIGITS) for value in logarithms(each.singular_values or [], SHOWN)] for each in rounds]
        for name in ARMS
        for rounds in [RunDirectory.open(folder / name).rounds()]
    }
    RECORD.parent.mkdir(parents=True, exist_ok=True)
    RECORD.write_text(json.dumps({"command": "feddecorr demo", "environment": environment(), "spectra": found}) + "\n")


def moving_picture() -> str:
    """Return the picture as SVG that moves by itself, and shows the last round where nothing moves."""
    spectra: Spectra = json.loads(RECORD.read_text())["spectra"]
    values = [value for rounds in spectra.values() for each in rounds for value in each]
    low, high, count = min(values), max(values), max(len(rounds) for rounds in spectra.values())

    def down(value: float) -> float:
        return TOP + (high - value) / (high - low) * (HEIGHT - TOP - BOTTOM)

    def points(each: Sequence[float]) -> str:
        step = (WIDTH - LEFT - 20) / (SHOWN - 1)
        return " ".join(f"{LEFT + place * step:.0f},{down(value):.1f}" for place, value in enumerate(each))

    seconds = STEP * (count - 1) + REST
    times = [STEP * place / seconds for place in range(count)] + [1.0]
    key_times = ";".join(f"{time:.4f}" for time in times)
    parts = [
        HEAD,
        f'<path class="axis" fill="none" d="M{LEFT} {TOP} V{HEIGHT - BOTTOM} H{WIDTH - 20}"/>',
        f'<path class="axis" stroke-dasharray="2 4" d="M{LEFT} {down(LOG_TAU):.1f} H{WIDTH - 20}"/>',
        f'<text x="{LEFT + 6}" y="{down(LOG_TAU) + 16:.1f}" font-size="12">log τ = −2</text>',
        f'<text x="{WIDTH / 2:.0f}" y="{HEIGHT - 12}" text-anchor="middle">k, index of the singular value</text>',
        f'<text x="18" y="{HEIGHT / 2:.0f}" text-anchor="middle" transform="rotate(-90 18 {HEIGHT / 2:.0f})">'
        "log of the k-th singular value</text>",
    ]
    for place, (name, arm) in enumerate(ARMS.items()):
        colour, dash = styles()[arm.whole]
        line = f'fill="none" stroke="{colour}" stroke-width="2.5" stroke-dasharray="{SVG_DASHES[DASHES[dash][1]]}"'
        left = LEFT + 5 + PLACES[place]
        frames = [points(each) for each in spectra[name]]
        parts += [
            f'<polyline {line} points="{frames[-1]}">',
            f'<animate attributeName="points" dur="{seconds:.1f}s" repeatCount="indefinite" keyTimes="{key_times}" '
            f'values="{";".join([*frames, frames[-1]])}"/>',
            "</polyline>",
            f'<path {line} d="M{left} 20 h34"/>',
            f'<text x="{left + 40}" y="25">{one_line(arm.whole)}</text>',
        ]
    for number in range(1, count + 1):
        shown = ["visible" if place == min(number, count) - 1 else "hidden" for place in range(count)]
        last = "visible" if number == count else "hidden"
        parts += [
            f'<text x="{WIDTH - 20}" y="{TOP + 18}" text-anchor="end" visibility="{last}">round {number}',
            f'<animate attributeName="visibility" calcMode="discrete" dur="{seconds:.1f}s" repeatCount="indefinite" '
            f'keyTimes="{key_times}" values="{";".join([*shown, last])}"/></text>',
        ]
    return "\n".join([*parts, "</svg>\n"])


def draw_moving(file: Path) -> None:
    """Draw it from the record."""
    file.write_text(moving_picture())


if __name__ == "__main__":
    record(Path(sys.argv[1]))
    draw_moving(RECORD.with_name("spectra.svg"))
