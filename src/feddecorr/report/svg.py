"""Pictures as small SVG files, for pages that show no scripts."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from html import escape

import numpy as np

from feddecorr.report.picture import DARK, Array, Line, Panel, Picture

HEIGHT = 240
LEFT, TOP, GAP, BOTTOM = 62, 26, 24, 66

Scale = Callable[[float], float]


def to_svg(picture: Picture) -> str:
    """Return the picture as the text of an SVG file."""
    across = {1: 520, 2: 330}.get(len(picture.panels), 210)
    width, height = LEFT + len(picture.panels) * (across + GAP), TOP + HEIGHT + BOTTOM
    boxes = [(LEFT + number * (across + GAP), across) for number in range(len(picture.panels))]
    turned = f"translate(14 {TOP + HEIGHT / 2}) rotate(-90)"
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
            'font-family="sans-serif" font-size="12" fill="#333">',
            f"<title>{escape(picture.heading)}</title>",
            '<rect width="100%" height="100%" fill="white"/>',
            f'<text transform="{turned}" text-anchor="middle">{escape(picture.axes[1])}</text>',
            *(part for panel, box in zip(picture.panels, boxes, strict=True) for part in _panel(picture, panel, *box)),
            *_legend(picture, height - 10),
            "</svg>\n",
        ]
    )


def ticks(low: float, high: float, wanted: int = 5) -> list[float]:
    """Return round numbers from low to high, about as many as wanted."""
    rough = (high - low) / wanted or 1.0
    power = 10.0 ** math.floor(math.log10(rough))
    step = power * next(factor for factor in (1, 2, 5, 10) if factor * power >= rough * (1 - 1e-9))
    return [number * step for number in range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)]


def logarithmic_ticks(low: float, high: float) -> list[float]:
    """Return logarithms of round numbers, from low to high (logarithms too)."""
    if high - low > 2:
        return [value for value in ticks(low, high) if value == int(value)]
    decades = range(math.floor(low), math.ceil(high) + 1)
    marks = [decade + math.log10(factor) for decade in decades for factor in (1, 2, 5)]
    return [mark for mark in marks if low - 1e-9 <= mark <= high + 1e-9]


def _panel(picture: Picture, panel: Panel, left: float, width: float) -> Iterator[str]:
    middle = left + width / 2
    yield f'<text x="{middle}" y="{TOP - 9}" text-anchor="middle" font-weight="bold">{escape(panel.title)}</text>'
    if panel.matrix is not None:
        yield from _cells(panel.matrix, left, width)
        return
    yield f'<text x="{middle}" y="{TOP + HEIGHT + 34}" text-anchor="middle">{escape(picture.axes[0])}</text>'
    x_low, x_high, y_low, y_high = picture.bounds()
    if picture.logarithmic:
        y_low, y_high = math.log10(y_low), math.log10(y_high)
    margin = 0.04 * (y_high - y_low) or 1.0

    def across(value: float) -> float:
        return left + width * (value - x_low) / ((x_high - x_low) or 1.0)

    def up(value: float) -> float:
        return TOP + HEIGHT * (1 - (value - y_low + margin) / (y_high - y_low + 2 * margin))

    for value in ticks(x_low, x_high):
        yield f'<text x="{across(value):.1f}" y="{TOP + HEIGHT + 16}" text-anchor="middle">{value:g}</text>'
    for value in logarithmic_ticks(y_low, y_high) if picture.logarithmic else ticks(y_low, y_high):
        yield f'<path d="M{left} {up(value):.1f}h{width}" stroke="#e4e4e4"/>'
        if left == LEFT:
            shown = f"{10**value if picture.logarithmic else value:.3g}"
            yield f'<text x="{left - 6}" y="{up(value) + 4:.1f}" text-anchor="end">{shown}</text>'
    yield f'<path d="M{left} {TOP}v{HEIGHT}h{width}" fill="none" stroke="#999"/>'
    for line in panel.lines:
        yield _line(line, across, up, logarithmic=picture.logarithmic)


def _line(line: Line, across: Scale, up: Scale, *, logarithmic: bool) -> str:
    places = [
        f"{across(x):.1f} {up(math.log10(y) if logarithmic else y):.1f}"
        for x, y in zip(line.x, line.y, strict=True)
        if y > 0 or not logarithmic
    ]
    if line.points:
        dots = "".join(f"M{place}h0" for place in places)
        return f'<path d="{dots}" stroke="{line.colour}" stroke-width="4" stroke-linecap="round"/>'
    return f'<path d="M{"L".join(places)}" fill="none" stroke="{line.colour}" stroke-width="1.5"/>' if places else ""


def _cells(matrix: Array, left: float, width: float) -> Iterator[str]:
    rows, columns = matrix.shape
    side = min(width / columns, HEIGHT / rows)
    offset = left + (width - side * columns) / 2
    for row, column in np.ndindex(rows, columns):
        mix = 255 + float(np.clip(matrix[row, column], 0, 1)) * (DARK - 255)
        colour = "#" + "".join(f"{int(part):02x}" for part in mix)
        place = f'x="{offset + column * side:.1f}" y="{TOP + row * side:.1f}" width="{side:.1f}" height="{side:.1f}"'
        yield f'<rect {place} fill="{colour}" stroke="#ddd" stroke-width=".5"/>'


def _legend(picture: Picture, y: float) -> Iterator[str]:
    x = float(LEFT)
    for name, colour in {
        line.name: line.colour for panel in picture.panels for line in panel.lines if line.name
    }.items():
        yield f'<path d="M{x} {y - 4}h18" stroke="{colour}" stroke-width="3"/>'
        yield f'<text x="{x + 24}" y="{y}">{escape(name)}</text>'
        x += 40 + 7 * len(name)
