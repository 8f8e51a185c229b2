"""The backends for the CPU compute functions to the same bits."""

import numpy as np
import pytest

import ocannl as oc
from ocannl.codegen.formulas import ALL_FORMULAS
from ocannl.ir.ops import BY_NAME
from ocannl.testing.function_accuracy import samples, specials

NATIVE = [row.name for row in oc.backends() if row.usable and row.name in ("llvm", "c")]


def computed(backend, name, operands):
    nodes = [oc.placeholder(f"x{n}", o=[len(x)], dtype=str(x.dtype)) for n, x in enumerate(operands)]
    result = getattr(oc, name)(*nodes)
    ctx = oc.Context(backend)
    for node, x in zip(nodes, operands, strict=True):
        ctx[node] = x
    ctx.compile(result.forward)()
    return ctx[result]


@pytest.mark.skipif(len(NATIVE) < 2, reason="there are not two of them here")
@pytest.mark.parametrize("formula", ALL_FORMULAS, ids=lambda formula: f"{formula.name}-{formula.precision}")
def test_backends_agree_to_the_last_bit(formula):
    op, kind = BY_NAME[formula.name], formula.precision.numpy.type
    pairs = zip(specials(op, kind), samples(op, 100_001, kind=kind), strict=True)
    operands = [np.concatenate(pair) for pair in pairs]
    first, *results = [computed(backend, formula.name, operands) for backend in NATIVE]
    number = ~np.isnan(first)
    for result in results:
        assert np.array_equal(np.isnan(result), ~number)
        assert np.array_equal(first[number].view(np.uint8), result[number].view(np.uint8))
