"""The reference backend against a scalar interpreter of loop programs, a page long, on generated programs."""

from __future__ import annotations

import random

import numpy as np
import pytest

from ocannl.backend.api import Location
from ocannl.backend.reference import vectorized_interpreter
from ocannl.backend.reference.backend import ReferenceBackend
from ocannl.base.errors import VerifyError
from ocannl.ir.accesses import determined_symbols
from ocannl.ir.affine import Affine, Bound, Cond, Sym, SymKind, bounds_condition
from ocannl.ir.loops import (
    AccessMode,
    Apply,
    Buf,
    Cast,
    Const,
    For,
    If,
    IndexValue,
    Let,
    Load,
    Local,
    MemorySpace,
    Proc,
    Ref,
    Store,
    Update,
    Var,
    When,
    row_major,
)
from ocannl.ir.ops import BY_NAME
from ocannl.ir.precision import float64, int64
from ocannl.ir.printer import print_proc


class Scalar:
    """One statement after the other, one number at a time."""

    def __init__(self, arrays, syms):
        self.arrays, self.syms, self.names = arrays, dict(syms), {}

    def run(self, body):
        for stmt in body:
            match stmt:
                case For(sym, lo, hi, inner, step):
                    low = max(-(-a.evaluate(self.syms) // d) for a, d in lo.quotients)
                    high = min(a.evaluate(self.syms) // d + 1 for a, d in hi.quotients)
                    for value in range(low, high, step):
                        self.syms[sym] = value
                        self.run(inner)
                case If(cond, then, orelse):
                    self.run(then if self.holds(cond) else orelse)
                case Store(ref, value):
                    self.arrays[ref.buf][self.at(ref)] = self.value(value)
                case Update(ref, op, value):
                    at = self.at(ref)
                    self.arrays[ref.buf][at] = op.numpy(self.arrays[ref.buf][at], self.value(value))
                case Let(name, value):
                    self.names[name] = self.value(value)
                case Local(buf, fill):
                    self.arrays[buf] = np.full(buf.shape, fill, buf.precision.numpy)

    def at(self, ref):
        at = tuple(a.evaluate(self.syms) for a in ref.indices)
        assert all(0 <= i < n for i, n in zip(at, ref.buf.shape, strict=True))
        return at

    def holds(self, cond):
        return all(a.evaluate(self.syms) >= 0 for a in cond.ge0) and all(a.evaluate(self.syms) == 0 for a in cond.eq0)

    def value(self, expr):
        match expr:
            case Const(value, precision):
                return precision.numpy.type(value)
            case IndexValue(index, precision):
                return precision.numpy.type(index.evaluate(self.syms))
            case Var(name, _):
                return self.names[name]
            case Load(ref):
                return self.arrays[ref.buf][self.at(ref)]
            case Apply(op, args):
                return op.numpy(*map(self.value, args))
            case When(cond, then, orelse):
                return self.value(then if self.holds(cond) else orelse)
            case Cast(inner, precision):
                return self.value(inner).astype(precision.numpy)


def buffer(name, shape, access=AccessMode.INOUT, precision=int64, home=MemorySpace.GLOBAL):
    return Buf(name, precision, shape, row_major(shape), home, access)


def both(proc, contents, values=()):
    """The contents of all arrays after the program, by the backend and by the interpreter."""
    backend = ReferenceBackend()
    device = backend.device(0)
    queue = device.queue(threaded=False)
    where = []
    for buf in proc.bufs:
        where.append(Location(device.alloc_pool(max(1, buf.nbytes)), 0))
        queue.from_host(where[-1], contents[buf.name])
    backend.link(backend.compile([proc]), proc.name, queue, where)(*values)
    results = {}
    for buf, at in zip(proc.bufs, where, strict=True):
        results[buf.name] = np.empty(buf.shape, buf.precision.numpy)
        queue.to_host(at, results[buf.name])
        device.free_pool(at.pool)
    arrays = {buf: contents[buf.name].copy() for buf in proc.bufs}
    with np.errstate(all="ignore"):
        Scalar(arrays, zip(proc.syms, values, strict=True)).run(proc.body)
    return results, {buf.name: arrays[buf] for buf in proc.bufs}


def agree(proc, contents, values=(), which=""):
    results, wanted = both(proc, contents, values)
    for name, array in wanted.items():
        np.testing.assert_array_equal(results[name], array, err_msg=f"{name} of {which}\n{print_proc(proc)}")


OPS = [BY_NAME[n] for n in ("add", "mul", "max", "min")]
COMBINE = [*OPS, BY_NAME["sub"], BY_NAME["lt"], BY_NAME["where"], BY_NAME["relu"]]


class Programs:
    """Makes loops of all kinds around stores and updates that read what they write, or not; every access is guarded.

    Cells lie at 1..4 of axes of five, so that a loop over -1..3 shifted by one is in place.
    """

    def __init__(self, seed):
        self.draw = random.Random(seed)
        self.count = 0
        self.ins = [buffer(f"X{n}", self.shape(2), AccessMode.IN) for n in range(2)]
        self.outs = [buffer(f"Y{n}", self.shape(3)) for n in range(2)]
        self.static = Sym("n", 0, 2, SymKind.STATIC)
        body = tuple(self.loop([], [self.static], [], 0) for _ in range(self.draw.randint(1, 2)))
        self.proc = Proc("p", (*self.ins, *self.outs), (self.static,), body)

    def shape(self, limit):
        return tuple(self.draw.choice([1, 3, 5, 5, 5]) for _ in range(self.draw.randint(0, limit)))

    def chance(self, p):
        return self.draw.random() < p

    def fresh(self, stem):
        self.count += 1
        return f"{stem}{self.count}"

    def index(self, syms):
        terms = [(self.draw.choice([-1, 1, 1, 1, 2, 3]), s) for s in syms if self.chance(0.5)]
        return Affine.sum(terms, self.draw.choice([0, 0, 0, 1, -1, 2]))

    def ref(self, buf, syms):
        loops = [s for s in syms if s.kind is SymKind.LOOP]
        self.draw.shuffle(loops)
        at = []
        for n in range(len(buf.shape)):
            plain = n < len(loops) and self.chance(0.8)
            at.append(Affine.of(loops[n]) + 1 if plain else self.index(syms))
        cond = Cond()
        for a, n in zip(at, buf.shape, strict=True):
            cond = cond & bounds_condition(a, n)
        return Ref(buf, tuple(at)), cond

    def value(self, locals_, syms, names, depth=0):
        kind = self.draw.choice(["load", "load", "load", "num", "idx", "var", "var", "apply", "apply", "when"])
        again = [locals_, syms, names, depth + 1]
        if kind == "apply" and depth < 2:
            op = self.draw.choice(COMBINE)
            return Apply(op, tuple(self.value(*again) for _ in range(op.arity)))
        if kind == "when" and depth < 2:
            return When(self.condition(syms), self.value(*again), self.value(*again))
        if kind == "var" and names:
            return Var(self.draw.choice(names), int64)
        if kind == "idx":
            return IndexValue(self.index(syms), int64)
        if kind == "num":
            return Const(self.draw.randint(-3, 3), int64)
        scope = locals_ if locals_ and self.chance(0.3) else self.outs if self.chance(0.15) else self.ins
        where, cond = self.ref(self.draw.choice(scope), syms)
        if len(cond.ge0) == 1 and self.chance(0.3):
            return When(Cond((-cond.ge0[0] - 1,)), Const(-7, int64), Load(where))
        return Load(where) if cond.is_true else When(cond, Load(where), Const(-7, int64))

    def condition(self, syms):
        return Cond((self.index(syms),), ()) if self.chance(0.6) else Cond((), (self.index(syms),))

    def loop(self, locals_, syms, names, depth):
        sym = Sym(self.fresh("i"), self.draw.randint(-1, 1), self.draw.randint(0, 3))
        lo, hi = Bound.lower(sym.lo), Bound.upper(sym.hi + 1)
        if len(syms) > 1 and self.chance(0.4):
            limit, div = self.index(syms), self.draw.choice([1, 1, 2])
            if self.chance(0.5):
                hi = Bound((*hi.quotients, (limit + self.draw.randint(0, 2), div)))
            else:
                lo = Bound((*lo.quotients, (limit - self.draw.randint(0, 2), div)))
        step = 2 if self.chance(0.2) else 1
        return For(sym, lo, hi, self.body(locals_, [*syms, sym], names, depth + 1), step)

    def body(self, locals_, syms, names, depth):
        out, locals_, names = [], list(locals_), list(names)
        for _ in range(self.draw.randint(1, 3 if depth > 1 else 2)):
            kind = self.draw.choice(["for", "for", "for", "store", "update", "update", "if", "let", "local"])
            if kind == "for" and depth < 4:
                out.append(self.loop(locals_, syms, names, depth))
            elif kind == "if" and depth < 4:
                orelse = self.body(locals_, syms, names, depth + 1) if self.chance(0.5) else ()
                out.append(If(self.condition(syms), self.body(locals_, syms, names, depth + 1), orelse))
            elif kind == "let":
                out.append(Let(self.fresh("v"), self.value(locals_, syms, names)))
                names.append(out[-1].name)
            elif kind == "local":
                locals_.append(buffer(self.fresh("L"), self.shape(1), AccessMode.TEMP, home=MemorySpace.LOCAL))
                out.append(Local(locals_[-1], self.draw.randint(-1, 1)))
            else:
                target = self.draw.choice(locals_ if locals_ and self.chance(0.4) else self.outs)
                where, cond = self.ref(target, syms)
                value = self.value(locals_, syms, names)
                op = self.draw.choice(OPS)
                stmt = Store(where, value) if kind == "store" else Update(where, op, value)
                out.append(stmt if cond.is_true else If(cond, (stmt,)))
        return tuple(out)


@pytest.mark.parametrize("limit", [1, 5, vectorized_interpreter.MAX_TEMPORARY_ELEMENTS])
@pytest.mark.parametrize("batch", range(12))
def test_generated_programs_agree_with_the_scalar_interpreter(limit, batch, monkeypatch):
    monkeypatch.setattr(vectorized_interpreter, "MAX_TEMPORARY_ELEMENTS", limit)
    for seed in range(100 * batch, 100 * (batch + 1)):
        proc = Programs(seed).proc
        rng = np.random.default_rng(seed)
        contents = {b.name: rng.integers(-5, 5, b.shape) for b in proc.bufs}
        agree(proc, contents, (seed % 3,), f"seed {seed}")


def at(*syms):
    return tuple(map(Affine.of, syms))


def test_a_recurrence_keeps_its_order_and_opens_the_loop_around_it():
    y, x = buffer("y", (3, 5)), buffer("x", (3, 5), AccessMode.IN)
    b, i = Sym("b", 0, 2), Sym("i", 1, 4)
    value = Apply(BY_NAME["add"], (Load(Ref(y, (Affine.of(b), Affine.of(i) - 1))), Load(Ref(x, at(b, i)))))
    inner = For(i, Bound.lower(1), Bound.upper(5), (Store(Ref(y, at(b, i)), value),))
    nest = For(b, Bound.lower(0), Bound.upper(3), (inner,))
    proc = Proc("scan", (y, x), (), (nest,))
    (analysis,) = ReferenceBackend().compile([proc]).programs.values()
    assert analysis.can_vectorize(nest) and not analysis.can_vectorize(inner)
    rng = np.random.default_rng(0)
    agree(proc, {"y": rng.integers(0, 9, (3, 5)), "x": rng.integers(0, 9, (3, 5))})


def test_of_a_store_that_does_not_mention_a_loop_the_last_one_stays():
    y, x = buffer("y", (3,)), buffer("x", (3, 4), AccessMode.IN)
    i, k = Sym("i", 0, 2), Sym("k", 0, 3)
    body = For(k, Bound.lower(0), Bound.upper(4), (Store(Ref(y, at(i)), Load(Ref(x, at(i, k)))),))
    proc = Proc("last", (y, x), (), (For(i, Bound.lower(0), Bound.upper(3), (body,)),))
    x_values = np.arange(12).reshape(3, 4)
    results, _ = both(proc, {"y": np.zeros(3, np.int64), "x": x_values})
    np.testing.assert_array_equal(results["y"], x_values[:, -1])


def test_overlapping_updates_add_up():
    """The gradient of a window: cells that several iterations meet."""
    y, x = buffer("y", (6,)), buffer("x", (4,), AccessMode.IN)
    o, k = Sym("o", 0, 3), Sym("k", 0, 2)
    update = Update(Ref(y, (Affine.of(o) + k,)), BY_NAME["add"], Load(Ref(x, at(o))))
    inner = For(k, Bound.lower(0), Bound.upper(3), (update,))
    proc = Proc("window", (y, x), (), (For(o, Bound.lower(0), Bound.upper(4), (inner,)),))
    agree(proc, {"y": np.arange(6), "x": np.arange(4) + 1})


def test_a_value_named_before_a_store_is_what_it_was():
    y = buffer("y", (4,))
    i = Sym("i", 0, 3)
    body = (
        Let("old", Load(Ref(y, at(i)))),
        Store(Ref(y, at(i)), Const(0, int64)),
        Store(Ref(y, at(i)), Apply(BY_NAME["add"], (Var("old", int64), Load(Ref(y, at(i)))))),
    )
    proc = Proc("swap", (y,), (), (For(i, Bound.lower(0), Bound.upper(4), body),))
    agree(proc, {"y": np.arange(4)})


def test_a_loop_of_steps_that_starts_where_another_one_is():
    y = buffer("y", (5, 9))
    i, j = Sym("i", 0, 4), Sym("j", 0, 8)
    operands = IndexValue(Affine.of(i), int64), IndexValue(Affine.of(j), int64)
    store = Store(Ref(y, at(i, j)), Apply(BY_NAME["add"], operands))
    inner = For(j, Bound.lower(Affine.of(i)), Bound.upper(9), (store,), step=2)
    proc = Proc("steps", (y,), (), (For(i, Bound.lower(0), Bound.upper(5), (inner,)),))
    agree(proc, {"y": np.zeros((5, 9), np.int64)})


def test_storage_made_in_a_loop_does_not_keep_it_closed():
    y, x = buffer("y", (3,)), buffer("x", (3, 4), AccessMode.IN)
    acc = buffer("acc", (), AccessMode.TEMP, home=MemorySpace.LOCAL)
    i, k = Sym("i", 0, 2), Sym("k", 0, 3)
    inner = For(k, Bound.lower(0), Bound.upper(4), (Update(Ref(acc, ()), BY_NAME["add"], Load(Ref(x, at(i, k)))),))
    body = (Local(acc, 0), inner, Store(Ref(y, at(i)), Load(Ref(acc, ()))))
    nest = For(i, Bound.lower(0), Bound.upper(3), body)
    proc = Proc("rows", (y, x), (), (nest,))
    (analysis,) = ReferenceBackend().compile([proc]).programs.values()
    assert analysis.can_vectorize(nest) and analysis.can_vectorize(inner)
    agree(proc, {"y": np.zeros(3, np.int64), "x": np.arange(12).reshape(3, 4)})


@pytest.mark.parametrize(
    ("coefs", "tells"),
    [((1, 4), True), ((1, 3), False), ((4, 1), True), ((2, 1), False), ((1, 1), False), ((-1, 4), True)],
)
def test_an_index_tells_its_symbols_when_they_are_its_digits(coefs, tells):
    i, j = Sym("i", 0, 3), Sym("j", 0, 2)
    index = Affine.sum(zip(coefs, (i, j), strict=True))
    cells = [index.evaluate({i: a, j: b}) for a in range(4) for b in range(3)]
    assert (len(set(cells)) == 12) == tells  # the rows are right
    assert (determined_symbols([index], ()) == {i, j}) == tells
    assert determined_symbols([index], [i]) == {j}
    assert determined_symbols([index, Affine.of(i)], ()) == {i, j}


def test_a_program_that_leaves_an_array_is_refused():
    y = buffer("y", (3,))
    i = Sym("i", 0, 3)
    proc = Proc("far", (y,), (), (For(i, Bound.lower(0), Bound.upper(4), (Store(Ref(y, at(i)), Const(0, int64)),)),))
    with pytest.raises(VerifyError, match=r"program `far` leaves array `y` of sizes \(3,\) at \[i\]"):
        both(proc, {"y": np.zeros(3, np.int64)})


def test_memory_stays_bounded():
    """A product over 300 x 300 x 300 points never has them all at once."""
    import tracemalloc

    n = 300
    c, a, b = (buffer(name, (n, n), precision=float64) for name in "cab")
    i, j, k = (Sym(name, 0, n - 1) for name in "ijk")
    product = Apply(BY_NAME["mul"], (Load(Ref(a, at(i, k))), Load(Ref(b, at(k, j)))))
    stmt = Update(Ref(c, at(i, j)), BY_NAME["add"], product)
    for sym in (k, j, i):
        stmt = For(sym, Bound.lower(0), Bound.upper(n), (stmt,))
    backend = ReferenceBackend()
    device = backend.device(0)
    queue = device.queue(threaded=False)
    where = [Location(device.alloc_pool(buf.nbytes), 0) for buf in (c, a, b)]
    rng = np.random.default_rng(0)
    arrays = [np.zeros((n, n)), rng.random((n, n)), rng.random((n, n))]
    for location, array in zip(where, arrays, strict=True):
        queue.from_host(location, array)
    entry = backend.link(backend.compile([Proc("mm", (c, a, b), (), (stmt,))]), "mm", queue, where)
    tracemalloc.start()
    entry()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    queue.to_host(where[0], arrays[0])
    for location in where:
        device.free_pool(location.pool)
    np.testing.assert_allclose(arrays[0], arrays[1] @ arrays[2])
    assert peak < 100e6
