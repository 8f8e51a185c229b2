"""A page to draw on: a figure that needs no screen and leaves pyplot alone."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure

INK, PALE, ALARM = "#1f4e79", "#a9c4dd", "#c62828"
"""The colours of what is drawn: the line that counts, what stands behind it, and what is wrong."""


def page(width_inches: float, height_inches: float) -> Figure:
    """An empty figure. Raises: ImportError with the pip line when matplotlib is missing."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
        from matplotlib.layout_engine import ConstrainedLayoutEngine
    except ImportError as missing:
        raise ImportError(f'pictures need matplotlib ({missing}); run: pip install "ocannl-core[viz]"') from None
    figure = Figure(figsize=(width_inches, height_inches), layout=ConstrainedLayoutEngine(w_pad=0.08, h_pad=0.08))
    FigureCanvasAgg(figure)
    return figure


def save(figure: Figure, path: str | Path) -> Path:
    """Writes the figure, in the format that the ending of the file names, and makes the folder it goes to."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)
    return path
