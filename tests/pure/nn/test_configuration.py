"""Layers refuse settings when they are configured, and name the setting and its value."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ocannl as oc
from ocannl import nn

REFUSED: dict[str, Callable[[], Any]] = {
    "nn.linear: `width` is positive, not -3": lambda: nn.linear(width=-3),
    "nn.linear: `width` is an integer or None, not '3'": lambda: nn.linear(width="3"),
    "nn.linear: `width` is an integer or None, not 2.5": lambda: nn.linear(width=2.5),
    "nn.linear has no argument `widht=`: did you mean `width=`?": lambda: nn.linear(widht=3),
    "nn.linear takes tensors in positions, whose sizes it infers, and settings by keyword: `width=`, `bias=`, `init=`":
        lambda: nn.linear(784, 10),
    "nn.mlp: `widths` is positive, not -1 in [3, -1]": lambda: nn.mlp(widths=[3, -1]),
    "nn.mlp: `widths` is a list of one number or more": lambda: nn.mlp(widths=[]),
    "nn.mlp: `widths` is a list, not b'ab'": lambda: nn.mlp(widths=b"ab"),
    "nn.mlp: `activation` is a function of a tensor, not <built-in function pow>: missing a required argument: 'exp'":
        lambda: nn.mlp(widths=[3], activation=pow),
    "nn.layer_norm: `axes` is from 1 to 64, not 65": lambda: nn.layer_norm(axes=65),
    "nn.mlp: `activation` is a function, not 'relu'": lambda: nn.mlp(widths=[3], activation="relu"),
    "nn.conv2d: `window` is positive, not 0 in (3, 0)": lambda: nn.conv2d(channels=4, window=(3, 0)),
    "nn.conv2d: `stride` is positive, not 0": lambda: nn.conv2d(channels=4, window=3, stride=0),
    "nn.conv2d: `groups` is 4, which does not divide `channels`, 6":
        lambda: nn.conv2d(channels=6, window=3, groups=4),
    "nn.conv1d: `padding` is not negative, not -1": lambda: nn.conv1d(channels=6, window=3, padding=-1),
    "nn.conv_transpose2d: `output_padding` is not negative, not -2":
        lambda: nn.conv_transpose2d(channels=6, window=3, output_padding=-2),
    "nn.depthwise_conv2d: `multiplier` is positive, not 0": lambda: nn.depthwise_conv2d(window=3, multiplier=0),
    "nn.dropout: `rate` is a probability below 1, not 1.5": lambda: nn.dropout(rate=1.5),
    "nn.batch_norm: `momentum` is a number from 0 to 1, not 2.0": lambda: nn.batch_norm(momentum=2.0),
    "nn.layer_norm: `eps` is not negative, not -1.0": lambda: nn.layer_norm(eps=-1.0),
    "nn.experts: `capacity_factor` is above 0, not 0.0": lambda: nn.experts(count=4, inner=6, capacity_factor=0.0),
    "nn.attention: `heads` is from 1 to 65,536, not -1": lambda: nn.attention(heads=-1),
    "nn.attention: `kv_heads` is 3, which does not divide `heads`, 4": lambda: nn.attention(heads=4, kv_heads=3),
    "nn.attention: `use_alibi` is True or False, not 1": lambda: nn.attention(heads=2, use_alibi=1),
    "nn.encoder_layer: `activation` is a function, not 'gelu'":
        lambda: nn.encoder_layer(heads=2, inner=4, activation="gelu"),
    "nn.experts: `top_k` is 3, and `count` only 2": lambda: nn.experts(count=2, inner=4, top_k=3),
    "nn.gpt: `heads` is 4, which does not divide `width`, 10":
        lambda: nn.gpt(vocabulary=10, length=8, width=10, layers=2, heads=4),
    "nn.lstm: `layers` is from 1 to 10,000, not 0": lambda: nn.lstm(width=4, layers=0),
    "nn.resnet: `layers` is one of 18, 34, 50, 101, 152, not 19": lambda: nn.resnet(layers=19),
    "nn.vgg: `channels` holds those of 5 stages, not (1, 2)": lambda: nn.vgg(channels=(1, 2)),
    "nn.unet: `widths` is a list of one number or more": lambda: nn.unet(classes=2, widths=[]),
}  # fmt: skip


@pytest.mark.parametrize("message", REFUSED)
def test_settings_are_refused_when_a_layer_is_configured(message: str) -> None:
    with pytest.raises(oc.ArgumentError) as error:
        REFUSED[message]()
    assert str(error.value).splitlines()[0] == message


def test_windows_of_another_number_of_axes_are_refused() -> None:
    with pytest.raises(oc.CodeError, match=r"`window` is a positive integer, or one for each of 2 axes"):
        nn.conv2d(channels=6, window=(3, 3, 3))
    with pytest.raises(oc.CodeError, match='`padding` is "none", "same", a number of cells'):
        nn.depthwise_conv1d(window=3, padding="valid")


def vectors(width: int) -> oc.Tensor:
    return oc.tensor(np.ones((2, 5, width), "float32"), batch_axes=2, label="x")


def test_settings_that_do_not_fit_an_operand_are_refused() -> None:
    with pytest.raises(oc.ArgumentError, match="`heads` is 3, which does not divide the width of `x`, 8"):
        nn.attention(heads=3)(vectors(8))
    assert nn.attention(heads=3, size=4)(vectors(8)).dims == (2, 5, 8)
    with pytest.raises(oc.ArgumentError, match="their number is even, not 7"):
        nn.sinusoids(nn.positions_of(vectors(1)), width=7)
    with pytest.raises(oc.ArgumentError, match="their number is even, not 3"):
        nn.attention(vectors(6), heads=2, rotary_base=10000.0)


ONLY_BATCH = oc.tensor(np.ones((2, 4), "float32"), batch_axes=2, label="x")
ONLY_OUTPUT = oc.tensor(np.ones(4, "float32"), label="x")
FEATURES = "takes `...|c`: features along the output axis"
SEQUENCE = "takes `..b.., t|c`: positions along the last batch axis, features along the output axis"
MISFITS: dict[str, Callable[[], Any]] = {
    f"nn.feed_forward {FEATURES}": lambda: nn.feed_forward(ONLY_BATCH, inner=3),
    f"nn.swiglu {FEATURES}": lambda: nn.swiglu(oc.tensor(np.ones((3, 4), "float32")), inner=3),
    f"nn.experts {FEATURES}": lambda: nn.experts(oc.tensor(1.0), count=2, inner=3),
    f"nn.load_balancing_loss {FEATURES}": lambda: nn.load_balancing_loss(ONLY_BATCH),
    f"nn.position_embedding {SEQUENCE}": lambda: nn.position_embedding(ONLY_OUTPUT, count=4),
    f"nn.positions_of {SEQUENCE}": lambda: nn.positions_of(ONLY_OUTPUT),
    "nn.rotary takes `..b.., t|h,d`: heads and their features along output axes": lambda: nn.rotary(ONLY_BATCH),
}


@pytest.mark.parametrize("message", MISFITS)
def test_operands_without_the_axes_of_a_layer_are_refused(message: str) -> None:
    """The last axis of the operand was taken for features, whatever its row."""
    with pytest.raises(oc.ShapeError) as error:
        MISFITS[message]()
    assert str(error.value).splitlines()[0] == message
    assert "  give `" in str(error.value)


def test_arguments_of_functions_that_are_no_layers_are_refused() -> None:
    positions = nn.positions_of(vectors(1))
    for call, message in (
        (lambda: nn.alibi(0, positions, positions), "nn.alibi: `heads` is from 1 to 65,536, not 0"),
        (lambda: nn.padding_mask(positions, -1), "nn.padding_mask: `count` is positive, not -1"),
        (lambda: nn.window_mask(positions, width=0), "nn.window_mask: `width` is positive, not 0"),
        (lambda: nn.load_balancing_loss(vectors(4), top_k=0), "nn.load_balancing_loss: `top_k` is positive, not 0"),
        (lambda: nn.load_balancing_loss(vectors(4), top_k=5),
         "nn.load_balancing_loss: `top_k` is 5, and the router chooses among 4"),
        (lambda: nn.sinusoids(positions, width=4, base=-1.0), "nn.sinusoids: `base` is above 0, not -1.0"),
        (lambda: nn.positions_of(3), "nn.positions_of: `x` is a Tensor, not 3"),
        (lambda: nn.sinusoids(positions, width=2**30), "positions rotate pairs of features: their number is at most"),
    ):
        with pytest.raises(oc.ArgumentError) as error:
            call()
        assert str(error.value).startswith(message)


def test_initial_states_that_do_not_fit_are_refused() -> None:
    x = vectors(4)
    _, states = nn.lstm(x, width=3, layers=2, bidirectional=True, return_states=True)
    net = nn.lstm(width=3, layers=2, bidirectional=True)
    names = "`initial` holds a state for each of the cells cell, reverse, cell_2, reverse_2: a tuple of 4"
    with pytest.raises(oc.ArgumentError, match=names):
        net(x, None, states[:3])
    with pytest.raises(oc.ArgumentError, match="the state 1 of `initial`, that of reverse, is a tuple of 2 tensors"):
        net(x, None, [states[0], states[1][0], *states[2:]])
    with pytest.raises(oc.ArgumentError, match="`initial` is a list or None, not"):
        net(x, None, states[0][0])
    with pytest.raises(oc.ArgumentError, match="the state 0 of `initial`, that of cell, is a tensor"):
        nn.gru(x, None, states[:1], width=3)
    with pytest.raises(oc.ShapeError):
        nn.lstm(x, None, states[:1], width=4)
