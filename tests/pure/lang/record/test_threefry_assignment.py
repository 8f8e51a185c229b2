"""`=^^^^` and `=:^^^^` beside the generator itself."""

from __future__ import annotations

import numpy as np
import pytest

import ocannl as oc
from ocannl.ir.threefry import threefry4x32

COUNTERS = np.arange(20, dtype=np.uint32).reshape(5, 4)


def words(key: tuple[int, ...], counter: np.ndarray) -> list[int]:
    return [int(word) for word in threefry4x32(key, tuple(map(int, counter)))]


def test_a_key_is_replaced() -> None:
    key = oc.placeholder("key", batch=[], input=[], output=[4], dtype="uint32")
    with oc.cd("next key") as code:
        key["=^^^^"] = oc.tensor(COUNTERS[1])
    ctx = oc.Context("numpy")
    ctx[key] = np.array([1, 2, 3, 4], np.uint32)
    step = ctx.compile(code)
    step()
    expected = words((1, 2, 3, 4), COUNTERS[1])
    assert ctx[key].tolist() == expected
    step()
    assert ctx[key].tolist() == words(tuple(expected), COUNTERS[1])


def test_a_cleared_target_has_the_key_zero() -> None:
    bits = oc.placeholder("bits", batch=[], input=[], output=[5, 4], dtype="uint32")
    with oc.cd("bits") as code:
        bits["=:^^^^"] = oc.tensor(COUNTERS)
    ctx = oc.Context("numpy")
    ctx.run(code)
    assert ctx[bits].tolist() == [words((0, 0, 0, 0), counter) for counter in COUNTERS]


def test_refusals() -> None:
    key = oc.placeholder("key", batch=[], input=[], output=[4], dtype="uint32")
    weights = oc.param("w", [1.0, 2.0, 3.0, 4.0])
    with oc.cd("refused"):
        with pytest.raises(oc.CodeError, match=r"'=\^\^\^\^' has no loops to write: leave '\.' out"):
            key["=^^^^", "."] = oc.tensor(COUNTERS[0])
        with pytest.raises(oc.DtypeError, match=r"takes uint32, and `w` is of float32"):
            weights["=^^^^"] = oc.tensor(COUNTERS[0])
