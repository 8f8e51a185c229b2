"""Products of bfloat16 matrices in tiles: which are, and that optimized programs compute the same."""

from __future__ import annotations

from dataclasses import replace
from unittest import mock

import numpy as np
import pytest

import ocannl as oc
from ocannl.ir.affine import Affine
from ocannl.ir.capabilities import Capabilities, TileUnit
from ocannl.ir.cpu import CacheLevel, Cpu
from ocannl.ir.interpret import interpret
from ocannl.ir.loops import For, MemorySpace, Proc
from ocannl.ir.printer import print_proc
from ocannl.ir.tile_products import TileProduct, tile_product
from ocannl.ir.verify import verify
from ocannl.ir.walk import walk
from ocannl.lower.lower import lower
from ocannl.opt import machine_model as machine
from ocannl.opt.analysis.substitution import substitute_statements
from ocannl.opt.fusion.fuse_epilogues import fuse_epilogues
from ocannl.opt.idioms.matrix_tiles.tensorize_products import tensorize_products
from ocannl.opt.idioms.matrix_tiles.tiled_product import _group_size
from ocannl.opt.pipeline import optimize

UNIT = TileUnit(terms_per_cycle=512, additions=49)
TARGET = Capabilities(vector_bytes=64, vector_registers=32, bfloat16_dots=True, bfloat16_tiles=UNIT)
SLOW = 2.0**-40  # pairs per cycle, if tiles are to compute all products


def operand(label: str, *shape: int) -> oc.Tensor:
    return oc.placeholder(label, output=shape, dtype="bfloat16")


def product(spec: str, *operands: oc.Tensor, dtype: str = "float32") -> oc.Tensor:
    return oc.einsum(spec, *operands).with_dtype(dtype)


def optimized(code: oc.Code, target: Capabilities = TARGET) -> tuple[Proc, Proc]:
    """Returns the lowered program and the optimized one."""
    program = oc.Context("numpy").compile(code)._program
    proc = lower(program.comp, "step")
    after = optimize(proc, program.keep_reasons, target)
    verify(after, "placed")
    return proc, after


def tiles(proc: Proc) -> list[TileProduct]:
    return [tile for stmt in proc.body for node in walk(stmt) if (tile := tile_product(node)) is not None]


def check(code: oc.Code, target: Capabilities = TARGET) -> list[TileProduct]:
    """Compares the lowered and the optimized program; returns the products of tiles."""
    before, after = optimized(code, target)
    equal(before, after)
    return tiles(after)


def equal(before: Proc, after: Proc) -> None:
    """Compares two programs on small integers, whose sums are exact."""
    rng = np.random.default_rng(0)
    arrays = {
        buf.node: rng.integers(-4, 5, buf.shape).astype(buf.precision.numpy)
        for buf in before.bufs if buf.node is not None
    }  # fmt: skip
    expected, computed = (interpret(proc, arrays) for proc in (before, after))
    for buf in after.bufs:
        if buf.space is MemorySpace.GLOBAL and buf.node is not None:
            np.testing.assert_array_equal(computed[buf.node], expected[buf.node])


FORMS = ["m,k; k,n => m,n", "m,k; n,k => m,n", "k,m; k,n => m,n", "k,m; n,k => m,n"]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("sizes", [(32, 32, 64), (35, 31, 66)], ids=str)
def test_products_of_matrices(form: str, sizes: tuple[int, ...]) -> None:
    extents = dict(zip("mnk", sizes, strict=True))
    axes = [part.strip().split(",") for part in form.partition("=>")[0].split(";")]
    x, y = (operand(label, *(extents[name] for name in names)) for label, names in zip("xy", axes, strict=True))
    with mock.patch.object(machine, "PAIR_TERMS_PER_CYCLE", SLOW):
        assert check(product(form, x, y).forward)


def test_rows_are_read_in_place() -> None:
    (tile,) = tiles(optimized(product(FORMS[0], operand("x", 32, 64), operand("w", 64, 256)).forward)[1])
    assert tile.left.buf.name == "x" and tile.right.buf.name == "w_2"


def test_terms_that_do_not_fill_tiles_are_padded() -> None:
    (tile,) = tiles(optimized(product(FORMS[0], operand("x", 32, 200), operand("w", 200, 256)).forward)[1])
    assert tile.left.buf.shape == (32, 224) and tile.pair.extent == 112


def test_the_smaller_operand_is_packed() -> None:
    """Both operands have contiguous terms, and either could be packed."""
    (tile,) = tiles(optimized(product(FORMS[1], operand("x", 32, 512), operand("w", 512, 512)).forward)[1])
    assert tile.left.buf.name == "w" and tile.right.buf.size == 32 * 512


def test_weights_are_packed_once() -> None:
    weight = oc.param("w", output=[512, 64], dtype="bfloat16")
    code = product("m,k; n,k => m,n", operand("x", 32, 64), weight).forward
    _, after = optimized(code, Capabilities(vector_bytes=64, bfloat16_tiles=UNIT, wants_precomputed_weights=True))
    (tile,) = tiles(after)
    assert tile.right.buf.name.startswith("w") and tile.right.buf.access.value == "precomputed"


def test_batches_and_epilogues() -> None:
    x, y, bias = operand("x", 2, 33, 32), operand("y", 2, 32, 40), oc.placeholder("b", output=[40])
    total = product("s,m,k; s,k,n => s,m,n", x, y)
    with mock.patch.object(machine, "PAIR_TERMS_PER_CYCLE", SLOW):
        assert check(oc.relu(oc.einsum("s,m,n; n => s,m,n", total, bias, combine="add")).forward)


def test_results_in_bfloat16() -> None:
    assert check(product(FORMS[0], operand("x", 32, 64), operand("y", 64, 64), dtype="bfloat16").forward)


def test_convolutions() -> None:
    image, kernel = operand("x", 18, 3, 32), operand("w", 3, 3, 32, 16)
    with mock.patch.object(machine, "PAIR_TERMS_PER_CYCLE", SLOW):
        tile = check(product("y<+i,x<+j,c; i,j,c,o => y,x,o", image, kernel).forward)
    assert {len(part.loops) for part in tile} == {3}


def test_sums_of_many_terms_are_added_in_parts() -> None:
    x, y = operand("x", 16, 160), operand("y", 160, 16)
    with mock.patch.multiple(machine, PAIR_TERMS_PER_CYCLE=SLOW, MAX_TILE_TERMS=64):
        tile = check(product(FORMS[0], x, y).forward)
    assert [part.pair.extent for part in tile] == [32]


def test_parts_of_convolutions() -> None:
    image, kernel = operand("x", 18, 3, 32), operand("w", 3, 3, 32, 16)
    with mock.patch.multiple(machine, PAIR_TERMS_PER_CYCLE=SLOW, MAX_TILE_TERMS=100):
        tile = check(product("y<+i,x<+j,c; i,j,c,o => y,x,o", image, kernel).forward)
    assert {len(part.loops) for part in tile} == {2}


def test_sums_of_too_many_parts_are_left() -> None:
    x, y = operand("x", 32, 32 * 46), operand("y", 32 * 46, 32)
    with mock.patch.multiple(machine, PAIR_TERMS_PER_CYCLE=SLOW, MAX_TILE_TERMS=32):
        assert not tiles(optimized(product(FORMS[0], x, y).forward)[1])


def test_strips_fit_the_cache() -> None:
    target = Capabilities(vector_bytes=64, bfloat16_tiles=UNIT, cpu=Cpu(l2=CacheLevel(1 << 14, 8, 16, 48)))
    with mock.patch.multiple(machine, PAIR_TERMS_PER_CYCLE=SLOW, MIN_OUTER_TRIPS=2, MAX_GROUP_IMBALANCE=1):
        code = product(FORMS[0], operand("x", 170, 32), operand("y", 32, 165)).forward
        assert check(code, target)
        assert "strip" in print_proc(optimized(code, target)[1])


@pytest.mark.parametrize(("blocks", "size"), [(64, 4), (46, 2), (25, 3), (24, 3), (10, 1), (1, 1)])
def test_groups_of_blocks_are_balanced(blocks: int, size: int) -> None:
    assert _group_size(blocks) == size


def test_threads_share_the_last_columns() -> None:
    """Of 47 blocks of columns, 23 pairs are groups. Threads share the rows of the last block, except the last rows."""
    code = product(FORMS[0], operand("x", 1500, 1024), operand("y", 1024, 1504)).forward
    loops = [stmt for stmt in optimized(code)[1].body if isinstance(stmt, For)]
    assert [stmt.sym.extent for stmt in loops] == [47, 23, 46, 1]  # the first one packs panels
    assert all(stmt.parallel_chunk for stmt in loops[:3])


@pytest.mark.parametrize("spec", ["m,k; k,n => m,n", "s,m,k; s,k,n => s,m,n", "s,m,k; k,n => s,m,n"])
def test_threads_share_rows(spec: str) -> None:
    """Neither strips nor a short loop over the batch are outermost."""
    extents = {"s": 2, "m": 1024, "k": 1024, "n": 1024}
    axes = [part.strip().split(",") for part in spec.partition("=>")[0].split(";")]
    x, y = (operand(label, *(extents[name] for name in names)) for label, names in zip("xy", axes, strict=True))
    _, after = optimized(product(spec, x, y).forward)
    loops = [stmt for stmt in after.body if isinstance(stmt, For)]
    assert len(loops) == 2 and all(stmt.parallel_chunk and stmt.sym.extent >= 8 for stmt in loops)


def test_columns_of_the_last_panel() -> None:
    with mock.patch.object(machine, "PAIR_TERMS_PER_CYCLE", SLOW):
        tile = check(product(FORMS[0], operand("x", 16, 32), operand("y", 32, 40)).forward)
    assert [part.column.extent for part in tile] == [32, 16]


def in_loop(x: oc.Tensor, y: oc.Tensor, specs: list[str]) -> Proc:
    """Products over the same loop `s`, which is fused."""
    results = [product(spec, x, y).forward for spec in specs]
    proc = fuse_epilogues(lower(oc.Context("numpy").compile(oc.seq(*results))._program.comp, "step"))
    outer, *rest = proc.body
    assert isinstance(outer, For)
    body = list(outer.body)
    for stmt in rest:
        assert isinstance(stmt, For)
        body += substitute_statements(stmt.body, {stmt.sym: Affine.of(outer.sym)})
    return replace(proc, body=(replace(outer, body=tuple(body)),))


def test_operands_that_depend_on_a_loop_are_packed_in_it() -> None:
    x, y = operand("x", 3, 35, 47), operand("y", 3, 47, 50)
    before = in_loop(x, y, ["s,m,k; s,k,n => s,m,n", "s,m,k; s,k,n => s,n,m"])
    with mock.patch.object(machine, "PAIR_TERMS_PER_CYCLE", SLOW):
        after = tensorize_products(before, TARGET)
    verify(after, "optimized")
    assert len(after.body) == 1 and len(tiles(after)) == 8
    assert all(tile.right.buf.space is MemorySpace.LOCAL for tile in tiles(after))
    equal(before, after)


def test_operands_that_a_loop_does_not_change_are_packed_before_it() -> None:
    x, y = operand("x", 3, 35, 64), operand("y", 64, 64)
    before = in_loop(x, y, ["s,m,k; k,n => s,m,n", "s,m,k; n,k => s,m,n"])
    with mock.patch.object(machine, "PAIR_TERMS_PER_CYCLE", SLOW):
        after = tensorize_products(before, TARGET)
    verify(after, "optimized")
    assert len(after.body) > 1 and {tile.right.buf.space for tile in tiles(after)} == {MemorySpace.ARENA}
    equal(before, after)


def test_local_memory_is_limited() -> None:
    before = in_loop(operand("x", 2, 64, 64), operand("y", 2, 64, 64), ["s,m,k; s,k,n => s,m,n"] * 2)
    with mock.patch.multiple(machine, PAIR_TERMS_PER_CYCLE=SLOW, MAX_LOCAL_OPERAND_BYTES=64 * 64 * 2):
        after = tensorize_products(before, TARGET)
    assert len({tile.right.buf for tile in tiles(after)}) == 1


@pytest.mark.parametrize("sizes", [(9, 64, 64), (64, 64, 15), (64, 15, 64), (17, 64, 33)], ids=str)
def test_small_products_are_left(sizes: tuple[int, int, int]) -> None:
    """Tiles would be half empty, or packing takes as long as the product."""
    m, k, n = sizes
    assert not tiles(optimized(product(FORMS[0], operand("x", m, k), operand("y", k, n)).forward)[1])


def test_other_precisions_are_left() -> None:
    x, y = (oc.placeholder(label, output=[64, 64], dtype="float16") for label in "xy")
    assert not tiles(optimized(product(FORMS[0], x, y).forward)[1])


def test_targets_without_tiles() -> None:
    target = Capabilities(vector_bytes=64, bfloat16_dots=True)
    assert not tiles(optimized(product(FORMS[0], operand("x", 64, 64), operand("y", 64, 64)).forward, target)[1])
