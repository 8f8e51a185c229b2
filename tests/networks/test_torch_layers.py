"""Accuracy of what networks are compared with."""

from __future__ import annotations

from math import fsum

import numpy as np
import pytest

from . import torch_layers

torch = pytest.importorskip("torch")


def test_variances_of_many_cells_are_accurate() -> None:
    random = np.random.default_rng(0)
    x = random.normal(0.7, 0.25, size=12)[random.integers(0, 12, size=(4095, 37))]
    mean = fsum(x.flat) / x.size
    want = fsum((cell - mean) ** 2 for cell in x.flat) / x.size
    got = torch_layers.variance(torch.tensor(x), (-2, -1), keepdim=False).item()
    assert abs(got - want) <= 8 * np.finfo("float64").eps * want
