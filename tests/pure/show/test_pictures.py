"""The elements of plots."""

import sys

import numpy as np
import pytest

from ocannl import show

pytest.importorskip("matplotlib")


def test_the_loss_of_each_step_and_the_mean_of_each_epoch():
    axes = show.page(4, 3).subplots()
    show.learning(axes, [4.0, 2.0, 1.0, 3.0, 0.5], 2)
    steps, means = axes.get_lines()
    assert steps.get_xydata().tolist() == [[0.5, 4.0], [1.0, 2.0], [1.5, 1.0], [2.0, 3.0], [2.5, 0.5]]
    assert means.get_xydata().tolist() == [[0.5, 3.0], [1.5, 2.0]]
    assert axes.get_yscale() == "log"


@pytest.mark.parametrize("losses", [[1.0, 0.0], [1.0, float("nan")], [float("inf"), -1.0], []])
def test_losses_without_a_logarithm_are_plotted(losses, tmp_path):
    figure = show.page(4, 3)
    axes = figure.subplots()
    show.learning(axes, losses, 1)
    show.save(figure, tmp_path / "a.png")


def test_the_last_value_of_a_curve_is_annotated():
    axes = show.page(4, 3).subplots()
    show.curve(axes, [0.5, 0.75], "accuracy")
    assert [text.get_text() for text in axes.texts] == ["0.750"]
    show.curve(show.page(4, 3).subplots(), [], "nothing")


def test_wrong_images_are_marked():
    figure = show.page(4, 3)
    show.image_grid(figure, [np.eye(2)] * 3, ["1", "2, not 3", "4"], [False, True, False], 2)
    assert [axes.get_title() for axes in figure.axes] == ["1", "2, not 3", "4", ""]
    assert [axes.title.get_color() != "black" for axes in figure.axes[:3]] == [False, True, False]
    assert [axes.axison for axes in figure.axes] == [True, True, True, False]


def test_a_second_grid_on_a_page_leaves_the_first_alone():
    left, right = show.page(4, 3).subfigures(1, 2)
    show.image_grid(left, [np.eye(2)], ["a"], [False], 1)
    show.image_grid(right, [np.eye(2)], ["b"], [False], 2)
    assert [axes.axison for axes in right.axes] == [True, False]


def test_missing_matplotlib_is_reported_with_an_install_command(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ImportError, match=r'pip install "ocannl-core\[viz\]"'):
        show.page(4, 3)

