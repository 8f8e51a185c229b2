"""Programs with sequential loops and conditional code: optimization preserves their results."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from ocannl.ir.affine import Affine, Sym, SymKind
from ocannl.ir.assign import Assign, Call, Comp, Conditional, Loop, Number, Piece, Read, Seq, Value
from ocannl.ir.capabilities import Capabilities
from ocannl.ir.interpret import interpret
from ocannl.ir.loops import For, Mode
from ocannl.ir.ops import ADD, BY_NAME, MUL, Op
from ocannl.ir.precision import float32
from ocannl.ir.tnode import Role, TNode
from ocannl.ir.verify import verify
from ocannl.ir.walk import walk
from ocannl.lower.lower import lower
from ocannl.opt.analysis.nests import accessed_buffers
from ocannl.opt.memory.decide_placement import decide_placement
from ocannl.opt.memory.precompute_weight_arrays import precompute_weight_arrays
from ocannl.opt.pipeline import optimize, stage_after
from ocannl.testing.evaluate import evaluate

SCALAR = Capabilities(wants_schedule=False)
NATIVE = Capabilities(vector_bytes=32)
PRECOMPUTING = Capabilities(vector_bytes=32, wants_precomputed_weights=True)
TARGETS = pytest.mark.parametrize(
    "capabilities", [SCALAR, NATIVE, PRECOMPUTING], ids=["scalar", "native", "precomputing"]
)


def node(label: str, *dims: int, role: Role = Role.RESULT) -> TNode:
    return TNode(label, role, lambda: dims, lambda: float32)


def read(of: TNode, *at: Affine | Sym | int) -> Read:
    return Read(of, tuple(map(Affine.of, at)))


def put(
    lhs: TNode, at: Sequence[Affine | Sym | int], value: Value, accum: Op | None = None, loops: Sequence[Sym] = ()
) -> Assign:
    clear = accum is not None or all(isinstance(index, Sym) for index in at)
    return Assign(lhs, accum, clear, (Piece(tuple(loops), tuple(map(Affine.of, at)), value),))


class Recurrence:
    """`states[t + 1] = tanh(w @ states[t] + x[t])`, started at `first`; `last` is the last state."""

    def __init__(self, steps: int, width: int) -> None:
        self.x = node("x", steps, width, role=Role.PLACEHOLDER)
        self.w = node("w", width, width, role=Role.PARAMETER)
        self.first = node("first", width, role=Role.PLACEHOLDER)
        self.states, self.product, self.next = node("states", steps + 1, width), node("q", width), node("v", width)
        self.last = node("last", width)
        self.t = t = Sym("t", 0, steps - 1, SymKind.ITERATION)
        i, k = Sym("i", 0, width - 1), Sym("k", 0, width - 1)
        argument = Call(ADD, (read(self.product, i), read(self.x, t, i)))
        self.step = Seq((
            put(self.product, [i], Call(MUL, (read(self.w, i, k), read(self.states, t, k))), ADD, [i, k]),
            put(self.next, [i], Call(BY_NAME["tanh"], (argument,)), loops=[i]),
            put(self.states, [Affine.of(t) + 1, i], read(self.next, i), loops=[i]),
        ))
        self.before = put(self.states, [0, i], read(self.first, i), loops=[i])
        self.after = put(self.last, [i], read(self.states, steps, i), loops=[i])

    def code(self) -> Comp:
        return Seq((self.before, Loop(self.t, self.step, (self.states,)), self.after))

    def arrays(self) -> dict[TNode, np.ndarray]:
        rng = np.random.default_rng(0)
        return {n: 0.2 * rng.normal(size=n.dims).astype("float32") for n in (self.x, self.w, self.first)}


def check(code: Comp, arrays: dict[TNode, np.ndarray], result: TNode, capabilities: Capabilities) -> None:
    expected = evaluate(code, arrays)[result]
    proc = lower(code, "step")
    verify(proc, "lowered")
    np.testing.assert_allclose(interpret(proc, arrays)[result], expected, rtol=1e-5, atol=1e-6)

    def on_stage(name: str, stage: object) -> None:
        verify(stage, stage_after(name), alignment_bytes=capabilities.alignment_bytes)  # type: ignore[arg-type]
        np.testing.assert_allclose(interpret(stage, arrays)[result], expected, rtol=1e-5, atol=1e-6)  # type: ignore[arg-type]

    optimize(proc, {result: "result"}, capabilities, on_stage)


@TARGETS
@pytest.mark.parametrize("steps", [0, 1, 4])
def test_a_recurrence(steps: int, capabilities: Capabilities) -> None:
    r = Recurrence(steps, 24)
    check(r.code(), r.arrays(), r.last, capabilities)


@TARGETS
def test_a_loop_in_a_loop(capabilities: Capabilities) -> None:
    r, total = Recurrence(3, 20), node("total", 20)
    n, i = Sym("n", 0, 2, SymKind.ITERATION), Sym("i", 0, 19)
    seen = Assign(total, ADD, False, (Piece((i,), (Affine.of(i),), read(r.last, i)),))
    restart = put(r.states, [0, i], read(total, i), loops=[i])
    fill = put(total, [i], read(r.first, i), loops=[i])
    code = Seq((fill, Loop(n, Seq((restart, Loop(r.t, r.step, (r.states,)), r.after, seen)))))
    check(code, r.arrays(), total, capabilities)


@TARGETS
@pytest.mark.parametrize("flag", [0.0, 2.0, np.nan])
def test_conditional_code(flag: float, capabilities: Capabilities) -> None:
    x, y, condition = node("x", 40, role=Role.PLACEHOLDER), node("y", 40), node("flag", role=Role.PLACEHOLDER)
    i = Sym("i", 0, 39)
    double = put(y, [i], Call(MUL, (read(x, i), Number(2))), loops=[i])
    code = Seq((put(y, [i], read(x, i), loops=[i]), Conditional(read(condition), double)))
    arrays = {x: np.arange(40, dtype="float32"), condition: np.array(flag, "float32")}
    check(code, arrays, y, capabilities)


def test_nests_of_a_step_are_optimized() -> None:
    proc = optimize(lower(Recurrence(4, 64).code(), "step"), {}, NATIVE)
    (loop,) = (stmt for stmt in proc.body if isinstance(stmt, For) and stmt.mode is Mode.SEQUENTIAL)
    assert any(isinstance(stmt, For) and stmt.mode is Mode.VECTORIZED for stmt in walk(loop.body))
    assert not any(buf.name == "v" for buf in proc.bufs)  # inlined


def test_weights_of_conditional_code_and_loops() -> None:
    """Nests in conditional code and loops that depend on weights only are computed on request, whatever is executed;
    those whose results are read before, or written elsewhere as well, stay."""
    w, x = node("w", 6, role=Role.PARAMETER), node("x", 6, role=Role.PLACEHOLDER)
    flag = node("flag", role=Role.PLACEHOLDER)
    moved, carried, shared, total = node("moved", 6), node("carried", 6), node("shared", 6), node("total", 6)
    i, t = Sym("i", 0, 5), Sym("t", 0, 2, SymKind.ITERATION)

    def set_(lhs: TNode, value: Value) -> Assign:
        return put(lhs, [i], value, loops=[i])

    def add(of: TNode) -> Assign:
        return Assign(total, ADD, False, (Piece((i,), (Affine.of(i),), read(of, i)),))

    exp = Call(BY_NAME["exp"], (read(w, i),))
    step = Seq((
        set_(moved, exp), add(moved), add(carried), set_(carried, exp),
        Conditional(read(flag), Seq((set_(shared, exp), add(shared)))),
    ))
    start = [set_(y, read(x, i)) for y in (total, carried, shared)]
    code = Seq((*start, Loop(t, step, (carried,))))
    proc = precompute_weight_arrays(decide_placement(lower(code, "step"), {total: "result"}))
    region, *rest = proc.body
    assert {buf.name for buf in accessed_buffers(region)[1]} == {"weights_changed", "moved"}
    assert {"carried", "shared"} <= {buf.name for stmt in rest for buf in accessed_buffers(stmt)[1]}
    for value in (0.0, 1.0):
        arrays = {n: np.linspace(0, 1, 6, dtype="float32") for n in (w, x)} | {flag: np.array(value, "float32")}
        expected = evaluate(code, arrays)[total]
        np.testing.assert_allclose(interpret(proc, arrays)[total], expected, rtol=1e-5)
        check(code, arrays, total, PRECOMPUTING)
