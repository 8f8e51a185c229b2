"""Recorded code: spellings of assignments, merging of the right side, splices, headings, and errors."""

from __future__ import annotations

import asyncio
import functools
from contextvars import copy_context
from typing import Any

import numpy as np
import pytest

import ocannl as oc

X = np.array([3.0, -1.0])
N = np.array([2.0, 5.0])


@pytest.fixture
def x() -> oc.Tensor:
    return oc.tensor(X, label="x")


@pytest.fixture
def n() -> oc.Tensor:
    return oc.placeholder("n", batch=[], input=[], output=[2], dtype="float64")


# --- spellings -------------------------------------------------------------------------------------------------------

ACCUMULATE = {
    "=+": (N + X, X),
    "=-": (N - X, -X),
    "=*": (N * X, X),
    "=/": (N / X, 1 / X),
    "=**": (N**X, 1**X),
    "=?/": (X, X),  # a positive operand passes the value
    "=?^": ([0, 0], X),
    "=||": ([1, 1], [1, 1]),
    "=&&": ([1, 1], [1, 1]),
    "=@^": (np.maximum(N, X), X),
    "=@-": (np.minimum(N, X), X),
}


@pytest.mark.parametrize("spelling", ACCUMULATE)
def test_every_accumulation_with_and_without_clearing(spelling: str, x: Any, n: Any, oracle: Any) -> None:
    kept, cleared = ACCUMULATE[spelling]
    with oc.cd("kept") as code:
        n[spelling] = x
    np.testing.assert_allclose(oracle.after(code, n, feeds={n: N})[0], kept)
    with oc.cd("cleared") as code:
        n[spelling.replace("=", "=:")] = x
    np.testing.assert_allclose(oracle.after(code, n, feeds={n: N})[0], cleared)


@pytest.mark.parametrize(
    ("statement", "spelling"),
    [
        ("n += x", "=+"),
        ("n -= x", "=-"),
        ("n *= x", "=*"),
        ("n /= x", "=/"),
        ("n **= x", "=**"),
        ("n |= x", "=||"),
        ("n &= x", "=&&"),
    ],
)
def test_augmented_assignments_are_accumulations(statement: str, spelling: str, x: Any, n: Any, listing: Any) -> None:
    with oc.cd() as written:
        exec(statement, {"n": n, "x": x})
    with oc.cd() as spelled:
        n[spelling] = x
    assert listing(written) == listing(spelled)


def test_plain_stores(x: Any, n: Any, oracle: Any) -> None:
    with oc.cd() as code:
        n["=:"] = x * 2
    assert oracle.after(code, n, feeds={n: N})[0].tolist() == [6, -2]
    with oc.cd() as code:
        n[...] = 7
    assert oracle.after(code, n, feeds={n: N})[0].tolist() == [7, 7]


def test_the_natural_store_follows_the_root(x: Any, n: Any, listing: Any) -> None:
    w = oc.placeholder("w", batch=[], input=[2], output=[2], dtype="float64")
    m = oc.placeholder("m", batch=[], input=[], output=[], dtype="float64")
    with oc.cd() as code:
        n[...] = x * 2
        n[...] = w @ x
        n[...] = oc.einsum("i->o => o", w)
        n[...] = w.max("i->o => o")
        m[...] = x.sum()
        n[...] = n
        n[...] = 3.0
    assert listing(code) == [
        "n[o0] =: x[o0] * 2    over o0<2",
        "n[o0] =:+ w[o0, k0] * x[k0]    over o0<2 k0<2",
        "n[o] =:+ w[o, i]    over o<2 i<2",
        "n[o] =:@^ w[o, i]    over o<2 i<2",
        "m =:+ x[o0]    over o0<2",
        "n[o0] =: n[o0]    over o0<2",
        "n[o0] =: 3    over o0<2",
    ]


def test_explicit_loops(oracle: Any, listing: Any) -> None:
    a, b = np.arange(6.0).reshape(2, 3), np.arange(12.0).reshape(3, 4)
    left, right = oc.tensor(a, label="a"), oc.tensor(b, label="b")
    c = oc.placeholder("c", dtype="float64")
    with oc.cd() as code:
        c["=:+", "ij;jk=>ik"] = left * right
    assert c.dims == (2, 4)
    np.testing.assert_array_equal(oracle.after(code, c)[0], a @ b)
    assert listing(code) == ["c[i, k] =:+ a[i, j] * b[j, k]    over i<2 k<4 j<3"]


def test_explicit_loops_by_keyword(x: Any, n: Any, listing: Any) -> None:
    w = oc.placeholder("w", batch=[], input=[2], output=[2], dtype="float64")
    v = oc.placeholder("v", batch=[], input=[2], output=[], dtype="float64")
    with oc.cd() as code:
        n["=:+", "@"] = w * x
        n["=+", "."] = x * x
        v["=:", "T"] = x
        n["=:+", "@"] = oc.fma(w, x, x)
    assert listing(code) == [
        "n[o0] =:+ w[o0, k0] * x[k0]    over o0<2 k0<2",
        "n[o0] =+ x[o0] * x[o0]    over o0<2",
        "v[o0] =: x[o0]    over o0<2",
        "n[o0] =:+ fma(w[o0, k0], x[k0], x[o0])    over o0<2 k0<2",
    ]


def test_explicit_loops_never_relate_the_operands_pointwise() -> None:
    a, b, c = (oc.placeholder(name) for name in "abc")
    with oc.cd() as code:
        c["=:+", "ij;jk=>ik"] = a * b
    oc.einsum("ij => ", a, i=2, j=3)
    oc.einsum("ij => ", b, j=4)
    code.elaborate()
    assert (a.dims, b.dims, c.dims) == ((2, 3), (3, 4), (2, 4))


def test_the_plain_spelling_writes_the_same(x: Any, n: Any, listing: Any) -> None:
    with oc.cd() as sugar:
        n["=:+", "."] = x * n
        n["=-"] = oc.relu(x)
        n[...] = oc.where(x, n, 2.0)
    with oc.cd() as plain:
        oc.assign(n, "mul", x, n, accum="add", clear=True)
        oc.assign(n, "relu", x, accum="sub")
        oc.assign(n, "where", x, n, 2.0)
    assert listing(sugar) == listing(plain)


# --- merging of the right side ---------------------------------------------------------------------------------------


def test_only_the_root_merges_into_the_assignment(x: Any, n: Any, listing: Any) -> None:
    with oc.cd() as code:
        n += oc.relu(x) * n + 3
    assert listing(code) == [
        "relu[o0] =: relu(x[o0])    over o0<2",
        "mul[o0] =: relu[o0] * n[o0]    over o0<2",
        "n[o0] =+ mul[o0] + 3    over o0<2",
    ]


def test_a_named_expression_is_computed_in_recorded_order(x: Any, n: Any, oracle: Any) -> None:
    with oc.cd() as code:
        before = n * 2
        n += 100
        after = n * 2
        n[...] = before + after
    assert oracle.after(code, n, feeds={n: N})[0].tolist() == (2 * N + 2 * (N + 100)).tolist()


def test_a_named_root_is_computed_in_recorded_order(n: Any, oracle: Any) -> None:
    with oc.cd() as code:
        e = n * 2
        n += 100
        n[...] = e
    assert oracle.after(code, n, feeds={n: N})[0].tolist() == (2 * N).tolist()


def test_an_expression_used_twice_is_computed_once(n: Any, oracle: Any) -> None:
    with oc.cd() as code:
        e = n * 2
        n += e
        n += e
    assert oracle.after(code, n, feeds={n: N})[0].tolist() == (5 * N).tolist()


def test_dead_expressions_are_eliminated(x: Any, n: Any, listing: Any) -> None:
    with oc.cd() as code:
        x * 3
        used = x * 5
        dead = used * 7
        dead * 9
        n += used * used
    assert listing(code) == ["used[o0] =: x[o0] * 5    over o0<2", "n[o0] =+ used[o0] * used[o0]    over o0<2"]


def test_the_right_side_reads_values_before_the_assignment(n: Any, oracle: Any) -> None:
    a = np.arange(9.0).reshape(3, 3)
    m = oc.placeholder("m", batch=[], input=[], output=[3, 3], dtype="float64")
    with oc.cd() as code:
        m["=:", "ij=>ji"] = m
    assert np.array_equal(oracle.after(code, m, feeds={m: a})[0], a.T)
    with oc.cd() as code:
        m["=:+", "ik;kj=>ij"] = m * m
    assert np.array_equal(oracle.after(code, m, feeds={m: a})[0], a @ a)


def test_tensors_from_outside_are_only_read(x: Any, n: Any, listing: Any) -> None:
    outside = x * 2
    with oc.cd() as code:
        n += outside
    assert listing(code) == ["n[o0] =+ outside[o0]    over o0<2"]


def test_inside_nothing_has_a_gradient() -> None:
    p = oc.param("p", [1.0, 2.0])
    n = oc.node("n")
    with oc.cd():
        e = p * 2
        n[...] = e
    assert e.grad is None


# --- nodes, gradients, slices ----------------------------------------------------------------------------------------


def test_a_gradient_takes_part_and_is_updated(oracle: Any) -> None:
    p = oc.param("p", [1.0, 2.0])
    with oc.cd() as code:
        p.grad += p * 3
        p.grad[...] = p.grad * 2
        p -= 0.5 * p.grad
    results = oracle.after(code, p, p.grad, feeds={p: [1.0, 2.0], p.grad: [10.0, 20.0]})
    assert results[1].tolist() == [26, 52]
    assert results[0].tolist() == [1 - 13, 2 - 26]


def test_a_slice_update_writes_to_the_parent(oracle: Any) -> None:
    table = oc.placeholder("table", batch=[3, 2], input=[], output=[2], dtype="float64")
    initial = np.arange(12.0).reshape(3, 2, 2)
    k = oc.symbol("k", 0, 3)
    with oc.cd() as code:
        table[k] += 100
        table[0][1] *= 2
        table[2][...] = 7
    (result,) = oracle.after(code, table, feeds={table: initial}, k=1)
    expected = initial.copy()
    expected[1] += 100
    expected[0, 1] *= 2
    expected[2] = 7
    np.testing.assert_array_equal(result, expected)


def test_a_slice_of_a_slice_is_read_and_written_together(oracle: Any) -> None:
    table = oc.placeholder("table", batch=[3], input=[], output=[2], dtype="float64")
    with oc.cd() as code:
        table[0][...] = table[1] + table[2]
    (result,) = oracle.after(code, table, feeds={table: np.arange(6.0).reshape(3, 2)})
    assert result.tolist() == [[6, 8], [2, 3], [4, 5]]


def test_a_state_node_is_named_after_a_stored_parameter() -> None:
    w = oc.param("w", [1.0])

    @oc.cd
    def step(p):
        delta = oc.node("delta")
        delta[...] = p.grad * 2
        p -= delta

    first, second = step(w), step(w)
    from ocannl.ir.assign import nodes

    names = {node.label for code in (first, second) for node in nodes(code.elaborate().comp)}
    assert names == {"w", "w.grad", "delta"} or names == {"w", "w.grad", "delta.w"}


def test_the_shape_of_a_node_follows_from_stores() -> None:
    w = oc.param("w", np.ones((2, 3)), i=[3], o=[2])
    m = oc.node("m")
    with oc.cd() as code:
        m[...] = w * 2
    code.elaborate()
    assert str(m.shape) == "3->2"


# --- splices and headings --------------------------------------------------------------------------------------------


def test_a_call_splices_code_and_a_reference_does_not(x: Any, n: Any, listing: Any) -> None:
    y = (x * 2).with_label("y")

    @oc.cd
    def add(t):
        n_ = n
        n_ += t

    with oc.cd() as code:
        y.forward  # noqa: B018
        y.forward()
        add(y)  # recorded, not spliced
        add(y)()
    assert listing(code) == ["y[o0] =: x[o0] * 2    over o0<2", "# add", "  n[o0] =+ y[o0]    over o0<2"]
    assert list(code.keep_reasons) == [y.value]


def test_splices_nest(x: Any, n: Any, oracle: Any) -> None:
    @oc.cd
    def double():
        oc.assign(n, "mul", n, 2.0)

    @oc.cd
    def quadruple():
        double()()
        double()()

    with oc.cd("all") as code:
        for _ in range(2):
            quadruple()()
    assert oracle.after(code, n, feeds={n: N})[0].tolist() == (16 * N).tolist()


def test_headings_name_code(x: Any, n: Any, listing: Any) -> None:
    with oc.cd("the title") as code:
        n += x
        with oc.comment("update of", n, 3):
            n += x
            with oc.comment("inner"):
                n += x
    assert listing(code) == [
        "# the title",
        "  n[o0] =+ x[o0]    over o0<2",
        "  # update of n 3",
        "    n[o0] =+ x[o0]    over o0<2",
        "    # inner",
        "      n[o0] =+ x[o0]    over o0<2",
    ]
    assert code.elaborate().name == "the title"


def test_an_expression_under_a_heading_may_be_used_later(x: Any, n: Any, oracle: Any) -> None:
    with oc.cd() as code:
        with oc.comment("first"):
            e = x * 2
        n[...] = e + 1
    assert oracle.after(code, n, feeds={n: N})[0].tolist() == (2 * X + 1).tolist()


def test_a_function_records_anew_at_every_call_with_python_in_between(x: Any, n: Any, oracle: Any) -> None:
    @oc.cd
    def repeated(times, *, twice=False):
        for k in range(times):
            oc.assign(n, "add", n, float(k + 1))
        if twice:
            oc.assign(n, "mul", n, 2.0)

    assert oracle.after(repeated(3), n, feeds={n: N})[0].tolist() == (N + 6).tolist()
    assert oracle.after(repeated(2, twice=True), n, feeds={n: N})[0].tolist() == (2 * (N + 3)).tolist()
    assert repeated.__name__ == "repeated"


def test_a_nested_recorder_is_independent(x: Any, n: Any, listing: Any) -> None:
    with oc.cd("outer") as outer:
        n += x
        with oc.cd("inner") as inner:
            n -= x
        n *= x
    assert listing(outer) == ["# outer", "  n[o0] =+ x[o0]    over o0<2", "  n[o0] =* x[o0]    over o0<2"]
    assert listing(inner) == ["# inner", "  n[o0] =- x[o0]    over o0<2"]


def test_after_an_exception_the_recorder_is_gone(n: Any) -> None:
    with pytest.raises(RuntimeError), oc.cd():
        n += 1
        raise RuntimeError

    @oc.cd
    def broken():
        raise RuntimeError

    with pytest.raises(RuntimeError):
        broken()
    with pytest.raises(oc.CodeError, match="assignments are recorded"):
        n += 1
    assert oc.param("w", 1.0).grad is not None


# --- refusals --------------------------------------------------------------------------------------------------------

RECORDED = (
    "assigns, and assignments are recorded: put it into a function decorated with @oc.cd, or into "
    '`with oc.cd("title"):`, and run the code with ctx.run'
)


@pytest.mark.parametrize(
    ("statement", "shown"),
    [
        ("p += 1", "p += ..."),
        ("p -= 1", "p -= ..."),
        ("p *= 1", "p *= ..."),
        ("p /= 1", "p /= ..."),
        ("p **= 1", "p **= ..."),
        ("p |= 1", "p |= ..."),
        ("p &= 1", "p &= ..."),
        ("p[...] = 1", "p[...] = ..."),
        ("p['=:+'] = 1", "p[...] = ..."),
        ("p.grad += 1", "p.grad += ..."),
        ("p.grad[...] = 1", "p.grad[...] = ..."),
        ("p[0] += 1", "slice += ..."),
    ],
)
def test_assignments_outside_a_recorder_are_refused(statement: str, shown: str) -> None:
    p = oc.param("p", b=[2])
    with pytest.raises(oc.CodeError) as caught:
        exec(statement, {"p": p})
    assert str(caught.value) == f"`{shown}` {RECORDED}"


def test_a_result_that_is_added_to_names_the_expression(x: Any) -> None:
    total = x * 2
    with pytest.raises(oc.CodeError, match="for a new tensor write `total = total [+] ...`, else put it into"):
        total += x


@pytest.mark.parametrize("operator", ["@=", "%=", "^=", "//=", "<<=", ">>="])
def test_augmented_operators_without_a_meaning_are_refused(operator: str, x: Any, n: Any) -> None:
    for scope in ({"n": n, "x": x}, {"n": n.T, "x": 2}):
        with pytest.raises(oc.CodeError):
            exec(f"n {operator} x", scope)
        with pytest.raises(oc.CodeError), oc.cd():
            exec(f"n {operator} x", scope)


ASSIGNMENTS = (
    "is not an assignment; the assignments are =: (store) and =+ =- =* =/ =** =?/ =?^ =|| =&& =@^ =@-, "
    "and each of these after =:"
)
ACCUMULATING = "add, sub, mul, div, pow, max, min, and, or, relu_gate, sat01_gate"
UNARY = (
    "id, neg, abs, relu, sat01, not, trunc, exp, exp2, log, log2, sin, cos, atan, tanh, erf, erfc, lgamma, sqrt, "
    "recip, recip_sqrt"
)


@pytest.mark.parametrize("spelling", ["+", "=", "=::", "=:x", "==", "", "=+:", "add"])
def test_the_error_for_an_unknown_spelling_lists_all_spellings(spelling: str, x: Any, n: Any) -> None:
    with pytest.raises(oc.CodeError) as caught, oc.cd():
        n[spelling] = x
    assert str(caught.value) == f"{spelling!r} {ASSIGNMENTS}"


def write(target: Any, key: Any, value: Any) -> None:
    target[key] = value


UNARY_SPEC_ERROR = """the spec has 1 operand, and 2 are given
  i=>i
   ^
  fix  give 1 less, or write a part for each, separated by `;`: `...; ... => ...`"""


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda x, n: write(n, 3, x),
            "`n[n]` is updated in place, by `+=`; to replace it: `n[n][...] = e`",
        ),
        (
            lambda x, n: write(x, ..., n),
            "`x` is constant data and cannot be assigned; use a placeholder or oc.node",
        ),
        (
            lambda x, n: write(oc.tensor(3), ..., 1.0),
            "`3` is a number and cannot be assigned",
        ),
        (lambda x, n: x.grad, "`x` has no gradient: it depends on no parameter, or was built inside oc.no_grad()"),
        (
            lambda x, n: write(n, ("=:+", 3), x),
            "the axes of an operation are a text such as 'pointwise' or 'ij;jk => ik', not 3",
        ),
        (lambda x, n: write(n, ("=:+", "T"), x * x), "`T` does not fit an operation of 2 operands"),
        (lambda x, n: oc.assign(3, "add", x, x), "oc.assign writes to a tensor or a node, not to 3"),
        (lambda x, n: oc.assign(n, "mul", x, x, logic="T"), "`T` does not fit an operation of 2 operands"),
        (
            lambda x, n: oc.assign(n, "mul", x, x, logic="i=>i"),
            UNARY_SPEC_ERROR,
        ),
        (
            lambda x, n: oc.assign(n, "add", x, x, accum="lt"),
            f"accum='lt' does not accumulate; the accumulations are {ACCUMULATING}",
        ),
        (
            lambda x, n: oc.assign(n, "add", x),
            f"'add' is not a primitive of 1 operands; these are {UNARY}",
        ),
    ],
)
def test_errors_of_assignments(call: Any, message: str, x: Any, n: Any) -> None:
    with pytest.raises(oc.CodeError) as caught, oc.cd():
        call(x, n)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda n: oc.cd(3), "oc.cd decorates a function or takes a title, not 3"),
        (
            lambda n: oc.assign(n, "add", n, n),
            "oc.assign records an assignment: use it inside a function decorated with @oc.cd",
        ),
        (lambda n: oc.comment("a").__enter__(), "oc.comment labels code inside `oc.cd`"),
    ],
)
def test_errors_of_recorders(call: Any, message: str, n: Any) -> None:
    with pytest.raises(oc.CodeError) as caught:
        call(n)
    assert str(caught.value) == message


def test_generators_and_coroutines_are_refused() -> None:
    def generates():
        yield

    async def waits():
        pass

    async def both():
        yield

    for function in (generates, waits, both):
        with pytest.raises(oc.CodeError) as caught:
            oc.cd(function)
        assert str(caught.value) == (
            f"`{function.__name__}` is a generator or a coroutine; a recorder must end where it began"
        )


def test_a_recorder_is_used_once(n: Any) -> None:
    recorder = oc.cd()
    with recorder:
        n += 1
    with pytest.raises(oc.CodeError, match="a recorder is used once"), recorder:
        pass


def test_a_recorder_must_end_in_the_function_where_recording_began(n: Any) -> None:
    def misuse() -> None:
        recorder = oc.cd()
        (lambda: recorder.__enter__())()
        with pytest.raises(oc.CodeError, match="a recorder must end in the function that began it"):
            recorder.__exit__(None, None, None)
        with pytest.raises(oc.CodeError, match="assignments are recorded"):
            oc.node("n").__iadd__(1)
        assert oc.param("w", 1.0).grad is not None

    copy_context().run(misuse)


def test_code_is_complete_when_the_recorder_has_ended(n: Any) -> None:
    with oc.cd() as code:
        n += 1
        with pytest.raises(oc.CodeError, match="code cannot contain itself"):
            code()
        with pytest.raises(oc.CodeError, match="still being recorded"):
            code.elaborate()
    code.elaborate()


def test_slices_and_gradients_cannot_be_replaced(x: Any) -> None:
    p = oc.param("p", b=[2], o=[2], i=[])
    with oc.cd():
        p.grad += 1
        with pytest.raises(oc.CodeError, match="can be updated in place, not replaced"):
            p.grad = x
        with pytest.raises(oc.CodeError, match="is updated in place, by `\\+=`"):
            p[0] = x


def test_a_disagreement_of_shapes_names_the_statement(x: Any) -> None:
    m = oc.placeholder("m", batch=[], input=[], output=[3])
    with pytest.raises(oc.ShapeError) as caught, oc.cd():
        m += x
    text = str(caught.value)
    assert "`m`" in text or "\n  m " in text
    assert "test_recorder.py:" in text
    assert "3" in text.splitlines()[0]
    assert "2" in text.splitlines()[0]


def test_after_a_refusal_the_recorder_goes_on(x: Any, n: Any, oracle: Any) -> None:
    with oc.cd() as code:
        n += 1
        with pytest.raises(oc.CodeError):
            n["?"] = x
        with pytest.raises(oc.ShapeError):
            n += oc.tensor([1.0, 2.0, 3.0])
        n += 1
    assert oracle.after(code, n, feeds={n: N})[0].tolist() == (N + 2).tolist()


# --- kinds of functions and recorders --------------------------------------------------------------------------------


def grow(t: oc.Tensor, *, by: float = 2.0) -> None:
    t *= by


class Grow:
    def __call__(self, t: oc.Tensor) -> None:
        t *= 2.0

    @oc.cd
    def method(self, t: oc.Tensor) -> None:
        t *= 2.0


@pytest.mark.parametrize(
    ("function", "title"),
    [
        (oc.cd(functools.partial(grow, by=2.0)), "grow"),
        (oc.cd(Grow()), "Grow"),
        (Grow().method, "method"),
        (oc.cd()(grow), "grow"),
        (oc.cd("bigger")(grow), "bigger"),
        (oc.cd(lambda t: t.__imul__(2.0)), "code"),
    ],
)
def test_any_callable_can_be_recorded(function: Any, title: str, n: Any, listing: Any) -> None:
    assert listing(function(n)) == [f"# {title}", "  n[o0] =* 2    over o0<2"]


def test_a_hint_explains_unbound_local_variables(n: Any) -> None:
    @oc.cd
    def outer_name():
        n += 1  # noqa: F823, F841

    def manager():
        with oc.cd():
            n += 1  # noqa: F823, F841

    for function in (outer_name, manager):
        with pytest.raises(UnboundLocalError) as caught:
            function()
        assert "oc.assign" in "".join(caught.value.__notes__)


def test_a_suspended_generator_does_not_leak_a_recorder(n: Any) -> None:
    def generates():
        with oc.cd():
            yield

    left = generates()
    next(left)
    with pytest.raises(oc.CodeError, match="`generates` was suspended inside its `with oc.cd"):
        n["=+"] = 1
    with pytest.raises(oc.CodeError, match="assignments are recorded"):
        n["=+"] = 1
    with pytest.raises(oc.CodeError, match="a recorder must end in the function that began it"):
        next(left)


def test_concurrent_tasks_record_independently(n: Any, listing: Any) -> None:
    async def task(k: float) -> list[str]:
        with oc.cd() as code:
            n["=+"] = k
            await asyncio.sleep(0)
            n["=*"] = k
        return listing(code)

    async def both() -> list[list[str]]:
        return await asyncio.gather(task(1), task(2))

    assert asyncio.run(both()) == [[f"n[o0] =+ {k}    over o0<2", f"n[o0] =* {k}    over o0<2"] for k in (1, 2)]


def test_no_grad_is_reusable_and_decorates_functions() -> None:
    without = oc.no_grad()
    for _ in range(2):
        with without, without:
            assert oc.param("w", 1.0).grad is None
    assert oc.param("w", 1.0).grad is not None
    doubled = oc.no_grad()(lambda t: t * 2)
    assert doubled(oc.param("w", 1.0)).grad is None


def test_assignment_with_projections_of_a_tensor(oracle: Any) -> None:
    a, b = np.arange(6.0).reshape(2, 3), np.arange(12.0).reshape(3, 4)
    left, right = oc.tensor(a), oc.tensor(b)
    product = oc.einsum("ij; jk => ik", left, right)
    c = oc.placeholder("c", batch=[], input=[], output=[2, 4], dtype="float64")
    with oc.cd() as code:
        oc.assign(c, "mul", left, right, accum="add", clear=True, projections=product.projections)
    np.testing.assert_array_equal(oracle.after(code, c)[0], a @ b)


@pytest.mark.parametrize(
    ("error", "message", "call"),
    [
        (oc.CodeError, "no `logic=` beside it", lambda n, p: oc.assign(n, "relu", n, projections=p, logic=".")),
        (oc.CodeError, "takes t.projections", lambda n, p: oc.assign(n, "relu", n, projections="ij=>i")),
        (oc.CodeError, "have 1 operands", lambda n, p: oc.assign(n, "add", n, n, projections=p)),
        (oc.ShapeError, r"`n` has the sizes \(2,\), .* have \(3,\)", lambda n, p: oc.assign(n, "id", n, projections=p)),
    ],
)
def test_mismatched_projections_are_errors(error: Any, message: str, call: Any, n: Any) -> None:
    longer = oc.relu(oc.tensor([1.0, 2.0, 3.0]))
    with pytest.raises(error, match=message):
        with oc.cd() as code:
            call(n, longer.projections)
        code.elaborate()
