"""Loops that are unrolled or in lanes: random modes for random programs, and random tiles of random groups."""

from collections import Counter
from dataclasses import replace
from random import Random

import numpy as np
import pytest

from ocannl.ir.index import Affine, Bound, Sym
from ocannl.ir.interpret import interpret
from ocannl.ir.loops import (
    Access,
    Apply,
    Buf,
    Cast,
    For,
    Home,
    If,
    Let,
    Load,
    Mode,
    Prefetch,
    Proc,
    Ref,
    Store,
    Update,
    When,
    loop,
)
from ocannl.ir.names import Namer
from ocannl.ir.ops import ADD
from ocannl.ir.precision import bfloat16, float32, float64, uint8
from ocannl.ir.text import print_proc
from ocannl.ir.tnode import Role, TNode
from ocannl.ir.verify import verify
from ocannl.ir.walk import walk
from ocannl.lower.lower import lower
from ocannl.opt.memory import memory
from ocannl.opt.nest import names_of
from ocannl.opt.pipeline import optimize
from ocannl.opt.prefetch import prefetch
from ocannl.opt.realize import realize
from ocannl.opt.stream import stream
from ocannl.testing.generate import difference, generate
from ocannl.testing.groups import group, tiled_plan
from ocannl.testing.kit.cases import pool
from ocannl.testing.kit.programs import given
from ocannl.testing.modes import moded

BATCH = 12


def lowered(program, name, random, capabilities):
    return memory(stream(moded(lower(program.code, name), random, "lowered"), 0, 0), capabilities.alignment_bytes)


def optimized(program, name, random, capabilities):
    """Where optimization stops early, loops of many statements are left."""
    without = frozenset(n for n in ("schedule", "fuse", "number") if random.random() < 0.5)
    proc = optimize(lower(program.code, name), {}, capabilities, without=without | {"share", "poll", "memory"})
    return memory(stream(moded(proc, random, "optimized"), 0, 0), capabilities.alignment_bytes)


@pytest.mark.parametrize("make", [lowered, optimized])
@pytest.mark.parametrize("seed", range(25))
def test_loops_of_any_mode_agree_with_the_interpreter(native, run, make, seed):
    random = Random(f"modes {make.__name__} {seed}")
    programs = [generate(random, random.randint(1, 5)) for _ in range(BATCH)]
    procs = [make(program, f"p{n}", random, native.capabilities) for n, program in enumerate(programs)]
    code = native.compile(procs)
    for program, proc in zip(programs, procs, strict=True):
        want = interpret(proc, program.arrays, program.symbols, program.merged)
        one = given(program, proc)
        after = run(proc, *one.given, syms=one.values, code=code)
        own = [(b.node, a) for b, a in zip(one.pools, after, strict=True) if b.access is not Access.MERGE]
        tolerance = {node: program.tolerance.get(node, 0.0) for node in want}
        words = difference(want, {node: array.reshape(node.dims) for node, array in own}, tolerance)
        assert not words, f"{make.__name__} {seed}, {proc.name}: {words}\n{print_proc(proc)}"


def tiles(random, name):
    """A random group, as it is and in tiles."""
    while True:
        made = group(random)
        plan = tiled_plan(random, made.group)
        if plan is not None and len(plan.tiles) + plan.vectors < 5:  # not too much code
            plainly = made.proc(made.group.stmt())
            return made, plainly, made.proc(realize(made.group, plan, Namer(names_of(plainly))), name)


@pytest.mark.parametrize("seed", range(25))
def test_tiles_of_any_size_agree_with_the_interpreter(native, run, seed):
    random = Random(f"tiles {seed}")
    cases = [tiles(random, f"p{n}") for n in range(BATCH)]
    code = native.compile([proc for _, _, proc in cases])
    for made, plainly, proc in cases:
        want = interpret(plainly, made.arrays)
        after = run(proc, *(made.arrays[buf.node] for buf in proc.bufs), code=code)
        for buf, array in zip(proc.bufs, after, strict=True):
            np.testing.assert_array_equal(array, want[buf.node], f"{seed}, {proc.name}\n{print_proc(proc)}")


@pytest.mark.parametrize("kind", [float32, float64, bfloat16, uint8], ids=str)
@pytest.mark.parametrize("nbytes", [16, 32, 64])
def test_vectors_past_the_caches(run, kind, nbytes):
    lanes = nbytes // kind.nbytes
    nodes = [TNode(name, Role.PLACEHOLDER, lambda: (6 * lanes,), lambda: kind) for name in "xy"]
    x, y = (
        Buf(node.label, kind, (6 * lanes,), (1,), Home.POOL, access, node)
        for node, access in zip(nodes, (Access.IN, Access.INOUT), strict=True)
    )
    i, k = Sym("i", 0, 2), Sym("k", 0, lanes - 1)
    at = (Affine(((2 * lanes, i), (1, k)), lanes),)
    vector = loop(k, (Store(Ref(y, at), Load(Ref(x, at)), streamed=True),), mode=Mode.LANES)
    proc = Proc("p", (x, y), (), (loop(i, (vector,)),))
    verify(proc, "optimized")
    numbers = np.random.default_rng(1)
    before, others = (numbers.integers(0, 99, 6 * lanes).astype(kind.numpy) for _ in "xy")
    _, after = run(proc, before, others)
    odd = np.arange(6 * lanes) // lanes % 2 == 1
    np.testing.assert_array_equal(after, np.where(odd, before, others))


@pytest.mark.parametrize("kind", [float32, bfloat16], ids=str)
def test_rows_that_are_fetched_ahead(run, kind):
    nodes = [TNode(name, Role.PLACEHOLDER, lambda: (5, 16), lambda: kind) for name in "xyz"]
    x, y, z = (
        Buf(node.label, kind, (5, 16), (16, 1), Home.POOL, access, node)
        for node, access in zip(nodes, (Access.IN, Access.INOUT, Access.INOUT), strict=True)
    )
    i, j, k = Sym("i", 0, 4), Sym("j", 0, 15), Sym("k", 0, 15)
    rows = tuple([
        loop(lane, (Store(Ref(to, at), Load(Ref(x, at))),), mode=Mode.LANES)
        for lane, to, at in ((j, y, (Affine.of(i), Affine.of(j))), (k, z, (Affine.of(i), Affine.of(k))))
    ])  # fmt: skip
    proc = prefetch(Proc("p", (x, y, z), (), (loop(i, rows),)), 0, 0)
    assert any(isinstance(node, Prefetch) for node in walk(proc.body))
    verify(proc, "optimized")
    numbers = np.arange(80).reshape(5, 16).astype(kind.numpy)
    _, *after = run(proc, numbers, numbers * 0, numbers * 0)
    np.testing.assert_array_equal(after, [numbers, numbers])


def seen_in(proc):
    for turn in walk(proc.body):
        if isinstance(turn, For) and turn.mode is Mode.UNROLLED:
            yield from (f"unrolled {type(inner).__name__}" for inner in turn.body)
        if not isinstance(turn, For) or turn.mode is not Mode.LANES:
            continue
        yield "odd width" if turn.sym.extent not in (1, 2, 4, 8) else "even width"
        yield "several statements" if len(turn.body) > 1 else "one statement"
        for node in walk(turn.body):
            yield type(node).__name__
            match node:
                case Store(ref, streamed=True):
                    yield f"streamed {turn.sym.extent * ref.buf.precision.nbytes}"
                case Update(ref, op) if not any(at.coef(turn.sym) for at in ref.at):
                    yield f"common {op}"
                case Load(ref):
                    steps = zip(ref.at, ref.buf.strides, strict=True)
                    yield f"stride {sum(at.coef(turn.sym) * stride for at, stride in steps)}"
                case When(cond):
                    yield "choice between lanes" if turn.sym in cond.syms else "choice for all lanes"


def test_there_is_some_of_everything(native):
    seen = Counter()
    for seed in range(40):
        random = Random(seed)
        for make in (lowered, optimized):
            seen.update(seen_in(make(generate(random, 5), "p", random, native.capabilities)))
        seen.update(seen_in(tiles(random, "p")[2]))
    kinds = (Apply, Cast, Let, Load, Store, Update, When)
    wanted = [kind.__name__ for kind in kinds] + [f"unrolled {kind.__name__}" for kind in (For, If, Store, Update)]
    wanted += [f"stride {n}" for n in (-1, 0, 1, 2, 3)] + [f"common {op}" for op in ("add", "mul", "max", "min", "and")]
    wanted += ["streamed 16"]
    wanted += ["odd width", "several statements", "choice between lanes", "choice for all lanes"]
    assert not [what for what in wanted if not seen[what]]


@pytest.mark.parametrize("kind", [float32, float64, uint8, bfloat16], ids=str)
def test_planes_of_any_size(native, run, kind):
    """Some are empty, a single row, a single column, or more rows than are turned at a time."""
    sizes = [(rows, lanes) for rows in (0, 1, 2, 3, 6, 8, 17) for lanes in (0, 1, 2, 5, 8, 10, 16, 19)]
    procs = []
    for rows, lanes in sizes:
        blank = np.zeros((20, 20), kind.numpy)
        x, z = (pool(name, blank, Access.IN) for name in "xz")
        y = pool("y", blank)
        i, j = Sym("i", 0, 19), Sym("j", 0, 19)
        across, along = (Affine.of(i), Affine.of(j)), (Affine.of(j), Affine.of(i))
        cell = Store(Ref(y, along), Apply(ADD, (Load(Ref(x, across)), Load(Ref(z, along)))))
        inner = replace(loop(j, (cell,), mode=Mode.LANES), hi=Bound.upper(lanes))
        body = (replace(loop(i, (inner,), mode=Mode.LANES), hi=Bound.upper(rows)),)
        procs.append(Proc(f"plane_{rows}_{lanes}", (x, z, y), (), body))
        verify(procs[-1], "optimized")
    code = native.compile(procs)
    x, z = (np.arange(start, start + 400).reshape(20, 20) % 50 for start in (3, 11))
    for (rows, lanes), proc in zip(sizes, procs, strict=True):
        given = [array.astype(kind.numpy) for array in (x, z, np.full((20, 20), 7))]
        want = np.full((20, 20), 7)
        want[:lanes, :rows] = (x.T + z)[:lanes, :rows]
        after = run(proc, *given, code=code)[2]
        np.testing.assert_array_equal(after.astype(np.float64), want, err_msg=proc.name)
