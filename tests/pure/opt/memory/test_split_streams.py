"""Which loops are split; what the pass computes is tested beside its docstring."""

import pytest
from loop_programs.pass_results import array, assert_equal_results

from ocannl.ir.affine import Affine, Sym
from ocannl.ir.loops import AccessMode, Apply, Load, Proc, Ref, Update, loop
from ocannl.ir.ops import BY_NAME
from ocannl.opt.memory.split_streams import split_streams


def product(rows: int = 8, columns: int = 1, *, skipped: int = 0, transposed: bool = False) -> Proc:
    """`y = w @ x`, where the rows of `w` have 16 terms and `skipped` cells that are not read."""
    w = array("w", *((16, rows) if transposed else (rows, 16 + skipped)))
    x, y = array("x", 16, columns), array("y", rows, columns, access=AccessMode.INOUT)
    i, j, k = (Sym(name, 0, size - 1) for name, size in (("i", rows), ("j", columns), ("k", 16)))
    weight = Ref(w, tuple(map(Affine.of, (k, i) if transposed else (i, k))))
    term = Apply(BY_NAME["mul"], (Load(weight), Load(Ref(x, (Affine.of(k), Affine.of(j))))))
    body = (Update(Ref(y, (Affine.of(i), Affine.of(j))), BY_NAME["add"], term),)
    for sym in (k, j, i):
        body = (loop(sym, body),)
    return Proc("step", (w, x, y), (), body)


@pytest.mark.parametrize(
    ("proc", "min_rows", "is_split"),
    [
        (product(), 8, True),
        (product(), 9, False),  # rows are few
        (product(9), 8, False),  # the halves are not equal
        (product(columns=2), 8, False),  # rows are read twice
        (product(skipped=1), 8, False),  # rows are not adjacent
        (product(transposed=True), 8, False),  # rows belong to the reduction
        (product(2), 2, False),  # the array fits the cache
    ],
)
def test_rows_that_are_read_once_are_split(proc: Proc, min_rows: int, is_split: bool) -> None:
    after = split_streams(proc, 128, min_rows)
    assert (after.body != proc.body) is is_split
    assert_equal_results(proc, after)
