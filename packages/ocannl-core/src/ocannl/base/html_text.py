"""Fragments of HTML for notebooks: tables, badges of shapes, and small pictures in SVG. All text is escaped."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

MAX_ROWS = 200
WIDTH, HEIGHT = 240, 60  # of pictures, in pixels
INK = "#2a7fbf"  # contrast of at least 3 with the ground of light and dark pages
ROW_COLORS = {"batch": "#6d5a9c", "input": "#8a5a00", "output": "#1d6b3f"}  # contrast of at least 4.5 with white
CELL = "text-align:left;padding:2px 8px"  # style of a cell
BINS = 24
MIN_RELATIVE_RANGE = 1e-9  # of a histogram
PICTURE_SIDE = 32
MIN_PICTURE_SIDE = 4


def table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table of text; long ones end with the number of rows that are left out."""
    head = "".join(f'<th style="{CELL}">{html.escape(column)}</th>' for column in columns)
    body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in rows[:MAX_ROWS])
    omitted = len(rows) - MAX_ROWS
    note = f'<tr><td style="{CELL}" colspan="{len(columns)}">and {omitted} rows more</td></tr>' if omitted > 0 else ""
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}{note}</tbody></table>"


class Markup(str):
    """Text that is HTML already, for cells of tables."""

    __slots__ = ()


def _cell(text: str) -> str:
    return f'<td style="{CELL}">{text if isinstance(text, Markup) else html.escape(text)}</td>'


def title(name: str, *notes: str) -> str:
    return f"<div><b>{html.escape(name)}</b> {html.escape(' '.join(note for note in notes if note))}</div>"


def code(text: str) -> str:
    return f'<pre style="text-align:left">{html.escape(text)}</pre>'


def badges(shape: str) -> str:
    """A badge for each axis of a shape written `batch|input->output`, colored by its row."""
    batch, _, sizes = shape.rpartition("|")
    inputs, _, output = sizes.rpartition("->")
    rows = {"batch": batch, "input": inputs, "output": output}
    axes = [(row, axis) for row, text in rows.items() for axis in text.split(",") if axis]
    return " ".join(_badge(axis, row) for row, axis in axes) or _badge("scalar", "output")


def _badge(text: str, row: str) -> str:
    style = f"background:{ROW_COLORS[row]};color:white;border-radius:4px;padding:1px 5px;font-family:monospace"
    return f'<span title="{row} axis" style="{style}">{html.escape(text)}</span>'


def bar(share: float, text: str) -> Markup:
    """A cell with a bar, whose length is a share of 1, and a text."""
    width = max(0.0, min(1.0, share)) * 100
    block = f'<div style="background:{INK};height:8px;width:{width:.1f}px"></div>'
    return Markup(f"{html.escape(text)}{block}")


def curve(values: Sequence[float], label: str) -> str:
    """A line over the values, at the scale of those that are finite."""
    numbers = np.asarray(values, float)
    if len(numbers) > WIDTH:  # a point for each pixel
        numbers = np.array([part.mean() for part in np.array_split(numbers, WIDTH)])
    finite = numbers[np.isfinite(numbers)]
    if len(finite) < 2:
        return ""
    low, high = float(finite.min()), float(finite.max())
    xs = np.linspace(2, WIDTH - 2, len(numbers))
    ys = HEIGHT - 2 - (numbers - low) / ((high - low) or 1.0) * (HEIGHT - 4)
    points = " ".join(f"{x:.1f},{y:.1f}" for x, y in zip(xs, ys, strict=True) if np.isfinite(y))
    line = f'<polyline points="{points}" fill="none" stroke="{INK}" stroke-width="1.5"/>'
    return _svg(f"{label}: {low:.4g} to {high:.4g}", [line])


def bin_range(finite: np.ndarray[Any, Any]) -> tuple[float, float]:
    """The range of a histogram: that of the values, but so wide that bins have different edges."""
    low, high = float(finite.min()), float(finite.max())
    margin = MIN_RELATIVE_RANGE * max(abs(low), abs(high)) or 0.5
    return (low, high) if high - low > margin else (low - margin, high + margin)


def histogram(values: np.ndarray[Any, Any], label: str) -> str:
    """The distribution of the finite values of an array."""
    numbers = np.asarray(values).astype(float).ravel()
    finite = numbers[np.isfinite(numbers)]
    if not finite.size:
        return ""
    counts, edges = np.histogram(finite, BINS, bin_range(finite))
    width = WIDTH / BINS
    heights = counts / counts.max() * (HEIGHT - 2)
    bars = [_rectangle(n * width, HEIGHT - height, width - 1, height, INK) for n, height in enumerate(heights)]
    return _svg(f"{label}: {edges[0]:.4g} to {edges[-1]:.4g}, mean {finite.mean():.4g}", bars)


def picture(values: np.ndarray[Any, Any], label: str) -> str:
    """A matrix as gray squares, dark for large values, and red ones for values that are not finite; empty unless both
    sides are short enough to be seen."""
    if values.ndim != 2 or not all(MIN_PICTURE_SIDE <= side <= PICTURE_SIDE for side in values.shape):
        return ""
    numbers = values.astype(float)
    is_finite = np.isfinite(numbers)
    low, high = (float(f(numbers[is_finite])) if is_finite.any() else 0.0 for f in (np.min, np.max))
    shares = np.where(is_finite, numbers / 2 - low / 2, 0) / ((high / 2 - low / 2) or 1.0)  # halves do not overflow
    grays = (255 - shares * 255).astype(int)
    colors = np.where(is_finite, [[f"rgb({gray},{gray},{gray})" for gray in row] for row in grays.tolist()], "red")
    size = HEIGHT / max(values.shape)
    squares = [
        _rectangle(x * size, y * size, size, size, color)
        for y, row in enumerate(colors.tolist())
        for x, color in enumerate(row)
    ]
    width = round(values.shape[1] * size)
    return _svg(f"{label}: {low:.4g} to {high:.4g}", squares, width)


def _rectangle(x: float, y: float, width: float, height: float, color: str) -> str:
    return f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" fill="{color}"/>'


def _svg(label: str, shapes: Iterable[str], width: int = WIDTH) -> str:
    text = html.escape(label)
    head = f'<svg width="{width}" height="{HEIGHT}" role="img" aria-label="{text}">'
    return f"<figure style='margin:4px 0'>{head}{''.join(shapes)}</svg><figcaption>{text}</figcaption></figure>"
