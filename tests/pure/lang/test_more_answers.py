"""Habits whose answers stand in no table of names: settings, devices, parameters, arrays and windows."""

from __future__ import annotations

import numpy as np
import pytest

import ocannl as oc
from ocannl import nn


@pytest.mark.parametrize(("name", "answer"), [("seed", "with oc.settings(seed=1):"), ("sed", "did you mean `seed`")])
def test_settings_are_not_attributes(name: str, answer: str) -> None:
    with pytest.raises(oc.UnknownName) as caught:
        setattr(oc.settings, name, 1)
    assert answer in str(caught.value)
    assert not hasattr(oc.settings, name)
    with oc.settings(seed=1):
        pass
    with pytest.raises(oc.ArgumentError, match="oc.settings"):
        oc.settings(1)


@pytest.mark.parametrize(
    ("device", "backend"), [("cpu", "llvm"), ("cuda", "triton"), ("cuda:0", "triton"), ("gpu", "triton")]
)
def test_devices_are_answered_by_the_backend(device: str, backend: str) -> None:
    with pytest.raises(oc.UnknownBackend, match=f"belong to `{backend}`"):
        oc.Context(device)


def test_paths_that_no_parameter_has() -> None:
    loss = oc.param("weight", output=[3]) * oc.param("bias", output=[3])
    with pytest.raises(oc.UnknownParameter, match="did you mean 'weight'") as caught:
        loss.params["wieght"]
    assert isinstance(caught.value, KeyError)
    with pytest.raises(oc.UnknownParameter, match="the parameters are weight, bias"):
        loss.params["q"]
    with pytest.raises(oc.UnknownName, match=r"write params\['bias'\]"):
        loss.params.bias  # noqa: B018
    assert "q" not in loss.params and loss.params.get("q") is None


def test_arrays_and_tensors_in_other_places() -> None:
    with pytest.raises(oc.ArgumentError, match=r"`x` is a Tensor, not array.*; write oc.tensor\(data\)"):
        nn.linear(np.zeros((40, 3), np.float32), width=3)
    x = oc.placeholder("x", output=[3])
    with pytest.raises(oc.DataError, match=r"write oc.stack\(\[x, y\]\)"):
        oc.tensor([x, x])
    with pytest.raises(oc.CodeError, match=r"the shape is that of the array"):
        oc.tensor(np.zeros((2, 3)), shape=(3, 2))


def test_windows_that_leave_cells_over() -> None:
    image = oc.placeholder("image", batch=[1], output=[7, 7, 3])
    with pytest.raises(oc.ShapeError, match='padding="same".*padding=0'):
        oc.max_pool2d(image, 2).shape  # noqa: B018
    assert oc.max_pool2d(image, 2, padding=0).dims == (1, 3, 3, 3)
