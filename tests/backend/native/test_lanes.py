"""Loops over lanes, and unrolled ones, do what serial ones do: the kit, with every loop made so that can be."""

from dataclasses import replace

import pytest

from ocannl.base.errors import VerifyError
from ocannl.ir.index import TRUE, Affine, Cond, Sym
from ocannl.ir.loops import Access, Apply, For, Idx, If, Let, Local, Mode, Num, Ref, Store, Update, Var, When, loop
from ocannl.ir.ops import ADD, BY_NAME, MAX, MUL
from ocannl.ir.precision import PRECISIONS, bfloat16, float32, float64, int32
from ocannl.ir.verify import verify
from ocannl.ir.walk import rewrite_body, walk
from ocannl.opt.substitute import substitute
from ocannl.testing import kit
from ocannl.testing.kit.bench import Bench
from ocannl.testing.kit.cases import A, case, cell, load, local, pool, sym
from ocannl.testing.kit.operations import MONOIDS, has_meaning
from ocannl.testing.kit.statements import numbers

LANES = 27  # at a time: vectors of several lengths, and a number
UNROLLED = 20  # iterations of a loop that cannot be in lanes


def strips(one):
    """A loop as one over lanes; a long one in strips, and the lanes that are left over."""
    lo, hi = one.lo.constant, one.hi.constant
    if hi - lo < LANES or len(one.body) > 1 or not isinstance(one.body[0], Store | Update):
        return replace(one, mode=Mode.LANES)
    (leaf,) = one.body

    def lanes(first, count, stem):
        lane = Sym(f"{one.sym.name}_{stem}", 0, count - 1)
        known = {one.sym: first + A(lane)}
        ref = Ref(leaf.ref.buf, tuple(at.substitute(known) for at in leaf.ref.at))
        return loop(lane, (replace(leaf, ref=ref, value=substitute(leaf.value, known)),), mode=Mode.LANES)

    turns, left = divmod(hi + 1 - lo, LANES)
    turn = Sym(f"{one.sym.name}_turn", 0, turns - 1)
    whole = loop(turn, (lanes(Affine(((LANES, turn),), lo), LANES, "lane"),))
    return If(TRUE, (whole, *((lanes(A(lo + turns * LANES), left, "rest"),) if left else ())))


def unrolled(one):
    return replace(one, mode=Mode.UNROLLED) if one.sym.extent <= UNROLLED else one


def in_modes(proc):
    """The program with each loop over lanes if that keeps the rules, or else unrolled."""
    for sym_ in [node.sym for node in walk(proc.body) if isinstance(node, For)]:
        for change in (strips, unrolled):

            def changed(node, sym_=sym_, change=change):
                constant = isinstance(node, For) and node.lo.constant is not None and node.hi.constant is not None
                return change(node) if constant and node.sym is sym_ and not node.claimed else node

            other = replace(proc, body=rewrite_body(proc.body, changed))
            try:
                verify(other, "placed", alignment_bytes=64)
            except VerifyError:
                continue
            proc = other
            break
    return proc


class InModes:
    """A backend that is given programs so."""

    def __init__(self, backend):
        self.backend = backend

    def __getattr__(self, name):
        return getattr(self.backend, name)

    def compile(self, procs):
        return self.backend.compile([in_modes(proc) for proc in procs])


class Native:
    @pytest.fixture(scope="class")
    @classmethod
    def tested(cls, native):
        return InModes(native)


class TestOperations(Native, kit.Operations):
    pass


class TestCasts(Native, kit.Casts):
    pass


class TestLayouts(Native, kit.Layouts):
    pass


class TestLoops(Native, kit.Loops):
    pass


class Narrow:
    @pytest.fixture(scope="class")
    @classmethod
    def tested(cls, narrowed):
        return InModes(narrowed)


class TestNarrowOperations(Narrow, kit.Operations):
    pass


class TestNarrowCasts(Narrow, kit.Casts):
    pass


@pytest.fixture(scope="module")
def bench(native):
    return Bench(native)


def of_lanes(one):
    """The case, if its loop is one over lanes."""
    assert any(isinstance(node, For) and node.mode is Mode.LANES for node in walk(one.proc.body))
    verify(one.proc, "placed", alignment_bytes=64)
    return one


WIDTHS = (2, 3, 4, 7, 8, 10, 15, 16, 17, 33)


@pytest.mark.parametrize("p", [float32, float64, int32, bfloat16], ids=str)
@pytest.mark.parametrize("step", [-3, -1, 0, 1, 2, 3, 5])
def test_cells_of_lanes(bench, p, step):
    """So far apart, read and written; all together where they are the same."""
    made = []
    for width in WIDTHS:
        many = abs(step) * (width - 1) + 1
        a, b = numbers(p, 3, many), numbers(p, 2, many)
        x, y, lane, k = pool("x", a, Access.IN), pool("y", b), sym("l", width), sym("k", 2)
        at = A(lane) * step + (many - 1 if step < 0 else 0)
        body = [Update(cell(y, k, at), ADD, Apply(MUL, (load(x, 2, at), load(x, k, at))))]
        if step:
            body.append(Store(cell(y, k, at), Apply(ADD, (load(y, k, at), load(x, 1, at)))))
        body = (loop(k, (loop(lane, tuple(body), mode=Mode.LANES),)),)
        made.append(of_lanes(case(f"cells_{width}", [(x, a), (y, b)], body)))
    for one in made:
        bench.check(one, made)


@pytest.mark.parametrize("p", PRECISIONS, ids=str)
def test_lanes_that_update_one_cell(bench, p):
    made = []
    for op in (op for op in MONOIDS if has_meaning(op, p)):
        for width in WIDTHS:
            a = (numbers(p, width) % 2 if op.name in ("add", "mul") else numbers(p, width)).astype(p.numpy)
            x, y, lane = pool("x", a, Access.IN), pool("y", a[:1]), sym("l", width)
            body = (loop(lane, (Update(cell(y, 0), op, load(x, lane)),), mode=Mode.LANES),)
            made.append(of_lanes(case(f"{op}_{width}", [(x, a), (y, a[:1])], body)))
    for one in made:
        bench.check(one, made)


@pytest.mark.parametrize("p", [float32, float64, int32], ids=str)
def test_what_lanes_have_in_common_and_what_they_do_not(bench, p):
    """Definitions, conditions and indices, of each kind."""
    made = []
    for width in WIDTHS:
        a, b = numbers(p, 3, width), numbers(p, 3, width)
        x, y, i, lane = pool("x", a, Access.IN), pool("y", b), sym("i", 3), sym("l", width)
        same = Apply(ADD, (load(x, i, 0), Idx(A(i) * 2 + 1, p)))
        each = Apply(MUL, (Var("same", p), Apply(ADD, (load(x, i, lane), Idx(A(lane) * 3 - i, p)))))
        chosen = When(Cond((A(i) - 1,)), Apply(ADD, (load(x, i, lane), Var("each", p))), Var("each", p))
        odd = When(Cond((A(lane) - i,), (A(lane) - 2 * A(i) - 1,)), Num(5, p), Apply(MAX, (Var("each", p), Num(7, p))))
        above = Apply(BY_NAME["where"], (Apply(BY_NAME["lt"], (load(x, i, lane), Num(4, p))), chosen, odd))
        body = (Let("same", same), Let("each", each), Store(cell(y, i, lane), above),
                Update(cell(y, i, lane), BY_NAME["add"], Apply(BY_NAME["not"], (load(x, i, lane),))))  # fmt: skip
        body = (loop(i, (loop(lane, body, mode=Mode.LANES),)),)
        made.append(of_lanes(case(f"kinds_{width}", [(x, a), (y, b)], body)))
    for one in made:
        bench.check(one, made)


@pytest.mark.parametrize("p", [float32, float64, bfloat16], ids=str)
@pytest.mark.parametrize("tail", [0, 1, 5, 10])
def test_tiles_of_local_arrays(bench, p, tail):
    """Rows of vectors that are summed in registers, the last vector of a row being short."""
    rows, lanes, depth, columns = 3, 16, 5, 16 + tail
    a, b, c = (numbers(p, *shape) % 4 for shape in ((rows, depth), (depth, columns), (rows, columns)))
    a, b, c = (each.astype(p.numpy) for each in (a, b, c))
    x, w, y = pool("x", a, Access.IN), pool("w", b, Access.IN), pool("y", c)
    acc = local("acc", p, rows, 2, lanes)
    u, v, n, k = sym("u", rows), sym("v", rows), sym("n", rows), sym("k", depth)

    def cells(row, make):
        parts = [(0, lanes), *([(1, tail)] if tail else [])]
        inner = [
            loop(s := sym(f"{row.name}_{part}", many), (make(part, s),), mode=Mode.LANES) if many > 1
            else make(part, 0)
            for part, many in parts
        ]
        return loop(row, tuple(inner), mode=Mode.UNROLLED)

    body = (
        Local(acc),
        cells(u, lambda part, s: Store(cell(acc, u, part, s), Num(0, p))),
        loop(k, (cells(v, lambda part, s: Update(
            cell(acc, v, part, s), ADD, Apply(MUL, (load(x, v, k), load(w, k, A(s) + part * lanes))))),)),
        cells(n, lambda part, s: Update(cell(y, n, A(s) + part * lanes), ADD, load(acc, n, part, s))),
    )  # fmt: skip
    bench.check(of_lanes(case("tile", [(x, a), (w, b), (y, c)], body)))
