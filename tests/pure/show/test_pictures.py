"""The elements of plots."""

import sys

import numpy as np
import pytest

from ocannl import show
from ocannl.base.errors import ArgumentError

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


def test_confusion_counts_classes_and_predictions():
    axes = show.page(4, 3).subplots()
    counts = show.confusion(axes, np.array([0, 0, 1, 2]), np.array([0, 2, 1, 2]), ["cat", "dog", "owl"])
    assert counts.tolist() == [[1, 0, 1], [0, 1, 0], [0, 0, 1]]
    assert [text.get_text() for text in axes.texts] == ["1", "", "1", "", "1", "", "", "", "1"]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["cat", "dog", "owl"]
    assert show.confusion(show.page(4, 3).subplots(), np.array([3]), np.array([1])).shape == (4, 4)
    assert show.confusion(show.page(4, 3).subplots(), np.array([], int), np.array([], int)).tolist() == [[0]]


@pytest.mark.parametrize(
    ("labels", "predictions", "names", "problem"),
    [
        ([0, 1], [0], None, "one for each example, not 2 and 1"),
        ([0], [0.5], None, "int64 and float64"),
        ([0], [-1], None, "numbers from 0, not -1 to 0"),
        ([0], [2], ["a", "b"], "numbers below 2, the number of names, not 0 to 2"),
    ],
)
def test_classes_that_cannot_be_counted(labels, predictions, names, problem):
    with pytest.raises(ArgumentError, match=problem):
        show.confusion(show.page(4, 3).subplots(), np.array(labels), np.array(predictions), names)


def test_a_matrix_of_attention_for_each_head():
    figure = show.page(4, 3)
    show.attention(figure, np.full((3, 2, 4), 0.25), ["a", "b"], ["c", "d", "e", "f"], columns=2)
    assert [axes.get_title() for axes in figure.axes] == ["head 0", "head 1", "head 2", ""]
    assert figure.axes[0].images[0].get_array().shape == (2, 4) and not figure.axes[3].axison
    show.attention(show.page(4, 3), np.eye(3))
    with pytest.raises(ArgumentError, match=r"not the shape \(1, 2, 3, 4\): select one sequence"):
        show.attention(show.page(4, 3), np.ones((1, 2, 3, 4)))
    with pytest.raises(ArgumentError, match="1 tokens are given for 3"):
        show.attention(show.page(4, 3), np.eye(3), ["a"])


def test_histograms_count_cells_that_are_not_finite(tmp_path):
    figure = show.page(4, 3)
    show.histograms(figure, {"w": np.arange(10.0), "b": np.array([1.0, np.nan]), "c": np.array([])}, columns=2, bins=5)
    assert [axes.get_title() for axes in figure.axes] == ["w", "b, 1 not finite", "c", ""]
    assert [bar.get_height() for bar in figure.axes[0].patches] == [2.0] * 5
    show.save(figure, tmp_path / "a.svg")
    with pytest.raises(ArgumentError, match="no array is given"):
        show.histograms(show.page(4, 3), {})


def test_missing_matplotlib_is_reported_with_an_install_command(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ImportError, match=r'pip install "ocannl-core\[viz\]"'):
        show.page(4, 3)



def test_long_names_of_histograms_are_wrapped():
    figure = show.page(8, 2)
    show.histograms(figure, {"encoder.layers.10.attention.weights": np.arange(5.0), "w": np.arange(5.0) * 1e7})
    assert [axes.get_title() for axes in figure.axes] == ["encoder.layers.10.\nattention.weights", "w"]


def test_counts_are_readable_on_every_shade():
    axes = show.page(4, 4).subplots()
    labels = np.repeat(np.arange(10), np.arange(1, 11) * 10)
    show.confusion(axes, labels, np.zeros_like(labels))
    shades = axes.images[0].cmap
    texts = [text for text in axes.texts if text.get_text()]
    assert len(texts) == 10
    for text in texts:
        lights = [luminance(shades(int(text.get_text()) / 100)), float(text.get_color() == "white")]
        assert (max(lights) + 0.05) / (min(lights) + 0.05) >= 4.5


def luminance(color):
    """The relative luminance of the web's guidelines for contrast."""
    channels = np.array(color[:3])
    linear = np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)
    return linear @ [0.2126, 0.7152, 0.0722]
