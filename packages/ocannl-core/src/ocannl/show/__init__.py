"""Pictures of a training run and of what a model makes of its data; they need matplotlib (extra `viz`)."""

from ocannl.show.curves import curve, learning
from ocannl.show.grid import image_grid
from ocannl.show.page import page, save

__all__ = ["curve", "image_grid", "learning", "page", "save"]
