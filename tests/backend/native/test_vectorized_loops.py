"""Vectorized and unrolled loops equal serial ones: the conformance kit, with all eligible loops vectorized."""

from dataclasses import replace

import pytest

from ocannl.base.errors import VerifyError
from ocannl.ir.affine import TRUE, Affine, Cond, Sym
from ocannl.ir.loops import (
    AccessMode,
    Apply,
    Const,
    For,
    If,
    IndexValue,
    Let,
    Local,
    Mode,
    Ref,
    Store,
    Update,
    Var,
    When,
    loop,
)
from ocannl.ir.ops import ADD, BY_NAME, MAX, MUL
from ocannl.ir.precision import PRECISIONS, bfloat16, float32, float64, int32
from ocannl.ir.verify import verify
from ocannl.ir.walk import rewrite_body, walk
from ocannl.opt.analysis.substitution import substitute
from ocannl.testing import kit
from ocannl.testing.kit.cases import A, case, cell, load, local, pool, sym
from ocannl.testing.kit.harness import Bench
from ocannl.testing.kit.operations import MONOIDS, has_meaning
from ocannl.testing.kit.statements import numbers

pytestmark = [pytest.mark.sample(16)]
LANES = 27  # per strip: vectors of several widths and a scalar
UNROLLED = 20  # maximum trip count of unrolled loops


def split_into_strips(loop_stmt):
    """Vectorizes a loop; long loops are strip-mined, with a remainder."""
    lo, hi = loop_stmt.lo.constant, loop_stmt.hi.constant
    if hi - lo < LANES or len(loop_stmt.body) > 1 or not isinstance(loop_stmt.body[0], Store | Update):
        return replace(loop_stmt, mode=Mode.VECTORIZED)
    (leaf,) = loop_stmt.body

    def lanes(first, count, stem):
        lane = Sym(f"{loop_stmt.sym.name}_{stem}", 0, count - 1)
        bindings = {loop_stmt.sym: first + A(lane)}
        ref = Ref(leaf.ref.buf, tuple(index.substitute(bindings) for index in leaf.ref.indices))
        return loop(lane, (replace(leaf, ref=ref, value=substitute(leaf.value, bindings)),), mode=Mode.VECTORIZED)

    num_strips, remaining = divmod(hi + 1 - lo, LANES)
    strip = Sym(f"{loop_stmt.sym.name}_turn", 0, num_strips - 1)
    strips_loop = loop(strip, (lanes(Affine(((LANES, strip),), lo), LANES, "lane"),))
    return If(TRUE, (strips_loop, *((lanes(A(lo + num_strips * LANES), remaining, "rest"),) if remaining else ())))


def unrolled(loop_stmt):
    return replace(loop_stmt, mode=Mode.UNROLLED) if loop_stmt.sym.extent <= UNROLLED else loop_stmt


def in_modes(proc):
    """The program with all loops vectorized where the verifier allows it, otherwise unrolled."""
    for sym_ in [node.sym for node in walk(proc.body) if isinstance(node, For)]:
        for transform in (split_into_strips, unrolled):

            def rewrite(node, sym_=sym_, transform=transform):
                constant = isinstance(node, For) and node.lo.constant is not None and node.hi.constant is not None
                return transform(node) if constant and node.sym is sym_ and not node.parallel_chunk else node

            candidate = replace(proc, body=rewrite_body(proc.body, rewrite))
            try:
                verify(candidate, "placed", alignment_bytes=64)
            except VerifyError:
                continue
            proc = candidate
            break
    return proc


class InModes:
    """A backend that compiles the transformed programs."""

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


def vectorized_case(test_case):
    """Checks that the case has a vectorized loop, and returns the case."""
    assert any(isinstance(node, For) and node.mode is Mode.VECTORIZED for node in walk(test_case.proc.body))
    verify(test_case.proc, "placed", alignment_bytes=64)
    return test_case


WIDTHS = (2, 3, 4, 7, 8, 10, 15, 16, 17, 33)


@pytest.mark.parametrize("p", [float32, float64, int32, bfloat16], ids=str)
@pytest.mark.parametrize("step", [-3, -1, 0, 1, 2, 3, 5])
def test_strided_accesses_of_lanes(bench, p, step):
    """Loads, stores and updates of cells `step` elements apart; 0 updates a cell by all lanes."""
    cases = []
    for width in WIDTHS:
        num_cells = abs(step) * (width - 1) + 1
        a, b = numbers(p, 3, num_cells), numbers(p, 2, num_cells)
        x, y, lane, k = pool("x", a, AccessMode.IN), pool("y", b), sym("l", width), sym("k", 2)
        index = A(lane) * step + (num_cells - 1 if step < 0 else 0)
        body = [Update(cell(y, k, index), ADD, Apply(MUL, (load(x, 2, index), load(x, k, index))))]
        if step:
            body.append(Store(cell(y, k, index), Apply(ADD, (load(y, k, index), load(x, 1, index)))))
        body = (loop(k, (loop(lane, tuple(body), mode=Mode.VECTORIZED),)),)
        cases.append(vectorized_case(case(f"cells_{width}", [(x, a), (y, b)], body)))
    for test_case in cases:
        bench.check(test_case, cases)


@pytest.mark.parametrize("p", PRECISIONS, ids=str)
def test_updates_of_a_cell_by_all_lanes(bench, p):
    cases = []
    for op in (op for op in MONOIDS if has_meaning(op, p)):
        for width in WIDTHS:
            a = (numbers(p, width) % 2 if op.name in ("add", "mul") else numbers(p, width)).astype(p.numpy)
            x, y, lane = pool("x", a, AccessMode.IN), pool("y", a[:1]), sym("l", width)
            body = (loop(lane, (Update(cell(y, 0), op, load(x, lane)),), mode=Mode.VECTORIZED),)
            cases.append(vectorized_case(case(f"{op}_{width}", [(x, a), (y, a[:1])], body)))
    for test_case in cases:
        bench.check(test_case, cases)


@pytest.mark.parametrize("p", [float32, float64, int32], ids=str)
def test_uniform_and_varying_expressions(bench, p):
    """Variables, conditions and indices, uniform and varying."""
    cases = []
    for width in WIDTHS:
        a, b = numbers(p, 3, width), numbers(p, 3, width)
        x, y, i, lane = pool("x", a, AccessMode.IN), pool("y", b), sym("i", 3), sym("l", width)
        uniform = Apply(ADD, (load(x, i, 0), IndexValue(A(i) * 2 + 1, p)))
        varying = Apply(MUL, (Var("same", p), Apply(ADD, (load(x, i, lane), IndexValue(A(lane) * 3 - i, p)))))
        chosen = When(Cond((A(i) - 1,)), Apply(ADD, (load(x, i, lane), Var("each", p))), Var("each", p))
        odd = When(
            Cond((A(lane) - i,), (A(lane) - 2 * A(i) - 1,)), Const(5, p), Apply(MAX, (Var("each", p), Const(7, p)))
        )
        above = Apply(BY_NAME["where"], (Apply(BY_NAME["lt"], (load(x, i, lane), Const(4, p))), chosen, odd))
        body = (Let("same", uniform), Let("each", varying), Store(cell(y, i, lane), above),
                Update(cell(y, i, lane), BY_NAME["add"], Apply(BY_NAME["not"], (load(x, i, lane),))))  # fmt: skip
        body = (loop(i, (loop(lane, body, mode=Mode.VECTORIZED),)),)
        cases.append(vectorized_case(case(f"kinds_{width}", [(x, a), (y, b)], body)))
    for test_case in cases:
        bench.check(test_case, cases)


@pytest.mark.parametrize("p", [float32, float64, bfloat16], ids=str)
@pytest.mark.parametrize("tail", [0, 1, 5, 10])
def test_tiles_of_local_arrays(bench, p, tail):
    """Register tiles with a partial vector at the end of rows."""
    rows, lanes, depth, columns = 3, 16, 5, 16 + tail
    a, b, c = (numbers(p, *shape) % 4 for shape in ((rows, depth), (depth, columns), (rows, columns)))
    a, b, c = (array.astype(p.numpy) for array in (a, b, c))
    x, w, y = pool("x", a, AccessMode.IN), pool("w", b, AccessMode.IN), pool("y", c)
    acc = local("acc", p, rows, 2, lanes)
    u, v, n, k = sym("u", rows), sym("v", rows), sym("n", rows), sym("k", depth)

    def cells(row, make):
        vectors = [(0, lanes), *([(1, tail)] if tail else [])]
        inner = [
            loop(s := sym(f"{row.name}_{vector}", width), (make(vector, s),), mode=Mode.VECTORIZED) if width > 1
            else make(vector, 0)
            for vector, width in vectors
        ]
        return loop(row, tuple(inner), mode=Mode.UNROLLED)

    body = (
        Local(acc),
        cells(u, lambda vector, s: Store(cell(acc, u, vector, s), Const(0, p))),
        loop(k, (cells(v, lambda vector, s: Update(
            cell(acc, v, vector, s), ADD, Apply(MUL, (load(x, v, k), load(w, k, A(s) + vector * lanes))))),)),
        cells(n, lambda vector, s: Update(cell(y, n, A(s) + vector * lanes), ADD, load(acc, n, vector, s))),
    )  # fmt: skip
    bench.check(vectorized_case(case("tile", [(x, a), (w, b), (y, c)], body)))
