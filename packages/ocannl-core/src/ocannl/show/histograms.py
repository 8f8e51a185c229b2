"""Histograms of weights and gradients."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from ocannl.base.errors import ArgumentError
from ocannl.base.html_text import bin_range
from ocannl.show.figure import INK

if TYPE_CHECKING:
    from matplotlib.figure import Figure, SubFigure

Array = np.ndarray[Any, Any]
TITLE_WIDTH = 24  # letters


def histograms(figure: Figure | SubFigure, arrays: Mapping[str, Array], columns: int = 4, bins: int = 40) -> None:
    """Draws the distribution of the finite cells of each array, such as the weights of a model or their gradients,
    with the number of cells that are not finite.

        show.histograms(figure, {path: ctx[w.grad] for path, w in model.params.items()})

    Raises: ArgumentError without an array.
    """
    if not arrays:
        raise ArgumentError("no array is given: give a mapping of names to arrays, such as {'w': ctx[w]}")
    columns = min(columns, len(arrays))
    cells = list(figure.subplots(-(-len(arrays) // columns), columns, squeeze=False).flat)
    for axes, (name, array) in zip(cells, arrays.items(), strict=False):
        values = np.asarray(array).astype(float).ravel()
        finite = values[np.isfinite(values)]
        axes.hist(finite, bins=bins, range=bin_range(finite) if finite.size else None, color=INK)
        lost = values.size - finite.size
        heading = name.replace(".", ". ") + (f", {lost} not finite" if lost else "")  # paths break at dots
        axes.set_title(textwrap.fill(heading, TITLE_WIDTH).replace(". ", "."), fontsize="small")
        axes.ticklabel_format(axis="x", scilimits=(-2, 4))
        axes.locator_params(axis="x", nbins=4)
        axes.set_yticks([])
        axes.spines[["top", "right", "left"]].set_visible(False)
    for axes in cells[len(arrays) :]:
        axes.set_axis_off()
