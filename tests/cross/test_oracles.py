"""The judges are judged: the generator writes what it says, gradcheck finds what is wrong, seeded bugs are caught."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from shrink_programs import kept, recalled, shrunk

import ocannl as oc
from ocannl import train
from ocannl.ir.affine import SymKind
from ocannl.ir.assign import Call, Convert, Number, Read, assigns
from ocannl.ir.ops import OPS, Domain
from ocannl.lang.core import derivatives, graph, slots, symbolic_terms, tensor
from ocannl.lang.ops import reductions
from ocannl.testing.axis_ops import SHAPE_PRESERVING
from ocannl.testing.numpy_semantics import BINARY, INTEGERS, NUMBERS, TERNARY, TOTALS, UNARY, joined, matmul
from ocannl.testing.oracles import Failure, compare_backend, compare_gradients, compare_values, differs, oracle_case
from ocannl.testing.program import Program
from ocannl.testing.random_expressions import generate
from ocannl.testing.random_updates import UPDATES

# --- the generator ---------------------------------------------------------------------------------------------------


def test_a_seed_is_a_program() -> None:
    for seed in range(20):
        first, second = generate(Random(seed)), generate(Random(seed))
        assert str(first) == str(second)
        assert all(np.array_equal(first.data[name], second.data[name]) for name in first.data)


@pytest.mark.slow
def test_programs_are_long_and_write_everything_there_is() -> None:
    """Those of the first 1500 seeds."""
    programs = [generate(Random(seed)) for seed in range(1500)]
    assert np.median([p.operations for p in programs]) >= 12
    text = "\n".join(map(str, programs))
    for row in (*UNARY, *BINARY, *NUMBERS, *INTEGERS, *TERNARY, *TOTALS):
        written = ".*".join(map(re.escape, row.text.split("{}")))
        assert re.search(written, text), row.text
    for update, _ in UPDATES:
        written = ".*".join(map(re.escape, re.split(r"\{\d\}", update)))
        assert re.search(written, text), update
    for part in ("oc.einsum", ".sum(", ".max(", ".mean()", "oc.placeholder", "oc.param(dtype", "oc.no_grad", "symbol"):
        assert part in text
    for part in ("reduce='max'", "combine='fma'", "...", "..r..", "|_", "=0", ".T", "[1]", "grad=True", "reduce='mul'"):
        assert part in text
    for part in ("p^q", "1^p", "k^", "oc.stack", "oc.block", "(p q)", "o<+", "o=+", "2*o", "+2*k", ".grad", "] += t"):
        assert part in text
    for part in (*SHAPE_PRESERVING, "roll", "triu", "tril", "diag", "diagonal", "trace", "conv1d", "max_pool1d"):
        assert f"oc.{part}(" in text
    for part in ("avg_pool1d", "take", "pick", "one_hot", "uniform", "norm", "logsumexp"):
        assert f"oc.{part}(" in text
    assert all(f"{method}(" in text for method in (".var", ".std", ".prod", ".norm", ".mean"))
    sizes = {size for p in programs for array in p.data.values() for size in array.shape}
    assert sizes >= {0, 1, 2, 3, 4}
    kinds = {array.dtype.name for p in programs for array in p.data.values()}
    assert kinds == {"float64", "float16", "bfloat16", "int32", "uint8"}
    assert 0.5 < np.mean([p.smooth for p in programs]) < 1
    assert np.mean([len(p.calls) > 1 for p in programs]) > 0.5
    assert np.mean([len({*map(str, p.calls)}) > 1 for p in programs]) > 0.1  # symbols have several values


@pytest.mark.slow
def test_programs_reach_every_primitive_and_every_kind_of_loop() -> None:
    """Programs of 250 seeds contain all that expressions can contain."""
    applied, accumulated, seen = set(), set(), set()
    for seed in range(250):
        built = generate(Random(seed)).build("float32")
        assert built.tensors["loss"].dims == ()
        code = train.grad_update(built.loss)
        for assign in assigns((code if built.update is None else oc.seq(code, built.update)).elaborate().comp):
            accumulated.add(assign.accum.name if assign.accum else "store")
            for piece in assign.pieces:
                seen |= {"guarded"} if not piece.when.is_true else set()
                seen |= {"laid"} if len(assign.pieces) > 1 else set()
                for value in reading(piece.value):
                    if isinstance(value, Call):
                        applied.add(value.op.name)
                    if isinstance(value, Read) and value.outside is not None:
                        seen.add("padded")
                    if isinstance(value, Read) and any(len(index.terms) > 1 for index in value.indices):
                        seen.add("window")
                    if isinstance(value, Read) and value.node is assign.lhs:
                        seen.add("state")
                    if isinstance(value, Read) and any(s.kind is SymKind.STATIC for i in value.indices for s in i.syms):
                        seen.add("symbol")
    wanted = {op.name for op in OPS if op.domain is not Domain.WORD}  # words of 128 bits are judged by known answers
    wanted -= {"atan", "atan2", "erf", "erfc", "lgamma"}  # drawn by the programs of `random_values`
    assert applied >= wanted, wanted - applied
    assert accumulated >= {"store", "add", "sub", "mul", "max", "min"}
    assert seen == {"guarded", "laid", "padded", "window", "state", "symbol"}


def reading(value: Any) -> Iterator[Any]:
    yield value
    match value:
        case Call(_, args):
            for argument in args:
                yield from reading(argument)
        case Convert(inner):
            yield from reading(inner)


@pytest.mark.slow
def test_values_are_well_conditioned() -> None:
    for seed in range(200):
        program = generate(Random(seed))
        for value in program.meaning().values():
            assert np.isfinite(value).all()
        slopes = [program.slope({name: np.ones_like(program.data[name])}) for name in program.params]
        assert np.isfinite(slopes).all()


def test_shapes_of_the_model_are_those_of_numpy() -> None:
    assert joined(((2,), (), (3, 1)), ((), (4,), (5,))) == ((2,), (4,), (3, 5))
    with pytest.raises(ValueError, match="broadcast"):
        joined(((2,), (), ()), ((3,), (), ()))
    x, y = np.arange(24.0).reshape(2, 3, 4), np.arange(8.0).reshape(2, 4)
    got = matmul(x, ((2,), (4,), (3,)), y, ((2,), (), (4,)))
    assert np.array_equal(got, np.einsum("bij,bj->bi", x, y))


# --- seeded bugs -----------------------------------------------------------------------------------------------------


def disagreement(seed: int) -> str:
    """What NumPy or finite differences have against what the oracle makes of a program."""
    program = generate(Random(seed))
    try:
        case = oracle_case(program, "float64")
    except Failure as refusal:
        return str(refusal)
    return str(compare_values(program, case) or compare_gradients(program, case) or "")


def wrong_rule(name: str, number: int, rule: Callable[..., Any] | None) -> Callable[[pytest.MonkeyPatch], None]:
    def seed(patch: pytest.MonkeyPatch) -> None:
        rules = list(derivatives.DERIVATIVES[name])
        rules[number] = rule
        patch.setitem(derivatives.DERIVATIVES, name, tuple(rules))

    return seed


def no_zeroing(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(tensor.Tensor, "zero_gradient", lambda t: ())


def gradient_stored_instead_of_added(patch: pytest.MonkeyPatch) -> None:
    original = slots.Slot.write

    def write(self: Any, accum: Any, clear: bool, value: object) -> None:
        original(self, accum, True, value) if accum is not None else original(self, accum, clear, value)

    patch.setattr(slots.Slot, "write", write)


def backprop_in_the_wrong_order(patch: pytest.MonkeyPatch) -> None:
    original = graph.ancestors
    patch.setattr(graph, "ancestors", lambda roots: original(roots)[::-1])


def mean_that_counts_one_more(patch: pytest.MonkeyPatch) -> None:
    original = reductions.cells_per_result
    patch.setattr(reductions, "cells_per_result", lambda *of: original(*of) + 1)


def numbers_rounded(patch: pytest.MonkeyPatch) -> None:
    original = symbolic_terms.tree_of

    def tree_of(value: object) -> Any:
        new_rows = original(value)
        return Number(float(round(new_rows.value))) if isinstance(new_rows, Number) else new_rows

    patch.setattr(symbolic_terms, "tree_of", tree_of)


BUGS: dict[str, Callable[[pytest.MonkeyPatch], None]] = {
    "mul hands its gradient to one operand only": wrong_rule("mul", 1, None),
    "sub forgets its sign": wrong_rule("sub", 1, lambda g, v, x, y: g),
    "div divides by its own value": wrong_rule("div", 0, lambda g, v, x, y: g / v),
    "tanh forgets a square": wrong_rule("tanh", 0, lambda g, v, x: g * (1.0 - v)),
    "where takes the other side": wrong_rule(
        "where", 1, lambda g, v, c, x, y: symbolic_terms.apply("where", c, 0.0, g)
    ),
    "max hands everything to the first": wrong_rule("max", 0, lambda g, v, x, y: g),
    "pow forgets its factor": wrong_rule("pow", 0, lambda g, v, x, y: g * x ** (y - 1.0)),
    "sin is its own derivative": wrong_rule("sin", 0, lambda g, v, x: g * v),
    "gradients are not zeroed": no_zeroing,
    "gradients are stored, not added": gradient_stored_instead_of_added,
    "the walk is upside down": backprop_in_the_wrong_order,
    "a mean counts one more": mean_that_counts_one_more,
    "numbers are rounded": numbers_rounded,
}


@pytest.mark.parametrize("bug", BUGS)
def test_a_seeded_bug_is_caught(bug: str, monkeypatch: pytest.MonkeyPatch) -> None:
    BUGS[bug](monkeypatch)
    assert any(disagreement(seed) for seed in range(200))


@pytest.mark.slow
def test_without_a_bug_there_is_nothing_to_catch() -> None:
    assert not any(disagreement(seed) for seed in range(60))


# --- failures made small ---


def verdict(program: Program) -> Failure | None:
    try:
        return compare_gradients(program, oracle_case(program, "float64"))
    except Failure as refused:
        return refused


@pytest.mark.slow
def test_a_failure_shrinks_to_what_causes_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(derivatives.DERIVATIVES, "tanh", (lambda g, v, x: g * (1.0 - v),))
    shrunk_programs = []
    for seed in range(120):
        program = generate(Random(seed))
        wrong = verdict(program)
        if wrong is not None:
            small, failure = shrunk(program, wrong, verdict)
            assert (failure.kind, verdict(small).kind) == ("gradient", "gradient")  # type: ignore[union-attr]
            assert any(word in str(small) for word in ("tanh", "sigmoid", "silu", "gelu"))
            assert not small.updates
            assert sum(line.compute is not None for line in small.lines) <= 2  # the others are leaves
            shrunk_programs.append(small)
    assert len(shrunk_programs) >= 3
    monkeypatch.undo()
    assert [verdict(small) for small in shrunk_programs] == [None] * len(shrunk_programs)


def test_what_is_kept_says_everything(tmp_path: Path) -> None:
    for seed in range(30):
        program = generate(Random(seed))
        case, want = recalled(kept(program, "float64", tmp_path / "found" / f"seed_{seed}.py"))
        assert compare_backend([case], "numpy") == [None]
        assert {line.name for line in program.updates if line.compute} <= want.keys()
        for name, array in want.items():
            node = case.built.tensors[name].node
            assert not differs(case.wants[-1][node], array, node, "float64"), f"{name}\n{program}"


# --- gradcheck -------------------------------------------------------------------------------------------------------


@oc.defop()
def halved(x):
    def forward(v, v1):
        v["=:"] = v1 * v1

    def gradient(g, v1, g1):
        g1 += g * v1

    return forward, gradient


def test_a_wrong_gradient_is_named_with_its_worst_entry() -> None:
    with pytest.raises(oc.testing.GradientMismatch) as caught:
        oc.testing.gradcheck(lambda x, y: halved(x) + y, [[1.0, 2.0], [3.0, 0.0]], 0.5)
    assert str(caught.value) == (
        "the gradient with respect to argument 1, `x1`, is 3.25155949 at x1[1, 0], and differences of the values give "
        "6.50311898; 3 of 5 entries are off by more than 1e-05, this one by 0.5"
    )
    assert isinstance(caught.value, oc.OcannlError)
    assert isinstance(caught.value, AssertionError)


def test_a_right_gradient_passes_whatever_the_arguments_are() -> None:
    rng = np.random.default_rng(0)
    oc.testing.gradcheck(lambda x: x**3, 2.0)
    oc.testing.gradcheck(lambda x: x**3, [1, 2, 3])
    oc.testing.gradcheck(lambda x: oc.exp(x), np.ones((2, 2), "float16"))
    oc.testing.gradcheck(lambda x: x * 2, np.ones((0, 3)))
    w, x = oc.tensor(rng.normal(size=(2, 3)), input_axes=1), oc.tensor(rng.normal(size=(5, 3)), batch_axes=1)
    oc.testing.gradcheck(lambda w, x: w @ x, w, x)


def test_parameters_inside_are_at_their_initial_values() -> None:
    @oc.op
    def layer(x):
        w, b = oc.param(o=[2]), oc.param(2.0 * oc.uniform() - 1.0)
        return oc.tanh(w @ x + b)

    oc.testing.gradcheck(layer, [1.0, -2.0, 0.5])


def test_tolerance_and_step_can_be_chosen() -> None:
    oc.testing.gradcheck(halved, [1.0], tol=0.6)
    with pytest.raises(oc.testing.GradientMismatch):
        oc.testing.gradcheck(oc.exp, [1.0], eps=0.5)


@pytest.mark.parametrize(
    ("error", "message", "check"),
    [
        (
            oc.CodeError,
            "gradcheck needs an argument to differentiate by: gradcheck(fn, array)",
            lambda: oc.testing.gradcheck(oc.exp),
        ),
        (
            oc.CodeError,
            "the result of the function, `exp`, has no gradient: it depends on no argument",
            lambda: oc.testing.gradcheck(lambda x: oc.exp(oc.tensor([1.0])), [1.0]),
        ),
        (
            oc.DtypeError,
            "argument 2 of gradcheck is an array, a number or a tensor, not 'a'",
            lambda: oc.testing.gradcheck(oc.add, [1.0], "a"),
        ),
        (
            oc.CodeError,
            "`p` has no contents to start from: give gradcheck arrays, or oc.tensor(array)",
            lambda: oc.testing.gradcheck(oc.exp, oc.placeholder("p", o=[3])),
        ),
    ],
)
def test_what_cannot_be_checked_is_refused(error: type[Exception], message: str, check: Callable[[], object]) -> None:
    with pytest.raises(error) as caught:
        check()
    assert str(caught.value) == message
