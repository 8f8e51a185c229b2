"""Grids of captioned images."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ocannl.show.figure import ALARM

if TYPE_CHECKING:
    import numpy as np
    from matplotlib.figure import Figure, SubFigure


def image_grid(
    figure: Figure | SubFigure,
    images: Sequence[np.ndarray[Any, Any]],
    captions: Sequence[str],
    wrong: Sequence[bool],
    columns: int,
) -> None:
    """Draws grayscale images with captions; those marked `wrong` get a frame and a colored caption."""
    rows = -(-len(images) // columns)
    cells = figure.subplots(rows, columns, squeeze=False).flat
    for axes, image, caption, bad in zip(cells, images, captions, wrong, strict=False):
        axes.imshow(image, cmap="gray_r", interpolation="nearest")
        axes.set_title(caption, fontsize="medium", pad=3, color=ALARM if bad else "black")
        axes.set(xticks=[], yticks=[])
        for spine in axes.spines.values():
            spine.set(color=ALARM if bad else "#cccccc", linewidth=2 if bad else 0.8)
    for axes in list(figure.axes)[len(images) :]:
        axes.set_axis_off()
