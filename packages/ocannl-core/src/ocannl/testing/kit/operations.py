"""Every operation on every precision, constants and indices as numbers, reductions with every monoid."""

from __future__ import annotations

from functools import cache, partial

import numpy as np
import pytest

from ocannl.ir.affine import Affine
from ocannl.ir.loops import AccessMode, Apply, Const, Expr, IndexValue, Store, Update, loop
from ocannl.ir.ops import ADD, BY_NAME, MUL, OPS, POW, Domain, Op
from ocannl.ir.precision import PRECISIONS, Family, Precision, bool_, float8_e4m3fn, uint32
from ocannl.testing.error_bounds import LOGICAL
from ocannl.testing.kit.backend_tests import Area
from ocannl.testing.kit.cases import Case, case, cell, elementwise, load, pool, sym
from ocannl.testing.kit.harness import Bench
from ocannl.testing.kit.numbers import agree, agree_fused, allowed, numpy_result, operand_values, specials

MONOIDS = [op for op in OPS if op.monoid]
CONSTANTS = (
    "max", "min", "add", "lt", "ne", "and", "where", "mod", "relu_gate", "pow", "left_shift", "right_shift",
)  # fmt: skip
precisions = pytest.mark.parametrize("p", PRECISIONS, ids=str)


def has_meaning(op: Op, p: Precision) -> bool:
    """Whether programs contain the operation in this type; booleans are added as integers, for example."""
    if p is bool_:
        return op.name in LOGICAL
    if op.domain is Domain.WORD:
        return p is uint32
    return op.domain is Domain.ANY or (op.domain is Domain.FLOAT) == p.is_float


APPLIED = [(op, p) for p in PRECISIONS for op in OPS if has_meaning(op, p)]


@cache
def applied(p: Precision) -> dict[str, Case]:
    """`y[i] = op(x0[i], ...)`."""
    cases = {}
    for op in (op for op, kind in APPLIED if kind is p):
        inputs = operand_values(op, p)
        want = numpy_result(op, p, *inputs)
        cases[op.name] = elementwise(f"op_{op.name}", inputs, want, lambda *x, op=op: Apply(op, x))
    return cases


def infinities(p: Precision) -> list[float]:
    """Infinite constants; unspecified for a type without infinities."""
    return [] if p is float8_e4m3fn else [np.inf, -np.inf, 1e300, -1e300]


def constants(p: Precision) -> list[int | float]:
    if p.is_float:
        return [0.0, 1.0, 2.0, -0.5, float("nan"), *infinities(p)]
    return [0, 1, *([] if p is bool_ else [2, 3]), *([-1] if p.family is Family.SIGNED else [])]


def beside(op: Op, number: Expr, left: bool, x: Expr) -> Expr:
    """The operation on a number and a value; `where` tests the value."""
    both = (number, x) if left else (x, number)
    return Apply(op, (x, *both) if op.arity == 3 else both)


@cache
def with_constants(op: Op, p: Precision) -> dict[str, Case]:
    """`y[i] = op(x[i], 2)` and `op(2, x[i])`."""
    cases, table = {}, specials(p)
    for n, value in enumerate(constants(p)):
        with np.errstate(all="ignore"):
            full = np.full(table.shape, value).astype(p.numpy)
        for left in (False, True):
            if op is POW and p.family is Family.SIGNED and (left or value < 0):
                continue
            pair = (full, table) if left else (table, full)
            want = numpy_result(op, p, *((table, *pair) if op.arity == 3 else pair))

            name = f"{op.name}_{n}_{'left' if left else 'right'}"
            cases[name] = elementwise(name, [table], want, partial(beside, op, Const(value, p), left))
    return cases


@cache
def reductions(p: Precision) -> dict[str, Case]:
    """`y[i] = op(y[i], x[i, j])` for all `j`, starting from the contents of `y`."""
    cases, table = {}, specials(p)
    for op in (op for op in MONOIDS if has_meaning(op, p)):
        rows = np.stack([np.resize(np.roll(table, n), 12) for n in range(len(table))])
        if op in (ADD, MUL) and p.is_float:  # exact in any order
            few = np.random.default_rng(1).integers(0, 2, rows.shape) * (np.arange(12) % 2)
            rows = (few if op is ADD else 2.0**few).astype(p.numpy)
        start, want = rows[:, 0].copy(), rows[:, 0]
        for column in rows.T:
            want = numpy_result(op, p, want, column)
        x, y = pool("x", rows, AccessMode.IN), pool("y", start)
        i, j = sym("i", rows.shape[0]), sym("j", rows.shape[1])
        body = (loop(i, (loop(j, (Update(cell(y, i), op, load(x, i, j)),)),)),)
        cases[op.name] = case(f"reduce_{op.name}", [(x, rows), (y, start)], body, want=(rows, want))
    return cases


@cache
def written(p: Precision) -> Case:
    """Constants of a type, stored one by one."""
    numbers: list[int | float] = [0, 1, 2, 7, 100]
    if p.is_float:
        numbers += [-0.0, -1, 0.5, 0.1, -2.5, 1e-3, 1e-45, np.nan, *infinities(p)]
    elif p is bool_:
        numbers = [0, 1]
    else:
        info = np.iinfo(p.numpy)
        numbers += [int(info.max), int(info.min), *([-1, -5] if info.min else [])]
    with np.errstate(all="ignore"):
        want = np.array(numbers, np.float64 if p.is_float else p.numpy).astype(p.numpy)
    y = pool("y", want, AccessMode.OUT)
    body = tuple(Store(cell(y, n), Const(number, p)) for n, number in enumerate(numbers))
    return case("constants", [(y, np.zeros_like(want))], body, want=(want,))


@cache
def indices(p: Precision) -> Case:
    """`y[i] = 3 * i + 2` as a number."""
    count = 1 if p is bool_ else 20
    want = (3 * np.arange(count) + (1 if p is bool_ else 2)).astype(p.numpy)
    y, i = pool("y", want, AccessMode.OUT), sym("i", count)
    body = (loop(i, (Store(cell(y, i), IndexValue(3 * Affine.of(i) + (1 if p is bool_ else 2), p)),)),)
    return case("indices", [(y, np.zeros_like(want))], body, want=(want,))


class Operations(Area):
    """Scalar operations have NumPy semantics in every supported precision; other precisions are refused."""

    @pytest.mark.parametrize(("op", "p"), APPLIED, ids=[f"{op}-{p}" for op, p in APPLIED])
    def test_an_operation_has_its_numpy_meaning(self, bench: Bench, op: Op, p: Precision) -> None:
        example = applied(p)[op.name]
        if not bench.claims(p):
            bench.refuses(example.proc)
            return
        if op.name not in bench.backend.capabilities.operations:
            bench.refuses(example.proc, "operations")
            return
        *inputs, got = bench.run(example, applied(p).values())
        if op.name == "fma" and p.is_float:
            agree_fused(f"{op} of {p}", p, got, inputs)
        else:
            agree(f"{op} of {p}", got, example.expected()[-1], inputs, allowed(op, p))

    @pytest.mark.parametrize("name", CONSTANTS)
    @precisions
    def test_an_operand_may_be_constant(self, bench: Bench, name: str, p: Precision) -> None:
        op = BY_NAME[name]
        cases = with_constants(op, p) if has_meaning(op, p) else {}
        if not bench.claims(p):
            for example in list(cases.values())[:1]:
                bench.refuses(example.proc)
            return
        for example in cases.values():
            *inputs, got = bench.run(example, cases.values())
            agree(f"{example.proc.name} of {p}", got, example.expected()[-1], inputs, allowed(op, p))

    @pytest.mark.parametrize("p", [p for p in PRECISIONS if p.family is Family.SIGNED], ids=str)
    def test_negative_powers_of_integers_are_cut_off(self, bench: Bench, p: Precision) -> None:
        x = np.array([0, 1, -1, -1, 2, -2, 5], p.numpy)
        n = np.array([-1, -3, -3, -2, -1, -1, np.iinfo(p.numpy).min], p.numpy)
        want = np.array([0, 1, -1, 1, 0, 0, 0], p.numpy)
        example = elementwise("powers", [x, n], want, lambda *x: Apply(POW, x))
        if bench.claims(p):
            bench.check(example)
        else:
            bench.refuses(example.proc)

    @pytest.mark.parametrize("op", MONOIDS, ids=str)
    @precisions
    def test_updates_reduce(self, bench: Bench, op: Op, p: Precision) -> None:
        if not has_meaning(op, p):
            return
        example = reductions(p)[op.name]
        if bench.claims(p):
            bench.check(example, reductions(p).values())
        else:
            bench.refuses(example.proc)

    @precisions
    def test_constants(self, bench: Bench, p: Precision) -> None:
        if bench.claims(p):
            bench.check(written(p))
        else:
            bench.refuses(written(p).proc)

    @precisions
    def test_indices_are_numbers(self, bench: Bench, p: Precision) -> None:
        if bench.claims(p):
            bench.check(indices(p))
        else:
            bench.refuses(indices(p).proc)
