"""Unrolled and vectorized loops: random modes of random programs, and random tiles of random groups."""

from collections import Counter
from dataclasses import replace
from random import Random

import numpy as np
import pytest
from loop_programs.random_groups import group, tiled_plan

from ocannl.ir.affine import Affine, Bound, Sym
from ocannl.ir.interpret import interpret
from ocannl.ir.loops import (
    AccessMode,
    Apply,
    Buf,
    Cast,
    For,
    If,
    Let,
    Load,
    MemorySpace,
    Mode,
    Prefetch,
    Proc,
    Ref,
    Store,
    Update,
    When,
    loop,
)
from ocannl.ir.name_mangling import Namer
from ocannl.ir.ops import ADD
from ocannl.ir.precision import bfloat16, float32, float64, uint8
from ocannl.ir.printer import print_proc
from ocannl.ir.tnode import Role, TNode
from ocannl.ir.verify import verify
from ocannl.ir.walk import walk
from ocannl.lower.lower import lower
from ocannl.opt.analysis.nests import bound_names
from ocannl.opt.memory.allocate_memory import allocate_memory
from ocannl.opt.memory.prefetch import prefetch
from ocannl.opt.memory.use_nontemporal_stores import use_nontemporal_stores
from ocannl.opt.pipeline import optimize
from ocannl.opt.schedule.loop_generation import build_loops
from ocannl.testing.kit.cases import pool
from ocannl.testing.kit.programs import as_case
from ocannl.testing.random_modes import with_random_modes
from ocannl.testing.random_programs import difference, generate

BATCH = 12


def lowered(program, name, random, capabilities):
    proc = with_random_modes(lower(program.code, name), random, "lowered")
    return allocate_memory(use_nontemporal_stores(proc, 0, 0), capabilities.alignment_bytes)


def optimized(program, name, random, capabilities):
    """Omitting passes leaves loops with many statements."""
    without = frozenset(
        n for n in ("schedule", "fuse_epilogues", "eliminate_common_subexpressions") if random.random() < 0.5
    )
    proc = optimize(
        lower(program.code, name),
        {},
        capabilities,
        without=without | {"parallelize", "insert_polls", "allocate_memory"},
    )
    proc = with_random_modes(proc, random, "optimized")
    return allocate_memory(use_nontemporal_stores(proc, 0, 0), capabilities.alignment_bytes)


@pytest.mark.sample(covering=("seed", "make native"))
@pytest.mark.parametrize("make", [lowered, optimized])
@pytest.mark.parametrize("seed", range(25))
def test_loops_of_any_mode_agree_with_the_interpreter(native, run, make, seed):
    random = Random(f"modes {make.__name__} {seed}")
    programs = [generate(random, random.randint(1, 5)) for _ in range(BATCH)]
    procs = [make(program, f"p{n}", random, native.capabilities) for n, program in enumerate(programs)]
    code = native.compile(procs)
    for program, proc in zip(programs, procs, strict=True):
        want = interpret(proc, program.arrays, program.symbols, program.merged)
        case = as_case(program, proc)
        arrays = run(proc, *case.inputs, syms=case.values, code=code)
        results = [(b.node, a) for b, a in zip(case.pools, arrays, strict=True) if b.access is not AccessMode.MERGE]
        tolerance = {node: program.tolerance.get(node, 0.0) for node in want}
        message = difference(want, {node: array.reshape(node.dims) for node, array in results}, tolerance)
        assert not message, f"{make.__name__} {seed}, {proc.name}: {message}\n{print_proc(proc)}"


def tiles(random, name):
    """A random group, untiled and tiled."""
    while True:
        sample = group(random)
        plan = tiled_plan(random, sample.group)
        if plan is not None and len(plan.tile_sizes) + plan.vectors < 5:  # bounds the size of the code
            untiled = sample.proc(sample.group.stmt())
            return sample, untiled, sample.proc(build_loops(sample.group, plan, Namer(bound_names(untiled))), name)


@pytest.mark.sample(covering=("seed",))
@pytest.mark.parametrize("seed", range(25))
def test_tiles_of_any_size_agree_with_the_interpreter(native, run, seed):
    random = Random(f"tiles {seed}")
    cases = [tiles(random, f"p{n}") for n in range(BATCH)]
    code = native.compile([proc for _, _, proc in cases])
    for sample, untiled, proc in cases:
        want = interpret(untiled, sample.arrays)
        arrays = run(proc, *(sample.arrays[buf.node] for buf in proc.bufs), code=code)
        for buf, array in zip(proc.bufs, arrays, strict=True):
            np.testing.assert_array_equal(array, want[buf.node], f"{seed}, {proc.name}\n{print_proc(proc)}")


@pytest.mark.parametrize("kind", [float32, float64, bfloat16, uint8], ids=str)
@pytest.mark.parametrize("nbytes", [16, 32, 64])
def test_nontemporal_vector_stores(run, kind, nbytes):
    lanes = nbytes // kind.nbytes
    nodes = [TNode(name, Role.PLACEHOLDER, lambda: (6 * lanes,), lambda: kind) for name in "xy"]
    x, y = (
        Buf(node.label, kind, (6 * lanes,), (1,), MemorySpace.GLOBAL, access, node)
        for node, access in zip(nodes, (AccessMode.IN, AccessMode.INOUT), strict=True)
    )
    i, k = Sym("i", 0, 2), Sym("k", 0, lanes - 1)
    at = (Affine(((2 * lanes, i), (1, k)), lanes),)
    vector = loop(k, (Store(Ref(y, at), Load(Ref(x, at)), nontemporal=True),), mode=Mode.VECTORIZED)
    proc = Proc("p", (x, y), (), (loop(i, (vector,)),))
    verify(proc, "optimized")
    numbers = np.random.default_rng(1)
    before, initial = (numbers.integers(0, 99, 6 * lanes).astype(kind.numpy) for _ in "xy")
    _, after = run(proc, before, initial)
    odd = np.arange(6 * lanes) // lanes % 2 == 1
    np.testing.assert_array_equal(after, np.where(odd, before, initial))


@pytest.mark.parametrize("kind", [float32, float64, bfloat16, uint8], ids=str)
@pytest.mark.parametrize(("rows", "nbytes"), [(8, 32), (16, 64), (6, 16), (6, 64)])
def test_nontemporal_stores_of_transposed_tiles(run, kind, rows, nbytes):
    lanes = nbytes // kind.nbytes
    nodes = [TNode(name, Role.PLACEHOLDER, lambda: (2 * rows * lanes,), lambda: kind) for name in "xy"]
    x, y = (
        Buf(node.label, kind, shape, (shape[1], 1), MemorySpace.GLOBAL, access, node)
        for node, shape, access in zip(
            nodes, ((2 * lanes, rows), (rows, 2 * lanes)), (AccessMode.IN, AccessMode.INOUT), strict=True
        )
    )
    i, row, lane = Sym("i", 0, 1), Sym("row", 0, rows - 1), Sym("lane", 0, lanes - 1)
    column = Affine.of(i) * lanes + lane
    store = Store(Ref(y, (Affine.of(row), column)), Load(Ref(x, (column, Affine.of(row)))), nontemporal=True)
    tile = loop(row, (loop(lane, (store,), mode=Mode.VECTORIZED),), mode=Mode.VECTORIZED)
    proc = Proc("p", (x, y), (), (loop(i, (tile,)),))
    verify(proc, "optimized")
    cells = np.arange(2 * rows * lanes).reshape(2 * lanes, rows).astype(kind.numpy)
    _, turned = run(proc, cells, np.zeros((rows, 2 * lanes), kind.numpy))
    np.testing.assert_array_equal(turned, cells.T)


@pytest.mark.parametrize("kind", [float32, bfloat16], ids=str)
def test_prefetched_rows(run, kind):
    nodes = [TNode(name, Role.PLACEHOLDER, lambda: (5, 16), lambda: kind) for name in "xyz"]
    x, y, z = (
        Buf(node.label, kind, (5, 16), (16, 1), MemorySpace.GLOBAL, access, node)
        for node, access in zip(nodes, (AccessMode.IN, AccessMode.INOUT, AccessMode.INOUT), strict=True)
    )
    i, j, k = Sym("i", 0, 4), Sym("j", 0, 15), Sym("k", 0, 15)
    rows = tuple([
        loop(lane, (Store(Ref(target, at), Load(Ref(x, at))),), mode=Mode.VECTORIZED)
        for lane, target, at in ((j, y, (Affine.of(i), Affine.of(j))), (k, z, (Affine.of(i), Affine.of(k))))
    ])  # fmt: skip
    proc = prefetch(Proc("p", (x, y, z), (), (loop(i, rows),)), 0, 0)
    assert any(isinstance(node, Prefetch) for node in walk(proc.body))
    verify(proc, "optimized")
    numbers = np.arange(80).reshape(5, 16).astype(kind.numpy)
    _, *after = run(proc, numbers, np.zeros_like(numbers), np.zeros_like(numbers))
    np.testing.assert_array_equal(after, [numbers, numbers])


def features_of(proc):
    for loop_stmt in walk(proc.body):
        if isinstance(loop_stmt, For) and loop_stmt.mode is Mode.UNROLLED:
            yield from (f"unrolled {type(inner).__name__}" for inner in loop_stmt.body)
        if not isinstance(loop_stmt, For) or loop_stmt.mode is not Mode.VECTORIZED:
            continue
        yield "odd width" if loop_stmt.sym.extent not in (1, 2, 4, 8) else "even width"
        yield "several statements" if len(loop_stmt.body) > 1 else "one statement"
        for node in walk(loop_stmt.body):
            yield type(node).__name__
            match node:
                case Store(ref, nontemporal=True):
                    yield f"streamed {loop_stmt.sym.extent * ref.buf.precision.nbytes}"
                case Update(ref, op) if not any(index.coef(loop_stmt.sym) for index in ref.indices):
                    yield f"common {op}"
                case Load(ref):
                    steps = zip(ref.indices, ref.buf.strides, strict=True)
                    yield f"stride {sum(index.coef(loop_stmt.sym) * stride for index, stride in steps)}"
                case When(cond):
                    yield "choice between lanes" if loop_stmt.sym in cond.syms else "choice for all lanes"


def test_coverage_of_features(native):
    seen = Counter()
    for seed in range(40):
        random = Random(seed)
        for make in (lowered, optimized):
            seen.update(features_of(make(generate(random, 5), "p", random, native.capabilities)))
        seen.update(features_of(tiles(random, "p")[2]))
    kinds = (Apply, Cast, Let, Load, Store, Update, When)
    features = [kind.__name__ for kind in kinds] + [f"unrolled {kind.__name__}" for kind in (For, If, Store, Update)]
    features += [f"stride {n}" for n in (-1, 0, 1, 2, 3)] + [
        f"common {op}" for op in ("add", "mul", "max", "min", "and")
    ]
    features += ["streamed 16"]
    features += ["odd width", "several statements", "choice between lanes", "choice for all lanes"]
    assert not [feature for feature in features if not seen[feature]]


@pytest.mark.parametrize("kind", [float32, float64, uint8, bfloat16], ids=str)
def test_register_tiles_of_any_size(native, run, kind):
    """Includes empty tiles, single rows and columns, and more rows than a register tile can have."""
    sizes = [(rows, lanes) for rows in (0, 1, 2, 3, 6, 8, 17) for lanes in (0, 1, 2, 5, 8, 10, 16, 19)]
    procs = []
    for rows, lanes in sizes:
        zeros = np.zeros((20, 20), kind.numpy)
        x, z = (pool(name, zeros, AccessMode.IN) for name in "xz")
        y = pool("y", zeros)
        i, j = Sym("i", 0, 19), Sym("j", 0, 19)
        row_major_index, transposed_index = (Affine.of(i), Affine.of(j)), (Affine.of(j), Affine.of(i))
        cell = Store(
            Ref(y, transposed_index), Apply(ADD, (Load(Ref(x, row_major_index)), Load(Ref(z, transposed_index))))
        )
        inner = replace(loop(j, (cell,), mode=Mode.VECTORIZED), hi=Bound.upper(lanes))
        body = (replace(loop(i, (inner,), mode=Mode.VECTORIZED), hi=Bound.upper(rows)),)
        procs.append(Proc(f"plane_{rows}_{lanes}", (x, z, y), (), body))
        verify(procs[-1], "optimized")
    code = native.compile(procs)
    x, z = (np.arange(start, start + 400).reshape(20, 20) % 50 for start in (3, 11))
    for (rows, lanes), proc in zip(sizes, procs, strict=True):
        arrays = [array.astype(kind.numpy) for array in (x, z, np.full((20, 20), 7))]
        want = np.full((20, 20), 7)
        want[:lanes, :rows] = (x.T + z)[:lanes, :rows]
        after = run(proc, *arrays, code=code)[2]
        np.testing.assert_array_equal(after.astype(np.float64), want, err_msg=proc.name)
