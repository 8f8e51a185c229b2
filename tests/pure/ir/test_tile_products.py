"""Products of tiles: a form of loop nests that is built and recognized."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from ocannl.base.errors import VerifyError
from ocannl.ir.affine import Affine, Sym
from ocannl.ir.loops import (
    AccessMode,
    Buf,
    For,
    Local,
    MemorySpace,
    Mode,
    Poll,
    Proc,
    Ref,
    is_tensorized,
    loop,
    row_major,
)
from ocannl.ir.precision import Precision, bfloat16, float16, float32
from ocannl.ir.tile_products import TileProduct, tile_product
from ocannl.ir.tnode import Role, TNode
from ocannl.ir.verify import verify

ROWS, COLUMNS, PAIRS = Sym("r", 0, 19), Sym("c", 0, 31), Sym("k", 0, 31)


def buf(name: str, *shape: int, kind: Precision = bfloat16, strides: tuple[int, ...] = ()) -> Buf:
    node = TNode(name, Role.RESULT, lambda: shape, lambda: kind)
    access = AccessMode.OUT if kind is float32 else AccessMode.IN
    return Buf(name, kind, shape, strides or row_major(shape), MemorySpace.GLOBAL, access, node)


def ref(of: Buf, *indices: Affine | Sym | int) -> Ref:
    return Ref(of, tuple(Affine((), index) if isinstance(index, int) else Affine.of(index) for index in indices))


def product(row: Sym = ROWS, column: Sym = COLUMNS, pair: Sym = PAIRS) -> TileProduct:
    x, w = buf("x", 32, 2 * pair.extent), buf("w", pair.extent, 32, 2)
    sums = buf("sums", 32, 32, kind=float32)
    left, right = ref(x, row, Affine.of(pair) * 2), ref(w, pair, column, 0)
    return TileProduct(ref(sums, row, column), left, right, row, column, (loop(pair, ()),))


def program(built: TileProduct, *body: For) -> Proc:
    return Proc("step", tuple(of.buf for of in (built.sums, built.left, built.right)), (), body)


def test_a_product_is_recognized() -> None:
    built = product()
    stmt = built.stmt("acc")
    assert is_tensorized(stmt) and tile_product(stmt) == built


def test_a_product_over_several_loops_is_recognized() -> None:
    step = Sym("s", 0, 2)
    x, w = buf("x", 3, 32, 64), buf("w", 32, 32, 2, 3, strides=(64, 2, 1, 2048))
    left, right = ref(x, step, ROWS, Affine.of(PAIRS) * 2), ref(w, PAIRS, COLUMNS, 0, step)
    built = replace(product(), left=left, right=right, loops=(loop(step, ()), loop(PAIRS, ())))
    assert tile_product(built.stmt("acc")) == built


INVALID: dict[str, Callable[[], TileProduct]] = {
    "rows": lambda: product(row=Sym("r", 0, 32)),
    "first row": lambda: product(row=Sym("r", 1, 16)),
    "columns": lambda: product(column=Sym("c", 0, 23)),
    "pairs": lambda: product(pair=Sym("k", 0, 23)),
    "strided sums": lambda: replace(product(), sums=ref(buf("sums", 32, 32, kind=float32), COLUMNS, ROWS)),
    "sums of several terms": lambda: replace(
        product(), sums=ref(buf("sums", 32, 32, 32, kind=float32), ROWS, PAIRS, COLUMNS)
    ),
    "half precision": lambda: replace(
        product(), left=ref(buf("x", 32, 64, kind=float16), ROWS, Affine.of(PAIRS) * 2)
    ),
    "distant pairs": lambda: replace(
        product(), left=ref(buf("x", 32, 64, strides=(1, 32)), ROWS, Affine.of(PAIRS) * 2)
    ),
    "columns on the left": lambda: replace(product(), left=ref(buf("x", 32, 96), ROWS, Affine.of(PAIRS) * 2 + COLUMNS)),
    "rows on the right": lambda: replace(
        product(), right=ref(buf("w", 64, 32, 2), Affine.of(ROWS) + PAIRS, COLUMNS, 0)
    ),
}


@pytest.mark.parametrize("name", INVALID)
def test_a_product_that_tiles_cannot_load(name: str) -> None:
    assert not INVALID[name]().is_valid
    if name != "half precision":  # whose factors are no pairs
        assert tile_product(INVALID[name]().stmt("acc")) is None


def test_other_statements_are_none() -> None:
    stmt = product().stmt("acc")
    (inner,) = stmt.body
    assert isinstance(inner, For)
    local = inner.body[0]
    assert isinstance(local, Local)
    assert tile_product(replace(stmt, mode=Mode.SERIAL)) is None
    assert tile_product(replace(stmt, body=(Poll(), inner))) is None
    assert tile_product(replace(stmt, body=(replace(inner, body=inner.body[:-1]),))) is None
    assert tile_product(replace(stmt, step=2)) is None
    assert tile_product(local) is None


def test_the_verifier_accepts_products_only() -> None:
    built = product()
    stmt = built.stmt("acc")
    verify(program(built, stmt), "optimized")
    with pytest.raises(VerifyError, match="tensorized loop is not a product of tiles"):
        verify(program(built, replace(stmt, body=(Poll(), *stmt.body))), "optimized")
