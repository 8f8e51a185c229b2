"""Plots of losses and metrics over time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ocannl.show.figure import INK, PALE

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def learning(axes: Axes, losses: Sequence[float], steps_per_epoch: int) -> None:
    """Plots the loss of each step, and the mean of each epoch on top."""
    step_losses = np.asarray(losses, float)
    epochs = len(step_losses) // steps_per_epoch
    means = step_losses[: epochs * steps_per_epoch].reshape(epochs, steps_per_epoch).mean(axis=1)
    positions = np.arange(1, len(step_losses) + 1) / steps_per_epoch
    axes.plot(positions, step_losses, color=PALE, linewidth=0.8, label="step")
    axes.plot(np.arange(epochs) + 0.5, means, color=INK, linewidth=2, label="mean of the epoch")
    if np.all(step_losses > 0):
        axes.set_yscale("log")
    axes.legend(frameon=False, fontsize="small")
    _finish(axes, "loss")


def curve(axes: Axes, values: Sequence[float], name: str) -> None:
    """Plots one value for each epoch, and annotates the last."""
    axes.plot(np.arange(1, len(values) + 1), values, color=INK, linewidth=2)
    if len(values):
        axes.annotate(
            f"{values[-1]:.3f}",
            (len(values), values[-1]),
            xytext=(0, -6),
            textcoords="offset points",
            ha="right",
            va="top",
            color=INK,
        )
    _finish(axes, name)


def _finish(axes: Axes, name: str) -> None:
    axes.set_title(name, loc="left")
    axes.set_xlabel("epoch")
    axes.set_xlim(left=0)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", color="#e4e4e4", linewidth=0.8)
    axes.set_axisbelow(True)
