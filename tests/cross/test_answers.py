"""Errors in the words of the user, and results that are displayed once."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

import ocannl as oc
from ocannl import train


def image(*shape: int) -> oc.Tensor:
    return oc.tensor(np.ones(shape, "float32"), label="image")


def test_kernel_without_channels_is_explained_without_the_spec_inside():
    with pytest.raises(oc.ShapeError) as caught:
        oc.conv2d(image(4, 4, 1), oc.param("k", o=[3, 3]))
    message = str(caught.value)
    assert "height, width, input channels, output channels" in message
    assert "`k` has 2" in message
    assert "output=[height, width, input_channels, output_channels]" in message
    assert "test_answers.py" in message
    assert "=>" not in message


@pytest.mark.parametrize("conv", [oc.conv1d, oc.conv2d, oc.conv3d, oc.conv_transpose1d, oc.conv_transpose2d])
def test_operand_of_a_convolution_has_channels(conv):
    with pytest.raises(oc.ShapeError, match=r"the operand of a convolution has \d output axes \(.*channels\)"):
        conv(image(4), oc.param("k"))


ROWS = {
    "oc.cross_entropy(x, ids)": ("scores have one output axis", "batch_axes=1"),
    "oc.cross_entropy(scores, ids)": ("class ids have none, and `ids` has 1", "batch_axes=1"),
    "oc.nn.lstm(width=3)(x)": ("nn.lstm takes `..b.., t|c`", "batch=[n, t]"),
    "oc.nn.gru(width=3)(x)": ("nn.gru takes `..b.., t|c`", "batch=[n, t]"),
    "oc.nn.attention(heads=1)(x)": ("nn.attention takes `..b.., t|c`", "batch=[n, t]"),
    "x @ x": ("the input row of `x` is empty", "input_axes=1"),
}


@pytest.mark.parametrize("call", ROWS)
def test_arrays_without_batch_axes_are_told_what_is_missing(call):
    x = np.ones((2, 3), "float32")
    values = {
        "oc": oc, "x": oc.tensor(x, label="x"), "scores": oc.tensor(x, batch_axes=1),
        "ids": oc.tensor(np.array([0, 1]), label="ids"),
    }  # fmt: skip
    with pytest.raises(oc.ShapeError) as caught:
        eval(call, values)
    assert all(text in str(caught.value) for text in ROWS[call])
    assert "test_answers.py" in str(caught.value)


def test_open_kernels_of_convolutions_are_inferred():
    assert oc.conv2d(image(4, 4, 1), oc.param("k", o=[3, 3, 1, 2])).dims == (2, 2, 2)


def test_wrong_array_shape_says_where_the_placeholder_was_defined():
    p = oc.placeholder("p", o=[2, 3])
    with pytest.raises(oc.ShapeError, match=r"`p`, defined in test_answers.py:\d+, has the sizes \(2, 3\)"):
        oc.Context("numpy")[p] = np.ones(4)


def test_functions_given_as_code_take_no_arguments():
    with pytest.raises(oc.CodeError, match="takes no arguments"):
        oc.Context("numpy").run(lambda x: x)
    with pytest.raises(TypeError, match="unsupported operand"):
        oc.Context("numpy").run(lambda: {} + 1)


def test_settings_have_limits():
    for name in ("threads", "autotune", "trace", "compile_seconds", "seed"):
        with pytest.raises(oc.ConfigError, match="at most"):
            oc.settings(**{name: 10**30})
    for name in ("cache_dir", "c_compiler", "backend"):
        with pytest.raises(oc.ConfigError):
            oc.settings(**{name: "a\0b"})


def trained() -> train.Fitted:
    w = oc.param("w", o=[3])
    loss = (w * w).sum()
    return train.fit(oc.Context("numpy"), loss, train.sgd(loss, 0.1), [{}] * 200, watch=lambda: {"accuracy": 0.5})


def test_a_finished_training_is_one_line():
    assert "\n" not in repr(trained())
    assert "200 steps" in repr(trained())
    assert "accuracy 0.5" in repr(trained())


def test_a_profile_is_its_table():
    ctx, w = oc.Context("numpy"), oc.param("w", o=[3])
    ctx.init(w)
    profile = ctx.compile((w * 2.0).forward).profile(2)
    assert repr(profile) == str(profile)
    assert "median us" in repr(profile)


def test_show_shapes_displays_once_in_a_notebook(monkeypatch, capsys):
    displayed = []
    notebook = ModuleType("IPython")
    notebook.get_ipython = lambda: SimpleNamespace(kernel=object())
    notebook.display = SimpleNamespace(display=lambda tree: displayed.append(tree._repr_mimebundle_()))
    monkeypatch.setitem(sys.modules, "IPython", notebook)
    tree = oc.show_shapes(image(2) * 2.0)
    assert capsys.readouterr().out == ""
    assert len(displayed) == 1
    assert "<table>" in displayed[0]["text/html"]
    assert tree._repr_mimebundle_() == {}


def test_show_shapes_prints_once_in_a_terminal(capsys):
    tree = oc.show_shapes(image(2) * 2.0)
    assert capsys.readouterr().out == str(tree)
    assert "\n" not in repr(tree)
