"""Plots of training runs and model predictions; require matplotlib (extra `viz`)."""

from ocannl.show.boundary import boundary
from ocannl.show.curves import curve, learning
from ocannl.show.figure import page, save
from ocannl.show.grid import image_grid
from ocannl.show.histograms import histograms
from ocannl.show.matrices import attention, confusion

__all__ = ["attention", "boundary", "confusion", "curve", "histograms", "image_grid", "learning", "page", "save"]
