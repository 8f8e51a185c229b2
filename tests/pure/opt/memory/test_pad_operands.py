"""Which operands are padded; what the pass computes is tested beside its docstring."""

import pytest
from loop_programs.pass_results import array, assert_equal_results

from ocannl.ir.affine import Affine, Cond, Sym
from ocannl.ir.loops import AccessMode, Apply, Const, Load, Proc, Ref, Update, When, loop
from ocannl.ir.ops import BY_NAME
from ocannl.ir.precision import float32
from ocannl.opt.memory.pad_operands import pad_operands


def convolution(batch: int, extra: int = 0, is_grouped: bool = False) -> Proc:
    """Three taps over rows of nine cells with one cell of padding. With `extra`, guards are not bounds of the axis;
    with `is_grouped`, each row has weights of its own."""
    x, w = array("x", batch, 9), array("w", batch, 5, 3)
    y = array("y", batch, 5, 9, access=AccessMode.INOUT)
    b, c, i, k = (Sym(name, 0, size - 1) for name, size in (("b", batch), ("c", 5), ("i", 9), ("k", 3)))
    column = Affine.of(i) + k - 1
    cond = Cond((column - Affine.of(b) * extra, -column + 8, column)[: 3 if extra else 2])
    value = When(cond, Load(Ref(x, (Affine.of(b), column))), Const(0.0, float32))
    term = Apply(BY_NAME["mul"], (value, Load(Ref(w, (Affine.of(b) * is_grouped, Affine.of(c), Affine.of(k))))))
    body = (Update(Ref(y, tuple(map(Affine.of, (b, c, i)))), BY_NAME["add"], term),)
    for sym in (k, i, c, b):
        body = (loop(sym, body),)
    return Proc("step", (x, w, y), (), body)


@pytest.mark.parametrize(
    ("batch", "extra", "is_grouped", "min_terms", "is_padded"),
    [
        (2, 0, False, 8, True), (2, 0, False, 100, False), (6, 0, False, 8, False), (6, 0, True, 8, True),
        (2, 1, False, 8, False),
    ],
)
def test_operands_are_padded_where_tiles_would_be_guarded(
    batch: int, extra: int, is_grouped: bool, min_terms: int, is_padded: bool
) -> None:
    before = convolution(batch, extra, is_grouped)
    after = pad_operands(before, min_terms)
    assert (after is not before) is is_padded
    assert_equal_results(before, after)
