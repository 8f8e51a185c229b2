"""The loop order of transposes of large arrays, and the stores of their tiles."""

from __future__ import annotations

import numpy as np
import pytest

from ocannl.ir.affine import Affine, Sym
from ocannl.ir.assign import Assign, Piece, Read
from ocannl.ir.capabilities import Capabilities
from ocannl.ir.cpu import CacheLevel, Cpu
from ocannl.ir.interpret import interpret
from ocannl.ir.loops import Proc, Store
from ocannl.ir.name_mangling import Namer
from ocannl.ir.precision import Precision, bfloat16, float32, float64
from ocannl.ir.tnode import Role, TNode
from ocannl.ir.verify import verify
from ocannl.ir.walk import walk
from ocannl.lower.lower import lower
from ocannl.opt import machine_model
from ocannl.opt.analysis.nests import bound_names
from ocannl.opt.pipeline import optimize
from ocannl.opt.schedule.plan import TilePlan, model_plan
from ocannl.opt.schedule.schedule import schedulable_group

AVX512 = Capabilities(vector_bytes=64, vector_registers=32)
AVX2 = Capabilities(vector_bytes=32, vector_registers=16)


def transpose(order: str, *shape: int, kind: Precision = float32) -> Proc:
    """Reads axes `i`, `j`, ... and writes them in this order."""
    syms = {name: Sym(name, 0, size - 1) for name, size in zip("ijk", shape, strict=False)}
    sizes = tuple([syms[name].extent for name in order])
    x = TNode("x", Role.PLACEHOLDER, lambda: shape, lambda: kind)
    y = TNode("y", Role.PLACEHOLDER, lambda: sizes, lambda: kind)
    read, written = (tuple([Affine.of(syms[name]) for name in names]) for names in (sorted(order), order))
    return lower(Assign(y, None, False, (Piece(tuple(syms.values()), written, Read(x, read)),)), "step")


def planned(proc: Proc, target: Capabilities) -> TilePlan:
    group = schedulable_group(proc.body[0], Namer(bound_names(proc)))
    assert group is not None
    plan = model_plan(group, target)
    assert isinstance(plan, TilePlan)
    assert plan.transposed_loop is not None
    return plan


def order_of(plan: TilePlan) -> str:
    strip = f"{plan.strip[0].name}/{plan.strip[1]} " if plan.strip else ""
    return strip + "".join(sym.name for sym, _ in plan.loops)


@pytest.mark.parametrize(
    ("order", "shape", "loops"),
    [
        ("ji", (4096, 4096), "ij"),  # read row by row, and written in whole lines
        ("ji", (64, 65536), "j/32 ij"),  # strips are shared by threads
        ("ji", (65536, 128), "ji"),  # eight rows are in a page: written row by row
        ("ji", (4100, 4100), "j/32 ij"),  # lines are completed before they leave the first cache
        ("kji", (256, 256, 256), "ijk"),
        ("jki", (256, 256, 256), "ijk"),
        ("kij", (256, 256, 256), "kij"),
        ("kji", (201, 301, 251), "jik"),
        ("ji", (256, 256), "ji"),  # in a cache
    ],
)  # fmt: skip
def test_large_arrays_are_read_or_written_in_sequence(order: str, shape: tuple[int, ...], loops: str) -> None:
    assert order_of(planned(transpose(order, *shape), AVX512)) == loops


def test_tiles_cover_whole_lines_if_few_are_incomplete() -> None:
    half_lines = planned(transpose("ji", 4096, 4096), AVX2)
    assert (half_lines.lanes, half_lines.vectors, half_lines.strip) == (8, 2, None)
    many = planned(transpose("ji", 4096, 4096, kind=bfloat16), AVX512)
    assert (many.vectors, order_of(many)) == (1, "j/32 ij")


@pytest.mark.parametrize("target", [AVX2, AVX512], ids=["AVX2", "AVX512"])
@pytest.mark.parametrize("kind", [float32, float64, bfloat16], ids=str)
@pytest.mark.parametrize("order", ["ji", "ikj", "kji", "jki", "kij"])
@pytest.mark.parametrize("aligned", [True, False])
def test_results(
    order: str, kind: Precision, target: Capabilities, aligned: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a processor with caches so small that all arrays are large."""
    monkeypatch.setattr(machine_model, "MIN_NONTEMPORAL_BYTES", 0)
    tiny = CacheLevel(1 << 9, 2, 4, 64)
    capabilities = Capabilities(
        vector_bytes=target.vector_bytes, vector_registers=target.vector_registers,
        cpu=Cpu(l1=tiny, l2=tiny, l3=tiny, page_bytes=128),
    )  # fmt: skip
    shape = ((32, 16, 48) if aligned else (21, 18, 35))[: len(order)]
    proc = optimize(transpose(order, *shape, kind=kind), {}, capabilities, without=frozenset(["insert_polls"]))
    verify(proc, "placed", alignment_bytes=64)
    x, y = (next(buf for buf in proc.bufs if buf.node and buf.node.label == name).node for name in "xy")
    assert x and y
    cells = np.arange(np.prod(shape)).reshape(shape) % 251
    result = interpret(proc, {x: cells.astype(kind.numpy), y: np.zeros(y.dims, kind.numpy)})[y]
    wanted = np.transpose(cells, ["ijk".index(name) for name in order])
    np.testing.assert_array_equal(result.astype(np.int64), wanted)


@pytest.mark.parametrize(("columns", "streams"), [(4096, True), (4100, False)])
def test_whole_lines_bypass_the_caches(columns: int, streams: bool) -> None:
    proc = optimize(transpose("ji", columns, 4096), {}, AVX512)
    assert {node.nontemporal for node in walk(proc.body) if isinstance(node, Store)} == {streams}
