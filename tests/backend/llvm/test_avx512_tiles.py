"""Products of tiles by AVX512-BF16."""

from __future__ import annotations

import numpy as np
import pytest
from llvmlite import binding
from tile_programs import EXACT, always_tiled, programs

from ocannl.ir.affine import Affine, Sym
from ocannl.ir.loops import AccessMode, Buf, MemorySpace, Proc, Ref, loop, row_major
from ocannl.ir.precision import Precision, bfloat16, float32
from ocannl.ir.tile_products import MAX_COLUMNS, MAX_ROWS, TILE_COLUMNS, TileProduct
from ocannl.ir.tnode import Role, TNode
from ocannl_backend_llvm import jit
from ocannl_backend_llvm.avx512_tiles import MAX_BLOCK_PAIRS, UNROLLED_PAIRS
from ocannl_backend_llvm.emit import emit

SERVER = jit.Target("x86_64-unknown-linux-gnu", "cooperlake", "+avx512bf16,+avx512f,+avx512vl")

needs_instructions = pytest.mark.skipif(
    not jit.host().instructions.bfloat16_dots or jit.host().instructions.bfloat16_tiles,
    reason="this processor has no AVX512-BF16, or AMX as well",
)


@needs_instructions
def test_products_are_exact_or_within_their_bounds() -> None:
    """With one and two threads, whose results are equal."""
    with always_tiled():
        for name, error, run in programs():
            first = run(1)
            assert error(first) <= (0 if name in EXACT else 1), name
            np.testing.assert_array_equal(first, run(2), err_msg=name)


def buf(name: str, *shape: int, kind: Precision = bfloat16) -> Buf:
    node = TNode(name, Role.RESULT, lambda: shape, lambda: kind)
    access = AccessMode.OUT if kind is float32 else AccessMode.IN
    return Buf(name, kind, shape, row_major(shape), MemorySpace.GLOBAL, access, node)


def assembly(rows: int, columns: int, pairs: int) -> str:
    """The code of a product for the server, whatever the processor that the tests run on."""
    row, column, pair = Sym("r", 0, rows - 1), Sym("c", 0, columns - 1), Sym("k", 0, pairs - 1)
    x, w = buf("x", rows, 2 * pair.extent), buf("w", pair.extent, columns, 2)
    sums = buf("sums", rows, columns, kind=float32)
    left, right = Ref(x, (Affine.of(row), Affine.of(pair) * 2)), Ref(w, (Affine.of(pair), Affine.of(column), Affine()))
    product = TileProduct(
        Ref(sums, (Affine.of(row), Affine.of(column))), left, right, row, column, (loop(pair, ()),)
    )  # fmt: skip
    assert product.is_valid
    proc = Proc("p", (x, w, sums), (), (product.stmt("acc"),))
    (text,) = emit([proc], SERVER.instructions)
    module, machine = binding.parse_assembly(text), jit.machine(SERVER)
    with binding.create_new_module_pass_manager() as passes:
        passes.add_sroa_pass()
        passes.run(module, binding.create_pass_builder(machine, binding.create_pipeline_tuning_options()))
    return machine.emit_assembly(module)


@pytest.mark.parametrize("blocks", [1, 3])
@pytest.mark.parametrize(
    ("columns", "rows", "groups"),
    [
        (MAX_COLUMNS, 1, [1]), (MAX_COLUMNS, 8, [8]), (MAX_COLUMNS, 9, [5, 4]), (MAX_COLUMNS, 17, [6, 5]),
        (MAX_COLUMNS, 25, [7, 4]), (MAX_COLUMNS, MAX_ROWS, [8]), (TILE_COLUMNS, 9, [9]), (TILE_COLUMNS, 17, [9, 8]),
        (TILE_COLUMNS, MAX_ROWS, [16]),
    ],
)  # fmt: skip
def test_sums_of_a_block_stay_in_registers(columns: int, rows: int, groups: list[int], blocks: int) -> None:
    """Groups of the same size are a loop."""
    code = assembly(rows, columns, blocks * MAX_BLOCK_PAIRS)
    assert "Spill" not in code
    assert code.count("vdpbf16ps") == UNROLLED_PAIRS * sum(groups) * columns // TILE_COLUMNS
    assert ("vaddps" in code) == (blocks > 1)


def test_rates_of_targets() -> None:
    rates = {
        "+avx512bf16,+avx512f,+avx512vl": 32, "+avx512f,+avx512vl": None, "+avx512bf16,+avx512f": None,
        "+amx-bf16,+amx-tile,+avx512bf16,+avx512f,+avx512vl": 512,
    }  # fmt: skip
    for features, rate in rates.items():
        unit = jit.Target(SERVER.triple, SERVER.cpu, features).instructions.tile_unit
        assert (unit and unit.terms_per_cycle) == rate
