"""The example programs in the docstrings of passes: both sides are as printed and compute equal results."""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from ocannl.ir import loops as ir
from ocannl.ir.affine import TRUE, Affine, Sym, SymKind
from ocannl.ir.assign import Assign, Call, Comp, Index, IndirectIndex, Loop, Number, Piece, Read, Seq, Value
from ocannl.ir.capabilities import ALL_OPERATIONS, Capabilities, TileUnit
from ocannl.ir.cpu import CacheLevel, Cpu
from ocannl.ir.interpret import interpret
from ocannl.ir.loops import MemorySpace, Proc
from ocannl.ir.ops import ADD, BY_NAME, Op
from ocannl.ir.precision import Precision, bfloat16, float32, float64, int8, int32
from ocannl.ir.printer import print_proc
from ocannl.ir.tnode import Placement, Role, TNode
from ocannl.lower.lower import lower
from ocannl.opt.analysis.substitution import with_buffers
from ocannl.opt.fusion.flatten_fused_loops import flatten_fused_loops
from ocannl.opt.fusion.fuse_epilogues import fuse_epilogues
from ocannl.opt.fusion.fuse_outer_loops import fuse_outer_loops
from ocannl.opt.fusion.fuse_parallel_loops import fuse_parallel_loops
from ocannl.opt.fusion.hoist_parallel_loop import hoist_parallel_loop
from ocannl.opt.fusion.inline_casts import inline_casts
from ocannl.opt.fusion.inline_producers import inline_producers
from ocannl.opt.fusion.merge_initialization import merge_initialization
from ocannl.opt.idioms.attention.online_softmax import online_softmax
from ocannl.opt.idioms.attention.recompute_attention import recompute_attention
from ocannl.opt.idioms.attention.skip_masked_keys import skip_masked_keys
from ocannl.opt.idioms.form_pair_dots import form_pair_dots
from ocannl.opt.idioms.matrix_tiles.tensorize_products import tensorize_products
from ocannl.opt.idioms.merge_gather_initialization import merge_gather_initialization
from ocannl.opt.idioms.one_hot_to_gather import one_hot_to_gather
from ocannl.opt.idioms.precompute_indices import precompute_indices
from ocannl.opt.idioms.scatter_to_gather import scatter_to_gather
from ocannl.opt.idioms.widen_scatter_accumulators import widen_scatter_accumulators
from ocannl.opt.memory.allocate_memory import allocate_memory
from ocannl.opt.memory.choose_layouts import choose_layouts
from ocannl.opt.memory.decide_placement import decide_placement
from ocannl.opt.memory.hoist_invariant_nests import hoist_invariant_nests
from ocannl.opt.memory.pad_operands import pad_operands
from ocannl.opt.memory.pad_rows import pad_rows
from ocannl.opt.memory.precompute_weight_arrays import precompute_packed_weights, precompute_weight_arrays
from ocannl.opt.memory.prefetch import prefetch
from ocannl.opt.memory.prefetch_streams import prefetch_streams
from ocannl.opt.memory.split_streams import split_streams
from ocannl.opt.memory.use_nontemporal_stores import use_nontemporal_stores
from ocannl.opt.parallel.distribute_sequential_loops import distribute_sequential_loops
from ocannl.opt.parallel.insert_polls import insert_polls
from ocannl.opt.parallel.parallelize import parallelize
from ocannl.opt.parallel.privatize_copies import privatize_copies
from ocannl.opt.parallel.privatize_reductions import privatize_reductions
from ocannl.opt.parallel.split_reductions import split_reductions
from ocannl.opt.pipeline import passes
from ocannl.opt.schedule.schedule import schedule
from ocannl.opt.simplify.compose_operations import compose_operations
from ocannl.opt.simplify.eliminate_common_subexpressions import eliminate_common_subexpressions
from ocannl.opt.simplify.eliminate_dead_code import eliminate_dead_code
from ocannl.opt.simplify.eliminate_equal_arrays import eliminate_equal_arrays
from ocannl.opt.simplify.simplify import simplify
from ocannl.opt.simplify.split_live_ranges import split_live_ranges

TARGET = Capabilities()
FEW_OPERATIONS = Capabilities(operations=ALL_OPERATIONS - {"abs"})
SMALL_CPU = Cpu(l3=CacheLevel(128, 2, 8, 8), memory_latency_cycles=8, memory_bytes_per_cycle=4)
TILING_TARGET = Capabilities(vector_bytes=64, bfloat16_tiles=TileUnit(512, 49))
PAIRING_TARGET = Capabilities(vector_bytes=16, bfloat16_dots=True)


def node(label: str, *dims: int, role: Role = Role.RESULT, kind: Precision = float32) -> TNode:
    return TNode(label, role, lambda: dims, lambda: kind)


def loop(size: int, name: str = "i") -> Sym:
    return Sym(name, 0, size - 1)


def at(*indices: Affine | Sym) -> tuple[Affine, ...]:
    return tuple(map(Affine.of, indices))


def apply(name: str, *args: Value) -> Value:
    return Call(BY_NAME[name], args)


def put(lhs: TNode, loops: tuple[Sym, ...], value: Value, accum: Op | None = None) -> Assign:
    return Assign(lhs, accum, True, (Piece(loops, at(*loops[: len(lhs.dims)]), value),))


def chain(ops: str, size: int = 5) -> tuple[Comp, list[TNode]]:
    """Returns nodes by letter: `x`, and a chain of operations, each applied to the result of the one before."""
    nodes = [node("x", size, role=Role.PLACEHOLDER)]
    code = []
    for word in ops.split():
        label, op, *numbers = word.split(":")
        i = loop(size)
        result = node(label, size)
        code.append(put(result, (i,), apply(op, Read(nodes[-1], at(i)), *(Number(int(n)) for n in numbers))))
        nodes.append(result)
    return Seq(tuple(code)), nodes


def to_settle() -> Proc:
    return lower(chain("h:tanh y:mul:2")[0], "step")


def to_fold() -> Proc:
    x, y, i = node("x", 5, role=Role.PLACEHOLDER), node("y", 5), loop(5)
    mask = apply("le", Index(Affine.of(i)), Number(2))
    value = apply("where", mask, apply("mul", Read(x, at(i)), Number(1)), apply("mul", Number(2), Number(3)))
    return lower(put(y, (i,), value), "step")


def to_join() -> Proc:
    x, y, g = node("x", 5, role=Role.PLACEHOLDER), node("y", 5, role=Role.PLACEHOLDER), node("g", 5)
    i, j, k = loop(5), loop(5), loop(5)
    add = [Assign(g, ADD, False, (Piece((s,), at(s), Read(of, at(s))),)) for s, of in ((j, x), (k, y))]
    return lower(Seq((put(g, (i,), Number(0)), *add)), "step")


def to_inline() -> Proc:
    code, nodes = chain("t:relu")
    i, y = loop(3), node("y", 3)
    last = put(y, (i,), apply("mul", Read(nodes[1], at(Affine.of(i) + 2)), Number(2)))
    return decide_placement(lower(Seq((code, last)), "step"), {})


def to_loop_cast() -> Proc:
    x, h, wide = (node(name, 5, role=role, kind=kind) for name, role, kind in (
        ("x", Role.PLACEHOLDER, int8), ("h", Role.PLACEHOLDER, int32), ("t", Role.RESULT, int32)
    ))  # fmt: skip
    i, j, s = loop(5), loop(5, "j"), Sym("s", 0, 2, SymKind.ITERATION)
    step = put(h, (j,), Read(wide, at(j)), ADD)
    return decide_placement(lower(Seq((put(wide, (i,), Read(x, at(i))), Loop(s, step))), "step"), {})


def to_gather() -> Proc:
    y, b, v = node("y", 3), loop(3, "b"), loop(5, "v")
    ids, x = node("ids", 3, role=Role.PLACEHOLDER, kind=int32), node("x", 5, role=Role.PLACEHOLDER)
    test = apply("eq", Read(ids, at(b)), Index(Affine.of(v)))
    return lower(put(y, (b, v), apply("where", test, Read(x, at(v)), Number(0)), ADD), "step")


def to_sweep() -> Proc:
    x, t, y = node("x", 5, role=Role.PLACEHOLDER), node("t", 5), node("y", 5)
    t.requested.set(Placement.TEMPORARY, "oc.virtual")
    i, k = loop(5), loop(5)
    first = put(t, (i,), apply("add", Read(x, at(i)), Number(1)))
    return decide_placement(lower(Seq((first, put(y, (k,), apply("mul", Read(x, at(k)), Number(2))))), "step"), {})


def to_unite() -> Proc:
    x, s, t, y = node("x", 5, role=Role.PLACEHOLDER), *(node(label, 5) for label in "sty")
    i, k, n = loop(5), loop(5, "k"), loop(5, "n")
    twice = (put(target, (sym,), apply("exp", Read(x, at(sym)))) for target, sym in ((s, i), (t, k)))
    product = put(y, (n,), apply("mul", Read(s, at(n)), Read(t, at(n))))
    return decide_placement(lower(Seq((*twice, product)), "step"), {})


def to_invert() -> Proc:
    x, g, w = (node(label, size, role=Role.PLACEHOLDER) for label, size in (("x", 11), ("g", 5), ("w", 3)))
    o, k = loop(5, "o"), loop(3, "k")
    term = apply("mul", Read(g, at(o)), Read(w, at(k)))
    return lower(Assign(x, ADD, False, (Piece((o, k), at(Affine.of(o) * 2 + k), term),)), "step")


def to_widen() -> Proc:
    x, g = node("x", 3, role=Role.PLACEHOLDER), node("g", 5, role=Role.PLACEHOLDER)
    ids = node("ids", 5, role=Role.PLACEHOLDER, kind=int32)
    i, v = loop(5), Sym("v", 0, 2, SymKind.INDIRECT)
    indirect = IndirectIndex(v, Read(ids, at(i)))
    return lower(Assign(x, ADD, False, (Piece((i,), at(v), Read(g, at(i)), indirect=(indirect,)),)), "step")


def to_layout() -> Proc:
    x, h, y = node("x", 16, 32, role=Role.PLACEHOLDER), node("h", 32, 16), node("y", 16, 32)
    h.requested.set(Placement.TEMPORARY, "oc.virtual")
    (i, j), (k, l) = (loop(32), loop(16, "j")), (loop(16), loop(32, "j"))
    first = put(h, (i, j), apply("mul", Read(x, at(j, i)), Number(2)))
    return decide_placement(lower(Seq((first, put(y, (k, l), apply("add", Read(h, at(l, k)), Number(1))))), "step"), {})


def to_fuse() -> Proc:
    w, y, i, j = node("w", 5, 7, role=Role.PLACEHOLDER), node("y", 5), loop(5), loop(7, "j")
    z, k = node("z", 5), loop(5)
    y.requested.set(Placement.TEMPORARY, "oc.virtual")
    total = put(y, (i, j), Read(w, at(i, j)), ADD)
    return decide_placement(lower(Seq((total, put(z, (k,), apply("tanh", Read(y, at(k)))))), "step"), {})


def to_outer() -> Proc:
    x, h, y = node("x", 16, 64, role=Role.PLACEHOLDER), node("h", 16, 64), node("y", 16, 64)
    h.requested.set(Placement.TEMPORARY, "oc.virtual")
    (i, b), (c, j) = (loop(64), loop(16, "b")), (loop(16, "b"), loop(64, "j"))
    first = Assign(h, None, True, (Piece((i, b), at(b, i), apply("exp", Read(x, at(b, i)))),))
    last = put(y, (c, j), apply("mul", Read(h, at(c, -Affine.of(j) + 63)), Number(2)))
    return decide_placement(lower(Seq((first, last)), "step"), {})


def to_extend() -> Proc:
    x, w, y = (node(label, size, role=Role.PLACEHOLDER) for label, size in (("x", 8), ("w", 4), ("y", 8)))
    i, k = loop(8), loop(4, "k")
    term = apply("mul", Read(x, at(Affine.of(i) + k - 3), 0.0), Read(w, at(k)))
    return lower(Assign(y, ADD, False, (Piece((i, k), at(i), term),)), "step")


def to_pad() -> Proc:
    x, h, y = node("x", 8, 32, role=Role.PLACEHOLDER), node("h", 8, 32), node("y", 8)
    h.requested.set(Placement.TEMPORARY, "oc.virtual")
    (i, j), (k, l) = (loop(8), loop(32, "j")), (loop(8), loop(32, "j"))
    first = put(h, (i, j), apply("exp", Read(x, at(i, j))))
    last = Assign(y, ADD, False, (Piece((k, l), at(k), Read(h, at(k, l))),))
    return decide_placement(lower(Seq((first, last)), "step"), {})


def to_phase() -> Proc:
    return hoist_parallel_loop(to_outer(), Capabilities(vector_bytes=64), min_bytes=4096)


def to_privatize_sums() -> Proc:
    x, h, y = node("x", 8, 4, 16, role=Role.PLACEHOLDER), node("h", 8, 4, 16), node("y", 16)
    h.requested.set(Placement.TEMPORARY, "oc.virtual")
    (b, i, j), (m, c, k) = (loop(8, "b"), loop(4), loop(16, "j")), (loop(16, "m"), loop(8, "c"), loop(4, "k"))
    cells = put(h, (b, i, j), apply("exp", Read(x, at(b, i, j))))
    total = Assign(y, ADD, True, (Piece((m, c, k), at(m), Read(h, at(c, k, m))),))
    proc = fuse_epilogues(decide_placement(lower(Seq((cells, total)), "step"), {}))
    return replace(proc, body=(replace(proc.body[0], parallel_chunk=1), *proc.body[1:]))


def to_again() -> Proc:
    q, k = (node(label, 8, 2, role=Role.PLACEHOLDER) for label in "qk")
    z = node("z", 8)
    c, m, e, s = (node(label, *dims) for label, *dims in (("c", 8, 8), ("m", 8), ("e", 8, 8), ("s", 8)))
    for temporary in (c, m, e, s):
        temporary.requested.set(Placement.TEMPORARY, "oc.virtual")
    (i, j, o, n, r), (t, u, v, w, x) = [loop(8, name) for name in "ijons"], [loop(8, "t") for _ in range(5)]
    d = loop(2, "d")
    code: list[Comp] = [
        Assign(c, ADD, True, (Piece((r, x, d), at(r, x), apply("mul", Read(q, at(r, d)), Read(k, at(x, d)))),)),
        Assign(m, BY_NAME["max"], True, (Piece((i, t), at(i), Read(c, at(i, t))),)),
        put(e, (j, u), apply("exp", apply("sub", Read(c, at(j, u)), Read(m, at(j))))),
        Assign(s, ADD, True, (Piece((o, v), at(o), Read(e, at(o, v))),)),
        Assign(z, ADD, True, (Piece((w, n), at(w), apply("div", Read(e, at(n, w)), Read(s, at(n)))),)),
    ]
    return fuse_epilogues(decide_placement(lower(Seq(tuple(code)), "step"), {}))


def to_online() -> Proc:
    x, v = node("x", 2, 4, role=Role.PLACEHOLDER, kind=float64), node("v", 4, 3, role=Role.PLACEHOLDER, kind=float64)
    y = node("y", 2, 3, kind=float64)
    m, e, s = (node(label, *dims, kind=float64) for label, *dims in (("m", 2), ("e", 2, 4), ("s", 2)))
    for temporary in (m, e, s):
        temporary.requested.set(Placement.TEMPORARY, "oc.virtual")
    code: list[Comp] = []
    rows = [loop(2) for _ in range(4)]
    keys = [loop(4, "t") for _ in range(4)]
    (i, j, k, n), (t, u, w, z), d = rows, keys, loop(3, "d")
    code.append(Assign(m, BY_NAME["max"], True, (Piece((i, t), at(i), Read(x, at(i, t))),)))
    code.append(put(e, (j, u), apply("exp", apply("sub", Read(x, at(j, u)), Read(m, at(j))))))
    code.append(Assign(s, ADD, True, (Piece((k, w), at(k), Read(e, at(k, w))),)))
    part = apply("div", Read(e, at(n, z)), Read(s, at(n)))
    code.append(Assign(y, ADD, True, (Piece((n, d, z), at(n, d), apply("mul", part, Read(v, at(z, d)))),)))
    return fuse_epilogues(decide_placement(lower(Seq(tuple(code)), "step"), {}))


def to_skip() -> Proc:
    x, m, s = node("x", 32, role=Role.PLACEHOLDER), node("m"), node("s")
    p = Sym("p", 0, 31, SymKind.STATIC)

    def score(t: Sym) -> Value:
        return apply("where", apply("ge", Index(Affine.of(p) - t), Number(0)), Read(x, at(t)), Number(-math.inf))

    t, u = loop(32, "t"), loop(32, "u")
    code: list[Comp] = [
        Assign(m, BY_NAME["max"], True, (Piece((t,), at(), score(t)),)),
        Assign(s, ADD, True, (Piece((u,), at(), apply("exp", apply("sub", score(u), Read(m, at())))),)),
    ]
    return fuse_epilogues(simplify(decide_placement(lower(Seq(tuple(code)), "step"), {})))


def to_rows() -> Proc:
    x, t, y = node("x", 4, 64, role=Role.PLACEHOLDER), node("s", 4), node("y", 4, 64)
    i, j, k, n = loop(4), loop(64, "j"), loop(4, "k"), loop(64, "n")
    total = Assign(t, ADD, True, (Piece((i, j), at(i), Read(x, at(i, j))),))
    shares = put(y, (k, n), apply("div", Read(x, at(k, n)), Read(t, at(k))))
    return fuse_epilogues(decide_placement(lower(Seq((total, shares)), "step"), {}))


def to_parts() -> Proc:
    x, y, i = node("x", 192, role=Role.PLACEHOLDER), node("y"), loop(192)
    return lower(Assign(y, ADD, False, (Piece((i,), at(), Read(x, at(i))),)), "step")


def to_two_streams() -> Proc:
    w, x = node("w", 8, 16, role=Role.PLACEHOLDER), node("x", 16, role=Role.PLACEHOLDER)
    y, i, k = node("y", 8), loop(8), loop(16, "k")
    term = apply("mul", Read(w, at(i, k)), Read(x, at(k)))
    return lower(Assign(y, ADD, False, (Piece((i, k), at(i), term),)), "step")


def to_prefetch_streams() -> Proc:
    x, y = (
        ir.Buf(name, float32, dims, strides, MemorySpace.GLOBAL, access, node(name, *dims, role=Role.PLACEHOLDER))
        for name, dims, strides, access in (
            ("x", (4, 16), (16, 1), ir.AccessMode.IN), ("y", (4,), (1,), ir.AccessMode.OUT),
        )
    )  # fmt: skip
    acc = ir.Buf("acc", float32, (), (), MemorySpace.LOCAL, ir.AccessMode.TEMP)
    i, j, k = loop(4), loop(4, "j"), loop(4, "k")
    term = ir.Update(ir.Ref(acc, ()), ADD, ir.Load(ir.Ref(x, (Affine.of(i), 4 * Affine.of(j) + k))))
    row = (
        ir.Local(acc), ir.Store(ir.Ref(acc, ()), ir.Const(0, float32)),
        ir.loop(j, (ir.loop(k, (term,), mode=ir.Mode.VECTORIZED),)),
        ir.Store(ir.Ref(y, at(i)), ir.Load(ir.Ref(acc, ()))),
    )  # fmt: skip
    return Proc("step", (x, y), (), (ir.loop(i, row),))


def to_pair(rows: int = 4, terms: int = 6, columns: int = 16) -> Proc:
    x, w = (
        node(name, *dims, role=Role.PLACEHOLDER, kind=bfloat16)
        for name, *dims in (("x", rows, terms), ("w", terms, columns))
    )
    y, i, j, k = node("y", rows, columns), loop(rows), loop(columns, "j"), loop(terms, "k")
    term = apply("mul", Read(x, at(i, k)), Read(w, at(k, j)))
    product = Assign(y, ADD, True, (Piece((i, j, k), at(i, j), term),))
    return fuse_epilogues(decide_placement(lower(product, "step"), {}))


def to_schedule() -> Proc:
    w, y, i, j = node("w", 5, 7, role=Role.PLACEHOLDER), node("y", 5), loop(5), loop(7, "j")
    return lower(Assign(y, ADD, False, (Piece((i, j), at(i), Read(w, at(i, j))),)), "step")


def to_number() -> Proc:
    x, y, i = node("x", 5, role=Role.PLACEHOLDER), node("y", 5), loop(5)
    e = apply("exp", Read(x, at(i)))
    return lower(put(y, (i,), apply("div", e, apply("add", Number(1), e))), "step")


def to_prefetch() -> Proc:
    x, y, z = (
        ir.Buf(name, float32, (4, 8), (8, 1), MemorySpace.GLOBAL, access, node(name, 4, 8, role=Role.PLACEHOLDER))
        for name, access in (("x", ir.AccessMode.IN), ("y", ir.AccessMode.OUT), ("z", ir.AccessMode.OUT))
    )
    i, j, k = loop(4), loop(8, "j"), loop(8, "k")

    def lanes(to: ir.Buf, sym: Sym, op: str) -> ir.Stmt:
        value = ir.Apply(BY_NAME[op], (ir.Load(ir.Ref(x, at(i, sym))), ir.Const(2, float32)))
        return ir.loop(sym, (ir.Store(ir.Ref(to, at(i, sym)), value),), mode=ir.Mode.VECTORIZED)

    return Proc("step", (x, y, z), (), (ir.loop(i, (lanes(y, j, "mul"), lanes(z, k, "add"))),))


def to_stream() -> Proc:
    x, y, i = node("x", 64, role=Role.PLACEHOLDER), node("y", 64), loop(64)
    added = put(y, (i,), apply("exp", Read(x, at(i))))
    return schedule(decide_placement(lower(added, "step"), {}), Capabilities(vector_bytes=64))


def to_share() -> Proc:
    x, y, i, j = node("x", 6, 2, role=Role.PLACEHOLDER), node("y", 6, 2), loop(6), loop(2, "j")
    return decide_placement(lower(put(y, (i, j), apply("tanh", Read(x, at(i, j)))), "step"), {})


def to_poll() -> Proc:
    x, i = node("x", 90, role=Role.PLACEHOLDER), loop(90)
    return decide_placement(lower(put(x, (i,), apply("add", Read(x, at(i)), Number(1))), "step"), {})


def at_step(lhs: TNode, t: Sym, loops: tuple[Sym, ...], value: Value) -> Assign:
    return Assign(lhs, None, False, (Piece(loops, at(t, *loops), value),))


def to_split() -> Proc:
    x, y, v = node("x", 3, 5, role=Role.PLACEHOLDER), node("y", 3, 5, role=Role.PLACEHOLDER), node("v", 5)
    code = []
    for name, lhs, op in (("t", x, "exp"), ("s", y, "tanh")):
        t, i, j = Sym(name, 0, 2, SymKind.ITERATION), loop(5), loop(5, "j")
        body = Seq((put(v, (i,), apply(op, Read(lhs, at(t, i)))), at_step(lhs, t, (j,), Read(v, at(j)))))
        code.append(Loop(t, body))
    return decide_placement(lower(Seq(tuple(code)), "step"), {})


def to_distribute() -> Proc:
    w, x = node("w", 9, role=Role.PLACEHOLDER), node("x", 3, 9, role=Role.PLACEHOLDER)
    h = node("h", role=Role.PLACEHOLDER)
    p, t, i = node("p"), Sym("t", 0, 2, SymKind.ITERATION), loop(9)
    dot = put(p, (i,), apply("mul", Read(w, at(i)), Read(x, at(t, i))), ADD)
    nxt = put(h, (), apply("tanh", apply("add", Read(p, ()), Read(h, ()))))
    return decide_placement(lower(Loop(t, Seq((dot, nxt))), "step"), {})


def to_hoist() -> Proc:
    w, x, v = node("w", 5, role=Role.PLACEHOLDER), node("x", 3, 5, role=Role.PLACEHOLDER), node("v", 5)
    t, i, j = Sym("t", 0, 2, SymKind.ITERATION), loop(5), loop(5, "j")
    scaled = at_step(x, t, (j,), apply("mul", Read(v, at(j)), Read(x, at(t, j))))
    body = Seq((put(v, (i,), apply("exp", Read(w, at(i)))), scaled))
    return decide_placement(lower(Loop(t, body), "step"), {})


def to_request() -> Proc:
    w, x, v = node("w", 5, role=Role.PARAMETER), node("x", 5, role=Role.PLACEHOLDER), node("v", 5)
    i, j = loop(5), loop(5, "j")
    scaled = put(x, (j,), apply("mul", Read(v, at(j)), Read(x, at(j))))
    return decide_placement(lower(Seq((put(v, (i,), apply("exp", Read(w, at(i)))), scaled)), "step"), {})


def to_request_again() -> Proc:
    """The program with a copy of the precomputed array, as for tiles that read it in another order."""
    proc = precompute_weight_arrays(to_request())
    (v,) = (buf for buf in proc.bufs if buf.name == "v")
    copied = replace(v, name="v_2", space=MemorySpace.ARENA, access=ir.AccessMode.TEMP)
    region, scaled = proc.body
    (use,) = with_buffers((scaled,), {v: copied})
    i = Sym("i_2", 0, 4)
    copy = ir.loop(i, (ir.Store(ir.Ref(copied, (Affine.of(i),)), ir.Load(ir.Ref(v, (Affine.of(i),)))),))
    bufs = (*(buf for buf in proc.bufs if buf.access is not ir.AccessMode.PRECOMPUTED), copied)
    bufs += tuple(buf for buf in proc.bufs if buf.access is ir.AccessMode.PRECOMPUTED)
    return replace(proc, bufs=bufs, body=(region, copy, use))


def to_flatten() -> Proc:
    x, y, z = node("x", 5, role=Role.PLACEHOLDER), node("y", 5), node("z", 5)
    bx, by, bz = (
        ir.Buf(n.label, float32, (5,), (1,), MemorySpace.GLOBAL, access, n)
        for n, access in ((x, ir.AccessMode.IN), (y, ir.AccessMode.OUT), (z, ir.AccessMode.OUT))
    )
    h, i = ir.Buf("h", float32, (), (), MemorySpace.LOCAL, ir.AccessMode.TEMP), loop(5)
    e = ir.Var("e", float32)
    scope = ir.If(TRUE, (
        ir.Let("e", ir.Apply(BY_NAME["exp"], (ir.Load(ir.Ref(bx, at(i))),))),
        ir.Store(ir.Ref(h, ()), ir.Apply(BY_NAME["mul"], (e, e))),
        ir.Store(ir.Ref(by, at(i)), e),
    ))
    total = ir.Apply(BY_NAME["add"], (ir.Load(ir.Ref(h, ())), ir.Load(ir.Ref(by, at(i)))))
    return Proc("step", (bx, by, bz), (), (ir.loop(i, (ir.Local(h), scope, ir.Store(ir.Ref(bz, at(i)), total))),))


def to_precompute() -> Proc:
    y, x = node("y", 3, role=Role.PLACEHOLDER), node("x", 5, role=Role.PLACEHOLDER)
    i, v = loop(5), Sym("v", 0, 2, SymKind.INDIRECT)
    indirect = IndirectIndex(v, apply("trunc", Read(x, at(i))))
    return lower(Assign(y, ADD, False, (Piece((i,), at(v), Number(1), indirect=(indirect,)),)), "step")


def to_store() -> Proc:
    y, b, v, k = node("y", 3, 4), loop(3, "b"), loop(5, "v"), loop(4, "k")
    ids, x = node("n", 3, role=Role.PLACEHOLDER, kind=int32), node("x", 5, 4, role=Role.PLACEHOLDER)
    test = apply("eq", Read(ids, at(b)), Index(Affine.of(v)))
    picked = Assign(
        y, ADD, True, (Piece((b, v, k), at(b, k), apply("where", test, Read(x, at(v, k)), Number(0))),)
    )
    return one_hot_to_gather(lower(picked, "step"))


def to_privatize() -> Proc:
    w, x = node("w", 3, 2, role=Role.PLACEHOLDER), node("x", 8, 3, role=Role.PLACEHOLDER)
    t, y = node("t", 2, 3), node("y", 8, 2)
    i, j, b, o, k = loop(2), loop(3, "j"), loop(8, "b"), loop(2, "o"), loop(3, "k")
    copy = put(t, (i, j), Read(w, at(j, i)))
    product = apply("mul", Read(x, at(b, k)), Read(t, at(o, k)))
    code = Seq((copy, Assign(y, ADD, False, (Piece((b, o, k), at(b, o), product),))))
    return parallelize(decide_placement(lower(code, "step"), {y: "kept"}), 100, 1)


def to_memory() -> Proc:
    return decide_placement(lower(chain("s:exp t:exp u:exp y:exp", 64)[0], "step"), {})


def to_compose() -> Proc:
    x, y, i = node("x", 5, role=Role.PLACEHOLDER), node("y", 5), loop(5)
    sizes = Assign(y, ADD, True, (Piece((i,), at(i), apply("abs", Read(x, at(i)))),))
    return merge_initialization(lower(sizes, "step"))


TABLE: dict[str, tuple[Callable[..., Proc], Callable[[], Proc], Callable[[Proc], Proc]]] = {
    "decide_placement": (decide_placement, to_settle, lambda proc: decide_placement(proc, {})),
    "split_live_ranges": (split_live_ranges, to_split, split_live_ranges),
    "simplify": (simplify, to_fold, simplify),
    "merge_initialization": (merge_initialization, to_join, merge_initialization),
    "inline_casts": (inline_casts, to_loop_cast, inline_casts),
    "inline_producers": (inline_producers, to_inline, lambda proc: inline_producers(proc, True)),
    "one_hot_to_gather": (one_hot_to_gather, to_gather, one_hot_to_gather),
    "eliminate_equal_arrays": (eliminate_equal_arrays, to_unite, eliminate_equal_arrays),
    "eliminate_dead_code": (eliminate_dead_code, to_sweep, eliminate_dead_code),
    "distribute_sequential_loops": (
        distribute_sequential_loops, to_distribute, distribute_sequential_loops,
    ),
    "scatter_to_gather": (scatter_to_gather, to_invert, scatter_to_gather),
    "widen_scatter_accumulators": (
        widen_scatter_accumulators, to_widen, lambda proc: widen_scatter_accumulators(proc, 2)
    ),
    "fuse_epilogues": (fuse_epilogues, to_fuse, fuse_epilogues),
    "pad_operands": (pad_operands, to_extend, lambda proc: pad_operands(proc, 2)),
    "choose_layouts": (choose_layouts, to_layout, lambda proc: choose_layouts(proc, Capabilities(vector_bytes=32))),
    "precompute_weight_arrays": (precompute_weight_arrays, to_request, precompute_weight_arrays),
    "hoist_parallel_loop": (
        hoist_parallel_loop, to_outer,
        lambda proc: hoist_parallel_loop(proc, Capabilities(vector_bytes=64), min_bytes=4096),
    ),
    "privatize_reductions": (privatize_reductions, to_privatize_sums, lambda proc: privatize_reductions(proc, 2048)),
    "pad_rows": (pad_rows, to_pad, lambda proc: pad_rows(proc, 128)),
    "recompute_attention": (recompute_attention, to_again, lambda proc: recompute_attention(proc, 2, 2)),
    "online_softmax": (online_softmax, to_online, lambda proc: online_softmax(proc, 2, 2)),
    "skip_masked_keys": (skip_masked_keys, to_skip, lambda proc: skip_masked_keys(proc, 16)),
    "fuse_outer_loops": (fuse_outer_loops, to_rows, lambda proc: fuse_outer_loops(proc, Capabilities(vector_bytes=16))),
    "flatten_fused_loops": (flatten_fused_loops, to_flatten, flatten_fused_loops),
    "merge_gather_initialization": (merge_gather_initialization, to_store, merge_gather_initialization),
    "precompute_indices": (precompute_indices, to_precompute, lambda proc: precompute_indices(proc, 0)),
    "split_reductions": (split_reductions, to_parts, lambda proc: split_reductions(proc, 192)),
    "split_streams": (split_streams, to_two_streams, lambda proc: split_streams(proc, 64, 8)),
    "tensorize_products": (
        tensorize_products, lambda: to_pair(32, 64, 16), lambda proc: tensorize_products(proc, TILING_TARGET)
    ),
    "form_pair_dots": (form_pair_dots, to_pair, lambda proc: form_pair_dots(proc, PAIRING_TARGET)),
    "schedule": (schedule, to_schedule, lambda proc: schedule(proc, TARGET)),
    "hoist_invariant_nests": (hoist_invariant_nests, to_hoist, hoist_invariant_nests),
    "precompute_packed_weights": (precompute_packed_weights, to_request_again, precompute_packed_weights),
    "eliminate_common_subexpressions": (eliminate_common_subexpressions, to_number, eliminate_common_subexpressions),
    "prefetch": (prefetch, to_prefetch, lambda proc: prefetch(proc, 0, 0)),
    "prefetch_streams": (prefetch_streams, to_prefetch_streams, lambda proc: prefetch_streams(proc, SMALL_CPU)),
    "use_nontemporal_stores": (use_nontemporal_stores, to_stream, lambda proc: use_nontemporal_stores(proc, 64, 0)),
    "fuse_parallel_loops": (fuse_parallel_loops, to_phase, fuse_parallel_loops),
    "parallelize": (parallelize, to_share, lambda proc: parallelize(proc, 200, 120)),
    "privatize_copies": (privatize_copies, to_privatize, lambda proc: privatize_copies(proc, 64)),
    "insert_polls": (insert_polls, to_poll, lambda proc: insert_polls(proc, 40)),
    "compose_operations": (
        compose_operations, to_compose, lambda proc: compose_operations(proc, FEW_OPERATIONS)
    ),
    "allocate_memory": (allocate_memory, to_memory, lambda proc: allocate_memory(proc, 64)),
}


def drawn(function: Callable[..., Proc]) -> tuple[str, str]:
    """Returns the two programs in a docstring, without remarks."""
    lines = re.findall(r"^    (.*)$", inspect.getdoc(function) or "", re.MULTILINE)
    column = lines[0].rindex("proc ")
    before = [line[:column].replace("==>", "").rstrip() for line in lines]
    after = [re.sub(r"  +#.*", "", line[column:]).rstrip() for line in lines]
    return "\n".join(before).rstrip() + "\n", "\n".join(after).rstrip() + "\n"


def test_every_pass_has_an_example() -> None:
    assert [step.name for step in passes({}, TARGET)] == list(TABLE)


@pytest.mark.parametrize("name", TABLE)
def test_examples_show_the_effect_of_the_pass(name: str) -> None:
    function, build, run = TABLE[name]
    before = build()
    after = run(before)
    assert drawn(function) == (print_proc(before), print_proc(after))


@pytest.mark.parametrize("name", TABLE)
def test_both_sides_compute_equal_results(name: str) -> None:
    _, build, run = TABLE[name]
    before = build()
    after = run(before)
    numbers = np.random.default_rng(1)
    arrays = {
        buf.node: (  # sums of products of small integers are exact in any order
            numbers.integers(-8, 9, buf.shape) if buf.precision is bfloat16 else numbers.normal(size=buf.shape)
        ).astype(buf.precision.numpy)
        for buf in before.bufs if buf.node is not None
    }  # fmt: skip
    symbols = {sym: sym.hi // 2 for sym in before.syms}
    wanted, got = interpret(before, arrays, symbols), interpret(after, arrays, symbols)
    for buf in after.bufs:
        if buf.space is MemorySpace.GLOBAL and buf.node is not None:
            np.testing.assert_allclose(got[buf.node], wanted[buf.node], rtol=1e-6)


def test_the_authors_that_settle_shows() -> None:
    after = decide_placement(to_settle(), {})
    shown = re.findall(r"# (.*)", inspect.getdoc(decide_placement) or "")
    assert [f"{fact.placement}: {fact.pass_name}" for fact in after.facts] == shown
