"""Programs on CPUs with narrower vectors, simulated by another LLVM target or by C compiler flags."""

import numpy as np
import pytest

import ocannl as oc
from ocannl.testing import kit

pytestmark = [pytest.mark.sample(48)]


class TestPrograms(kit.Programs):
    @pytest.fixture(scope="class")
    @classmethod
    def tested(cls, narrowed):
        return narrowed


def test_code_has_vectors_of_that_width_and_no_wider_ones(narrowed):
    x = np.arange(1000.0, dtype="float32")
    y = oc.tensor(x) * 2 + 1
    with oc.settings(cache=False), oc.Context(narrowed.name) as ctx:
        routine = ctx.compile(y.forward)
        routine()
        np.testing.assert_array_equal(ctx[y], 2 * x + 1)
    lanes, text = narrowed.capabilities.vector_bytes // 4, routine.source()
    vector_type = {"c": "f32x{}", "llvm": "<{} x float>"}[narrowed.name]
    assert vector_type.format(lanes) in text and vector_type.format(2 * lanes) not in text
