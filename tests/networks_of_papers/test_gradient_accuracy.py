"""Gradients of networks of papers have at most four times the error of PyTorch's, both in float32.

By default four networks are compared: one with convolutions, one with batch statistics, one with shortcuts and one of a
density. `OCANNL_TEST_ACCURACY=all` compares all of them, and `OCANNL_TEST_ACCURACY=swin,vae` those named, with
`OCANNL_TEST_DRAWS` draws of the weights. Skipped without PyTorch.
"""

from __future__ import annotations

import os

import pytest

pytest.importorskip("torch")

import torch

from . import test_networks_of_papers  # noqa: F401  (which declares the networks)
from .gradient_errors import MAX_RATIO, draws, medians, ratios
from .network import selection
from .test_networks_of_papers import skip_unless_usable

NAMES = selection(os.environ.get("OCANNL_TEST_ACCURACY", "lenet_5 block_attention n_beats mixture_density"), 0.0)
DRAWS = int(os.environ.get("OCANNL_TEST_DRAWS", "3"))


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_gradients_are_about_as_exact_as_those_of_pytorch(name: str) -> None:
    skip_unless_usable("llvm")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        times = ratios(medians(list(draws(name, "llvm", DRAWS))))
    finally:
        torch.set_num_threads(threads)
    assert times
    above = {path: round(ratio, 1) for path, ratio in times.items() if ratio > MAX_RATIO}
    assert not above, f"{len(above)} of {len(times)} arrays, in multiples of PyTorch's error: {above}"
