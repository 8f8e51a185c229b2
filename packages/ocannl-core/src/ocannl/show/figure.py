"""Figures that need no display and do not touch the state of pyplot."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure

INK, PALE, ALARM = "#1f4e79", "#a9c4dd", "#c62828"
"""Colors of the main line, of the background line, and of errors."""


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
    """Writes a figure in the format given by the file extension, and creates its folder."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)
    return path
