"""Plots of training runs and model predictions; require matplotlib (extra `viz`)."""

from ocannl.show.boundary import boundary
from ocannl.show.curves import curve, learning
from ocannl.show.figure import page, save
from ocannl.show.grid import image_grid

__all__ = ["boundary", "curve", "image_grid", "learning", "page", "save"]
