"""The orders of `oc.permutation` are those of NumPy's generator, with SciPy and without."""

import sys

import numpy as np
import pytest

from ocannl.lang.ops.shuffles import BLOCK_DRAWS, shuffled_range

# Of draws for the largest size, one of about 2800 is refused.
SIZES = (0, 1, 2, 3, 100, 10_000, 10_001, BLOCK_DRAWS, BLOCK_DRAWS + 1, BLOCK_DRAWS + 2, 1 << 20, 3_000_000)


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("with_scipy", [True, False])
def test_the_order_is_that_of_numpy(n, with_scipy, monkeypatch):
    if with_scipy:
        pytest.importorskip("scipy.linalg")
    else:
        monkeypatch.setitem(sys.modules, "scipy.linalg.lapack", None)
    for word in range(3):
        seed = np.array([word, 7, 8, 9], np.uint32)
        out = np.empty(n, np.int32)
        shuffled_range(n, seed, out)
        assert (out == np.random.Generator(np.random.SFC64(seed)).choice(n, n, replace=False)).all()


def test_an_array_with_gaps_is_filled_too():
    memory, seed, n = np.empty(40_000, np.int32), np.arange(4, dtype=np.uint32), 20_000
    shuffled_range(n, seed, memory[::2])
    assert (memory[::2] == np.random.Generator(np.random.SFC64(seed)).choice(n, n, replace=False)).all()
