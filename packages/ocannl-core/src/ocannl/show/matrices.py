"""Plots of matrices: confusion of classes, and attention weights."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ocannl.base.errors import ArgumentError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

Array = np.ndarray[Any, Any]
MAX_WRITTEN_CELLS = 400
DARK = 0.72  # the shade of blue with equal contrasts to white and black, at least 4.5


def confusion(axes: Axes, labels: Array, predictions: Array, names: Sequence[str] | None = None) -> Array:
    """Plots how often each class, a row, is predicted as each class, a column; returns these counts.

    `labels` and `predictions` are integers from 0; `names` are those of all classes. Raises: ArgumentError.
    """
    rows, columns = np.asarray(labels).ravel(), np.asarray(predictions).ravel()
    if rows.shape != columns.shape or not all(np.issubdtype(part.dtype, np.integer) for part in (rows, columns)):
        raise ArgumentError(
            f"labels and predictions are integers, one for each example, not {rows.size} and {columns.size} of"
            f" {rows.dtype} and {columns.dtype}: give classes, such as logits.argmax(axis=1)"
        )
    lowest, highest = (min(rows.min(), columns.min()), max(rows.max(), columns.max())) if rows.size else (0, 0)
    if lowest < 0 or (names is not None and highest >= len(names)):
        allowed = "numbers from 0" if names is None else f"numbers below {len(names)}, the number of names"
        raise ArgumentError(f"classes are {allowed}, not {lowest} to {highest}")
    count = int(highest) + 1 if names is None else len(names)
    counts = np.zeros((count, count), int)
    np.add.at(counts, (rows, columns), 1)
    _matrix(axes, counts, names, names, [str(n) if n else "" for n in counts.ravel().tolist()])
    axes.set_xlabel("predicted")
    axes.set_ylabel("class")
    return counts


def attention(
    figure: Figure | SubFigure, weights: Array, queries: Sequence[str] | None = None, keys: Sequence[str] | None = None,
    columns: int = 4,
) -> None:  # fmt: skip
    """Draws the weights of attention, one matrix for each head: rows are queries, columns are keys.

    `weights` has the axes heads, queries and keys, or without heads; `queries` and `keys` are their tokens. Raises:
    ArgumentError.
    """
    heads = np.asarray(weights)
    if heads.ndim not in (2, 3) or not heads.size:
        raise ArgumentError(
            f"weights of attention have the axes heads, queries and keys, or queries and keys, not the shape"
            f" {heads.shape}: select one sequence of a batch, weights[0]"
        )
    heads = heads.reshape(-1, *heads.shape[-2:])
    for tokens, size in ((queries, heads.shape[1]), (keys, heads.shape[2])):
        if tokens is not None and len(tokens) != size:
            raise ArgumentError(f"{len(tokens)} tokens are given for {size} rows or columns of attention weights")
    columns = min(columns, len(heads))
    cells = figure.subplots(-(-len(heads) // columns), columns, squeeze=False).flat
    for number, axes in enumerate(cells):
        if number >= len(heads):
            axes.set_axis_off()
            continue
        _matrix(axes, heads[number], queries, keys, None)
        if len(heads) > 1:
            axes.set_title(f"head {number}", fontsize="medium")


def _matrix(
    axes: Axes, cells: Array, rows: Sequence[str] | None, columns: Sequence[str] | None, texts: Sequence[str] | None
) -> None:
    """A matrix in shades of blue from 0 up, with texts in the cells of small ones."""
    peak = float(cells.max()) or 1.0
    axes.imshow(cells, cmap="Blues", vmin=0, vmax=peak, interpolation="nearest")
    if texts is not None and cells.size <= MAX_WRITTEN_CELLS:
        for (y, x), text in zip(np.ndindex(cells.shape), texts, strict=True):
            color = "white" if cells[y, x] > DARK * peak else "black"
            axes.text(x, y, text, ha="center", va="center", color=color, fontsize="small")
    if rows is not None:
        axes.set_yticks(range(len(rows)), list(rows))
    if columns is not None:
        axes.set_xticks(range(len(columns)), list(columns), rotation=90)
