"""The backends for the CPU compute functions to the same bits."""

import numpy as np
import pytest

import ocannl as oc
from ocannl.codegen.formulas import FORMULAS
from ocannl.ir.ops import BY_NAME
from ocannl.testing.function_accuracy import samples, specials

NATIVE = [row.name for row in oc.backends() if row.usable and row.name in ("llvm", "c")]


def computed(backend, name, given):
    nodes = [oc.placeholder(f"x{n}", o=[len(x)]) for n, x in enumerate(given)]
    result = getattr(oc, name)(*nodes)
    ctx = oc.Context(backend)
    for node, x in zip(nodes, given, strict=True):
        ctx[node] = x
    ctx.compile(result.forward)()
    return ctx[result]


@pytest.mark.skipif(len(NATIVE) < 2, reason="there are not two of them here")
@pytest.mark.parametrize("name", FORMULAS)
def test_backends_agree_to_the_last_bit(name):
    op = BY_NAME[name]
    given = [np.concatenate(pair) for pair in zip(specials(op), samples(op, 100_001), strict=True)]
    first, *others = [computed(backend, name, given) for backend in NATIVE]
    number = ~np.isnan(first)
    for other in others:
        assert np.array_equal(np.isnan(other), ~number)
        assert np.array_equal(first[number].view(np.uint32), other[number].view(np.uint32))
