"""Statements: loops and their bounds, conditions, local arrays, names, the arena."""

import time
from dataclasses import replace

import numpy as np
import pytest
from loop_programs.program_runner import Runner

from ocannl.backend import CompileError
from ocannl.ir.affine import Affine, Bound, Cond, Sym, SymKind, bounds_condition
from ocannl.ir.assign import Origin
from ocannl.ir.loops import (
    AccessMode,
    Apply,
    Buf,
    Cast,
    Comment,
    Const,
    For,
    If,
    IndexValue,
    Let,
    Load,
    Local,
    MemorySpace,
    Proc,
    ReadClock,
    Ref,
    Store,
    Update,
    Var,
    When,
    loop,
    row_major,
)
from ocannl.ir.ops import ADD, BY_NAME, MAX, MUL, SUB
from ocannl.ir.precision import bfloat16, float32, float64, int32, int64, uint8

A = Affine.of


def marks(run, lo, hi, *, step=1, outer=0, sym=None, syms=()):
    """`y[o, i] += 1` for the i that the bounds allow, as a list of the marked cells; `o` counts to `outer`."""
    y = np.zeros((outer + 1, 64), np.int32)
    buf = run.like("y", y, AccessMode.INOUT)
    o, i = sym or Sym("o", 0, outer), Sym("i", 0, 63)
    inner = For(i, lo(o), hi(o), (Update(Ref(buf, (A(o) if sym is None else A(0), A(i))), ADD, Const(1, int32)),), step)
    body = (loop(o, (inner,)),) if sym is None else (inner,)
    (got,) = run(Proc("marks", (buf,), (o,) if sym else (), body), y, syms=syms)
    assert got.max(initial=0) <= 1
    return [np.flatnonzero(row).tolist() for row in got]


@pytest.mark.parametrize("step", [1, 2, 3, 7, 63, 64])
@pytest.mark.parametrize(("lo", "hi"), [(0, 64), (0, 0), (5, 5), (7, 5), (3, 4), (3, 5), (10, 31), (63, 64)])
def test_constant_bounds(run, lo, hi, step):
    got = marks(run, lambda o: Bound.lower(lo), lambda o: Bound.upper(hi), step=step)
    assert got == [list(range(lo, hi, step))]


@pytest.mark.parametrize("divs", [(1, 1), (2, 1), (3, 3), (4, 5), (1, 7), (6, 2)])
@pytest.mark.parametrize("step", [1, 3])
def test_bounds_are_extremes_of_quotients(run, divs, step):
    """Bounds as for windows: quotients of the outer symbol, also negative, and a constant."""

    def lower(o):
        return Bound(((A(o) * 3 - 17, divs[0]), (A(5) - A(o), divs[1]), (A(1), 1)))

    def upper(o):
        return Bound(((A(o) * 2 - 3, divs[1]), (A(40) - A(o), divs[0]), (A(77), 2)))

    got = marks(run, lower, upper, step=step, outer=24)
    for n, cells in enumerate(got):
        lo = max(-(-(3 * n - 17) // divs[0]), -(-(5 - n) // divs[1]), 1)
        hi = min((2 * n - 3) // divs[1], (40 - n) // divs[0], 38) + 1
        assert cells == list(range(lo, hi, step)), n


def test_extremes_of_constants(run):
    """Bounds as for windows at the border: quotients are rounded down, also below zero."""
    lower = Bound(((A(-7), 2), (A(-13), 3), (A(2), 5)))  # -3, -4, 1
    assert marks(run, lambda o: lower, lambda o: Bound(((A(19), 4), (A(31), 5), (A(40), 9)))) == [[1, 2, 3, 4]]
    assert marks(run, lambda o: Bound(((A(-7), 2), (A(-1), 3))), lambda o: Bound(((A(7), 2),))) == [[0, 1, 2, 3]]
    assert marks(run, lambda o: Bound(((A(0), 1),)), lambda o: Bound(((A(-1), 2), (A(5), 1)))) == [[]]


@pytest.mark.parametrize(("lo", "hi"), [((-7, 3), (-4, 3)), ((-8, 3), (-1, 2)), ((-9, 3), (4, 3)), ((-1, 5), (9, 2))])
def test_counters_below_zero(run, lo, hi):
    y = np.zeros(11, np.int32)
    buf, i = run.like("y", y, AccessMode.INOUT), Sym("i", -5, 5)
    body = (Update(Ref(buf, (A(i) + 5,)), ADD, Const(1, int32)),)
    stmt = For(i, Bound(((A(lo[0]), lo[1]),)), Bound(((A(hi[0]), hi[1]),)), body)
    (got,) = run(Proc("below", (buf,), (), (stmt,)), y)
    assert np.flatnonzero(got).tolist() == [n + 5 for n in range(-(-lo[0] // lo[1]), hi[0] // hi[1] + 1)]


@pytest.mark.parametrize("value", [0, 1, 5, 20, 63])
def test_bounds_in_static_symbols(run, value):
    n = Sym("n", 0, 63, SymKind.STATIC)
    got = marks(
        run, lambda n: Bound.lower(A(n) - 3 if value >= 3 else 0), lambda n: Bound.upper(n), sym=n, syms=[value]
    )
    assert got == [list(range(max(value - 3, 0), value))]


def test_short_loops(native, run):
    y = np.zeros((3, 1), np.float32)
    buf = run.like("y", y, AccessMode.OUT)
    i, j, k = Sym("i", 0, 2), Sym("j", 4, 4), Sym("k", 0, -1)
    body = (
        loop(
            i,
            (
                loop(j, (Store(Ref(buf, (A(i), A(j) - 4)), IndexValue(A(i) + A(j), float32)),)),
                loop(k, (Store(Ref(buf, (A(k), A(0))), Const(9, float32)),)),
            ),
        ),
    )
    proc = Proc("ones", (buf,), (), body)
    np.testing.assert_array_equal(run(proc, y)[0], [[4], [5], [6]])


def test_empty_arrays(run):
    x, y = np.zeros((0, 4), np.float32), np.ones(4, np.float32)
    bufs = run.like("x", x, AccessMode.IN), run.like("y", y, AccessMode.INOUT)
    i, j = Sym("i", 0, -1), Sym("j", 0, 3)
    body = (loop(j, (loop(i, (Update(Ref(bufs[1], (A(j),)), ADD, Load(Ref(bufs[0], (A(i), A(j))))),)),)),)
    np.testing.assert_array_equal(run(Proc("none", bufs, (), body), x, y)[1], y)


def test_a_program_without_statements(run):
    assert run(Proc("nothing", (), (), ())) == []
    assert run(Proc("comment", (), (), (Comment("only words"),))) == []


def test_strides_and_constants_in_indices(run):
    """y[j, i] = x[2 i + 1, 3 - j], y stored column by column."""
    x = np.arange(9 * 4, dtype=np.float32).reshape(9, 4)
    y = np.zeros(16, np.float32)
    bx = run.like("x", x, AccessMode.IN)
    by = Buf("y", float32, (4, 4), (1, 4), MemorySpace.GLOBAL, AccessMode.OUT)
    i, j = Sym("i", 0, 3), Sym("j", 0, 3)
    body = (loop(i, (loop(j, (Store(Ref(by, (A(j), A(i))), Load(Ref(bx, (2 * A(i) + 1, A(3) - A(j))))),)),)),)
    got = run(Proc("strides", (bx, by), (), body), x, y)[1].reshape(4, 4).T
    np.testing.assert_array_equal(got, x[1:8:2, ::-1].T)


def test_common_partial_sums_of_indices(native, run):
    """Equal partial sums at several depths and in several orders: definitions dominate uses."""
    dims = (3, 4, 5)
    x = np.random.default_rng(0).normal(size=dims).astype(np.float32)
    y, z = np.zeros((4, 3), np.float32), np.zeros((5, 3), np.float32)
    bx, by, bz = run.like("x", x, AccessMode.IN), run.like("y", y, AccessMode.INOUT), run.like("z", z, AccessMode.INOUT)
    i, j, k, k2 = Sym("i", 0, 2), Sym("j", 0, 3), Sym("k", 0, 4), Sym("k2", 0, 4)
    cell = Load(Ref(bx, (A(i), A(j), A(k))))
    second_cell = Load(Ref(bx, (A(i), A(j), A(k2))))
    body = (
        loop(i, (
            loop(j, (
                loop(k, (Update(Ref(by, (A(j), A(i))), ADD, cell),)),
                loop(k2, (Update(Ref(bz, (A(k2), A(i))), ADD, second_cell),)),
            )),
            Update(Ref(by, (A(0), A(i))), ADD, Load(Ref(bx, (A(i), A(1), A(4))))),
        )),
    )  # fmt: skip
    got = run(Proc("sums", (bx, by, bz), (), body), x, y, z)
    want = x.sum(2).T
    want[0] += x[:, 1, 4]
    np.testing.assert_allclose(got[1], want, rtol=1e-5)
    np.testing.assert_allclose(got[2], x.sum(1).T, rtol=1e-5)


def test_excluded_cells_are_never_read(native, run):
    """A padded window whose excluded cells are far outside of the allocated memory."""
    far = 1 << 40
    x = np.arange(1, 6, dtype=np.float32)
    y = np.zeros(9, np.float32)
    bufs = Buf("x", float32, (5,), (1,), MemorySpace.GLOBAL, AccessMode.IN), run.like("y", y, AccessMode.OUT)
    i = Sym("i", 0, 8)
    strided = A(i) - 2
    value = When(bounds_condition(strided, 5), Load(Ref(bufs[0], (strided,))), Const(-7, float32))
    guarded = When(Cond((A(i) - 100,)), Load(Ref(bufs[0], (A(i) * far,))), value)
    proc = Proc("pad", bufs, (), (loop(i, (Store(Ref(bufs[1], (A(i),)), guarded),)),))
    np.testing.assert_array_equal(run(proc, x, y)[1], [-7, -7, 1, 2, 3, 4, 5, -7, -7])


def test_cheap_conditionals(native, run):
    y = np.zeros((5, 5), np.float64)
    buf = run.like("y", y, AccessMode.OUT)
    i, j = Sym("i", 0, 4), Sym("j", 0, 4)
    one_hot = When(
        Cond((), (A(i) - A(j),)),
        Const(1, float64),
        When(Cond((A(i) - A(j),)), IndexValue(A(j), float64), Const(0, float64)),
    )
    proc = Proc("eye", (buf,), (), (loop(i, (loop(j, (Store(Ref(buf, (A(i), A(j))), one_hot),)),)),))
    np.testing.assert_array_equal(run(proc, y)[0], np.tril(np.tile(np.arange(5), (5, 1)), -1) + np.eye(5))


@pytest.mark.parametrize(
    "cond", [Cond((A(3),)), Cond((A(-1),)), Cond((), (A(0),)), Cond((), (A(2),)), Cond((A(0),), (A(-2),))], ids=str
)
def test_constant_conditions(native, run, cond):
    y = np.zeros(2, np.float32)
    buf = run.like("y", y, AccessMode.OUT)
    body = (
        If(cond, (Store(Ref(buf, (A(0),)), Const(1, float32)),), (Store(Ref(buf, (A(0),)), Const(2, float32)),)),
        Store(Ref(buf, (A(1),)), When(cond, Const(1, float32), Const(2, float32))),
    )
    proc = Proc("known", (buf,), (), body)
    want = 1 if all(a.const >= 0 for a in cond.ge0) and all(a.const == 0 for a in cond.eq0) else 2
    np.testing.assert_array_equal(run(proc, y)[0], [want, want])


@pytest.mark.parametrize("both", [False, True])
def test_statements_under_a_condition(run, both):
    y = np.zeros((6, 6), np.int32)
    buf = run.like("y", y, AccessMode.INOUT)
    i, j = Sym("i", 0, 5), Sym("j", 0, 5)
    cond = Cond((A(i) - A(j), A(j) - 1), (A(i) + A(j) - 6,))
    at = Ref(buf, (A(i), A(j)))
    orelse = (If(Cond((A(i) - 4,)), (Store(at, Const(5, int32)),)),) if both else ()
    body = (loop(i, (loop(j, (If(cond, (Store(at, Const(3, int32)),), orelse), Update(at, ADD, Const(1, int32)))),)),)
    got = run(Proc("cases", (buf,), (), body), y)[0]
    want = [
        [(3 if i >= j >= 1 and i + j == 6 else 5 if both and i >= 4 else 0) + 1 for j in range(6)] for i in range(6)
    ]
    np.testing.assert_array_equal(got, want)


def test_locals_are_initialized_per_iteration(run):
    """Subtracts the maximum of each row, using a local scalar, a local array and a variable."""
    x = np.random.default_rng(0).normal(size=(4, 40)).astype(np.float32)
    y = np.zeros_like(x)
    bufs = run.like("x", x, AccessMode.IN), run.like("y", y, AccessMode.OUT)
    i, j, k = Sym("i", 0, 3), Sym("j", 0, 39), Sym("k", 0, 39)
    row_max = Buf("top", float32, (), (), MemorySpace.LOCAL, AccessMode.TEMP)
    row = Buf("row", float32, (40,), (1,), MemorySpace.LOCAL, AccessMode.TEMP)
    body = (
        loop(i, (
            Local(row_max, float("-inf")),
            Local(row, 0.5),
            loop(j, (
                Let("v", Load(Ref(bufs[0], (A(i), A(j))))),
                Update(Ref(row_max, ()), MAX, Var("v", float32)),
                Update(Ref(row, (A(j),)), ADD, Var("v", float32)),
            )),
            Let("m", Load(Ref(row_max, ()))),
            loop(k, (Store(Ref(bufs[1], (A(i), A(k))), Apply(SUB, (Load(Ref(row, (A(k),))), Var("m", float32)))),)),
        )),
    )  # fmt: skip
    got = run(Proc("rows", bufs, (), body), x, y)[1]
    np.testing.assert_allclose(got, x + 0.5 - x.max(1, keepdims=True), rtol=1e-6)


@pytest.mark.parametrize("fill", [None, 0, 2.5, float("-inf")])
@pytest.mark.parametrize("cells", [1, 3, 17])
@pytest.mark.parametrize("p", [float32, bfloat16, int64], ids=str)
def test_initial_values_of_locals(run, p, cells, fill):
    y = np.zeros(cells, p.numpy)
    out = run.like("y", y, AccessMode.OUT)
    tile = Buf("tile", p, (cells,), (1,), MemorySpace.LOCAL, AccessMode.TEMP)
    i, j = Sym("i", 0, cells - 1), Sym("j", 0, cells - 1)
    write = loop(i, (Store(Ref(tile, (A(i),)), IndexValue(A(i), p)),))
    body = (
        Local(tile, fill),
        *((write,) if fill is None else ()),
        loop(j, (Store(Ref(out, (A(j),)), Load(Ref(tile, (A(j),)))),)),
    )
    got = run(Proc("tile", (out,), (), body), y)[0]
    want = (
        np.arange(cells)
        if fill is None
        else np.full(cells, np.iinfo(np.int64).min if p is int64 and fill < -1e9 else fill)
    )
    np.testing.assert_array_equal(got, want.astype(p.numpy))


def test_too_much_stack_is_refused(native, run):
    y = run.like("y", np.zeros(1, np.float32), AccessMode.OUT)
    huge = Buf("huge", float32, (1 << 20,), (1,), MemorySpace.LOCAL, AccessMode.TEMP)
    with pytest.raises(CompileError, match="`huge` need 4194304 bytes of stack"):
        native.compile([Proc("deep", (y,), (), (Local(huge, 0), Store(Ref(y, (A(0),)), Load(Ref(huge, (A(0),))))))])


def test_static_symbols_in_order(run):
    y = np.zeros(3, np.int64)
    buf = run.like("y", y, AccessMode.OUT)
    syms = tuple(Sym(name, -100, 100, SymKind.STATIC) for name in ("n", "m", "unused", "k"))
    body = tuple(
        Store(Ref(buf, (A(index),)), IndexValue(A(sym), int64)) for index, sym in enumerate((syms[0], syms[1], syms[3]))
    )
    np.testing.assert_array_equal(run(Proc("syms", (buf,), syms, body), y, syms=[5, -6, 9, 8])[0], [5, -6, 8])


def arena_program(run, offsets):
    x, y = np.arange(8, dtype=np.float32), np.zeros(8, np.float32)
    bx, by = run.like("x", x, AccessMode.IN), run.like("y", y, AccessMode.OUT)
    s, t = (
        Buf(n, float32, (8,), (1,), MemorySpace.ARENA, AccessMode.TEMP, offset=o)
        for n, o in zip("st", offsets, strict=True)
    )
    i, j, k = (Sym(n, 0, 7) for n in "ijk")
    body = (
        loop(i, (Store(Ref(s, (A(i),)), Apply(ADD, (Load(Ref(bx, (A(i),))), Const(1, float32)))),)),
        loop(j, (Store(Ref(t, (A(j),)), Apply(MUL, (Load(Ref(s, (A(j),))), Const(2, float32)))),)),
        loop(k, (Store(Ref(by, (A(k),)), Load(Ref(t, (A(k),)))),)),
    )
    return Proc("arena", (bx, s, t, by), (), body, arena=128), x, y


@pytest.mark.parametrize("offsets", [(0, 64), (64, 0), (0, 0)])
def test_temporaries_in_the_arena(native, run, offsets):
    proc, x, y = arena_program(run, offsets)
    np.testing.assert_array_equal(run(proc, x, y)[1], (x + 1) * 2)


def test_unplanned_memory_is_refused(native, run):
    proc, *_ = arena_program(run, (None, None))
    with pytest.raises(CompileError, match="no memory was planned for `s`"):
        native.compile([proc])


def test_undeclared_buffers_are_refused(native, run):
    y = run.like("y", np.zeros(1, np.float32), AccessMode.OUT)
    with pytest.raises(CompileError, match="`lost` uses undeclared names: y"):
        native.compile([Proc("lost", (), (), (Store(Ref(y, (A(0),)), Const(1, float32)),))])


def test_nests_and_statements_run_in_order(run):
    """Long sequences of statements are split into functions, which are executed in order."""
    y = np.zeros(3, np.float64)
    buf = run.like("y", y, AccessMode.INOUT)
    i = Sym("i", 0, 2)
    body, want = [], np.zeros(3)
    for n in range(100):
        body.append(Store(Ref(buf, (A(n % 3),)), Apply(ADD, (Load(Ref(buf, (A((n + 1) % 3),))), Const(n, float64)))))
        want[n % 3] = want[(n + 1) % 3] + n
        if n % 40 == 39:
            body += [Comment("again"), loop(Sym(f"i{n}", 0, 2), (Update(Ref(buf, (A(0),)), ADD, Const(1, float64)),))]
            want[0] += 3
    body.append(loop(i, (Update(Ref(buf, (A(i),)), MUL, Const(2, float64)),)))
    np.testing.assert_array_equal(run(Proc("long", (buf,), (), tuple(body)), y)[0], want * 2)


HOSTILE = [
    '"; ret void }',
    "a\nb",
    "x\x00y",
    "ünïcödé",
    "",
    "%1",
    "llvm.memcpy",
    "entry",
    "b" * 300,
    "\u2028@evil",
    "w.grad",
    "*/ #error /*",
    "**//",
    "a\\",
    "a??/",
    "{}%s",
    *("int", "float", "restrict", "typeof", "asm", "main", "uint8_t", "struct"),
    *("control", "poll", "arena", "addresses", "symbols", "cancelled", "leave", "CONDITIONAL_LOADS"),
    *("fma_f32", "max_f32", "f32_bits", "floor_div", "tanhf", "fmodf", "hostile_1", "ocannl_hostile", "__LINE__", "_1"),
]


def test_hostile_names_are_escaped(native, run):
    arrays = [np.full(2, n, np.float32) for n in range(len(HOSTILE))]
    bufs = tuple(run.like(name, a, AccessMode.INOUT) for name, a in zip(HOSTILE, arrays, strict=True))
    body = [Comment(text) for text in HOSTILE]
    for n, buf in enumerate(bufs):
        i = Sym(HOSTILE[-1 - n], 0, 1)
        origin = Origin(HOSTILE[n], HOSTILE[n])
        body.append(loop(i, (Update(Ref(buf, (A(i),)), ADD, Load(Ref(bufs[n - 1], (A(i),))), origin),), origin))
    s = Sym("\n}", 0, 5, SymKind.STATIC)
    body += [Let('"', IndexValue(A(s), float32)), Update(Ref(bufs[0], (A(0),)), ADD, Var('"', float32))]
    proc = Proc("hostile", bufs, (s,), tuple(body))
    got = run(proc, *arrays, syms=[5])
    want = [a.copy() for a in arrays]
    for n in range(len(want)):
        want[n] += want[n - 1]
    want[0][0] += 5
    np.testing.assert_array_equal(got, want)
    text = native.compile([proc]).source
    assert text.isascii() and not any(ord(c) < 32 for c in text if c != "\n")


def test_a_nest_that_is_called_with_casts_of_indices(run):
    y = np.zeros((4, 4), np.float32)
    buf = run.like("y", y, AccessMode.OUT)
    i, j = Sym("i", 0, 3), Sym("j", 0, 3)
    value = Cast(Apply(BY_NAME["lt"], (IndexValue(A(i), int32), IndexValue(A(j) * 2 - 1, int32))), float32)
    got = run(Proc("below", (buf,), (), (loop(i, (loop(j, (Store(Ref(buf, (A(i), A(j))), value),)),)),)), y)[0]
    np.testing.assert_array_equal(got, [[float(i < 2 * j - 1) for j in range(4)] for i in range(4)])


def test_row_major_scalars(run):
    y = np.zeros((), np.float32)
    buf = Buf("y", float32, (), row_major(()), MemorySpace.GLOBAL, AccessMode.OUT)
    np.testing.assert_array_equal(run(Proc("scalar", (buf,), (), (Store(Ref(buf, ()), Const(3, float32)),)), y)[0], 3)


@pytest.mark.parametrize("dims", [(3, 2, 3), (4, 2, 2, 3, 3), (5, 4), (2, 7, 3)], ids=str)
@pytest.mark.parametrize("name", ["where", "relu_gate", "sat01_gate", "max", "relu"])
def test_selects_over_short_axes(run, name, dims):
    """Compilers may unroll inner loops and vectorize outer ones; conditional loads must remain correct."""
    random = np.random.default_rng(0)
    w, t = random.uniform(-1, 1.5, (2, *dims)).astype(np.float32)
    bw, bt = run.like("w", w, AccessMode.IN), run.like("t", t, AccessMode.IN)
    by, bz = run.like("y", t, AccessMode.OUT), run.like("z", t, AccessMode.OUT)
    op, zero = BY_NAME[name], Const(0, float32)

    def nest(out, letter, value):
        syms = tuple(Sym(f"{letter}{n}", 0, size - 1) for n, size in enumerate(dims))
        at = tuple(map(A, syms))
        body = (Store(Ref(out, at), value(Load(Ref(bw, at)), Load(Ref(bt, at)))),)
        for sym in reversed(syms):
            body = (loop(sym, body),)
        return body

    def chosen(x, v):
        return Apply(op, {1: (v,), 2: (x, v), 3: (Apply(BY_NAME["gt"], (x, zero)), v, zero)}[op.arity])

    def merged(x, v):
        gated = Apply(BY_NAME["where"], (Apply(BY_NAME["gt"], (x, zero)), zero, Apply(MUL, (x, v))))
        return Apply(ADD, (chosen(x, v), gated))

    proc = Proc("choices", (bw, bt, by, bz), (), nest(by, "i", chosen) + nest(bz, "j", merged))
    _, _, y, z = run(proc, w, t, t, t)
    want = op.numpy(*{1: (t,), 2: (w, t), 3: (w > 0, t, np.zeros_like(t))}[op.arity])
    np.testing.assert_array_equal(y, want)
    np.testing.assert_allclose(z, want + np.where(w > 0, 0, w * t), rtol=1e-6)


@pytest.mark.parametrize("rows", [4, 3, 8])
def test_threads_write_interleaved_columns(native, rows):
    """Compilers must not store to cells that the program does not write, which other threads may write."""
    run = Runner(native)
    x, k = np.arange(3 * rows, dtype=np.int32).reshape(rows, 3), np.arange(rows, dtype=np.int32)
    bx, by, bz = (
        run.like("x", x, AccessMode.INOUT),
        run.like("y", x, AccessMode.OUT),
        run.like("z", x.T, AccessMode.OUT),
    )
    bk, i, j = run.like("k", k, AccessMode.IN), Sym("i", 0, rows - 1), Sym("j", 0, 2)
    at, scale, square = (A(i), A(j)), Load(Ref(bk, (A(i),))), Var("square", int32)
    column = (
        Let("scaled", Apply(MUL, (Load(Ref(bx, at)), scale))),
        Store(Ref(bx, at), Var("scaled", int32)),
        Let("square", Apply(MUL, (Var("scaled", int32), Var("scaled", int32)))),
        Store(Ref(bz, (A(j), A(i))), square),
        Store(Ref(by, at), Apply(MAX, (square, scale))),
    )
    proc = Proc("columns", (bx, bk, by, bz), (), (replace(loop(j, (loop(i, column),)), parallel_chunk=1),))
    arrays, square = [x, k, x, x.T], (x * k[:, None]) ** 2
    locations = run.locations(proc, arrays)
    entry = native.link(native.compile([proc]), proc.name, run.queue, locations)
    for _ in range(6000):
        for n in (0, 2):
            run.queue.from_host(locations[n], arrays[n])
        entry()
        scaled, _, y, z = run.read(locations, arrays)
        np.testing.assert_array_equal(scaled, x * k[:, None])
        np.testing.assert_array_equal(y, np.maximum(square, k[:, None]))
        np.testing.assert_array_equal(z, square.T)


def test_clock_reads_are_monotonic(run):
    """Reads the clock before each iteration and after the last one."""
    y, times = np.zeros(1000, np.float32), np.zeros(4, np.int64)
    bufs = run.like("y", y, AccessMode.INOUT), run.like("times", times, AccessMode.OUT)
    n, i = Sym("n", 0, 2), Sym("i", 0, 999)
    cell = Ref(bufs[0], (A(i),))
    inner = loop(i, (Store(cell, Apply(BY_NAME["sin"], (Load(cell),))),))
    body = (loop(n, (ReadClock(Ref(bufs[1], (A(n),))), inner)), ReadClock(Ref(bufs[1], (A(3),))))
    before = time.monotonic_ns()
    _, times = run(Proc("stamped", bufs, (), body), y, times)
    assert before < times[0] and (np.diff(times) > 0).all() and times[-1] < time.monotonic_ns()


def test_a_parallel_loop_with_reversed_stores(run):
    """GCC 12 removes calls of such a function as if it had no effect."""
    rng = np.random.default_rng(0)
    x, y = (rng.integers(0, 3, 10).astype(np.uint8) for _ in "xy")
    bufs = run.like("x", x, AccessMode.IN), run.like("y", y, AccessMode.INOUT)
    i, n = Sym("i", 0, 4), Sym("n", 0, 0, SymKind.STATIC)
    back, on = -2 * A(i) + 8, 2 * A(i) + 2 * A(n) + 1
    first_cell, second_cell = (Cast(Load(Ref(bufs[0], (at,))), float32) for at in (back, on))
    small = Apply(
        BY_NAME["lt"], (Apply(BY_NAME["fma"], (first_cell, Const(2, float32), second_cell)), Const(3, float32))
    )
    total = Apply(ADD, (Cast(Load(Ref(bufs[1], (back,))), int32), Cast(small, int32)))
    body = Store(Ref(bufs[1], (back,)), Cast(total, uint8))
    expected = y.copy()
    expected[8::-2] += 2 * x[8::-2] + x[1::2] < 3
    for claimed in (0, 1):
        proc = Proc("ends", bufs, (n,), (replace(loop(i, (body,)), parallel_chunk=claimed),))
        np.testing.assert_array_equal(run(proc, x, y, syms=[0])[1], expected)
