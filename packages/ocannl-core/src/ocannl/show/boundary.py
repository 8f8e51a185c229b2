"""Decision boundaries of classifiers of points in the plane."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ocannl.show.figure import ALARM, INK

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Array = np.ndarray[Any, Any]


def boundary(axes: Axes, xs: Array, ys: Array, margin: Array, points: Array, labels: Array) -> None:
    """Plots where the margin of class 1 over class 0 is positive, the line where it is 0, and labelled points.

    `margin` has a row for each of `ys` and a column for each of `xs`; `points` are rows of two coordinates.
    """
    bound = float(np.abs(margin).max()) or 1.0
    axes.imshow(
        margin, extent=(xs[0], xs[-1], ys[0], ys[-1]), origin="lower", aspect="auto", cmap="RdBu_r", alpha=0.5,
        vmin=-bound, vmax=bound,
    )  # fmt: skip
    if margin.min() < 0 < margin.max():
        axes.contour(xs, ys, margin, levels=[0.0], colors="black", linewidths=1.5)
    for label, color in ((0, INK), (1, ALARM)):
        x, y = points[labels == label].T
        axes.scatter(x, y, s=12, color=color, edgecolors="white", linewidths=0.4)
    axes.spines[["top", "right"]].set_visible(False)
