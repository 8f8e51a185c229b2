"""Host calls in rules: what functions receive, where results go, and mistakes."""

import numpy as np
import pytest

import ocannl as oc
from ocannl import train
from ocannl.ir.host_call import DeferredArray
from ocannl.testing.evaluate import evaluate

RNG = np.random.default_rng(0)


def inverse():
    @oc.defop(shape="...|i,j => ...|j,i")
    def inverse(x):
        def forward(v, v1):
            v["=:"] = oc.host_call(np.linalg.inv, v1)

        def gradient(g, v, g1):
            g1 += oc.host_call(lambda g, v: -np.swapaxes(v, -1, -2) @ g @ np.swapaxes(v, -1, -2), g, v, name="back")

        return forward, gradient

    return inverse


def matrices(*dims):
    return RNG.normal(size=dims) + 3 * np.eye(dims[-1])


@pytest.mark.parametrize("queue", ["inline", "threaded"])
def test_values_and_gradients_between_native_code(ctx, queue):
    a, c = matrices(3, 3), matrices(2, 3, 3)
    with oc.Context(ctx.backend.name, queue=queue) as context:
        w, x = oc.param("w", a), oc.tensor(c, batch_axes=1, label="x")
        loss = (inverse()(2.0 * w) ** 2).sum() + inverse()(x + w).sum()
        context.init(loss)
        step = context.compile(train.grad_update(loss), name="step")
        for _ in range(2):
            step()
        expected = (np.linalg.inv(2 * a) ** 2).sum() + np.linalg.inv(c + a).sum()
        np.testing.assert_allclose(context[loss], expected, rtol=1e-12)
    oc.testing.gradcheck(lambda t: inverse()(2.0 * t) ** 2, a)


def test_the_evaluator_of_assignments_agrees(ctx):
    w = oc.param("w", matrices(3, 3))
    loss = (inverse()(2.0 * w) ** 2).sum()
    code = train.grad_update(loss)
    ctx.init(loss)
    ctx.run(code)
    comp = code.elaborate().comp
    values = evaluate(comp, {w.node: ctx[w]})
    np.testing.assert_allclose(values[w.grad.node], ctx[w.grad], rtol=1e-12)
    assert "=: host inv(mul)" in str(code)


@pytest.mark.parametrize("kind", ["float32", "float64"])
def test_results_that_are_written_to_memory_of_the_caller(ctx, kind):
    arrays = []

    def fill(array):
        arrays.append(array)
        array[...] = np.arange(6).reshape(2, 3)

    @oc.defop(shape="...|i,j => ...|i,j")
    def counted(x):
        def forward(v, v1):
            v["=:"] = oc.host_call(lambda x: DeferredArray(x.shape, np.dtype(kind), fill), v1)

        return forward, None

    x = oc.tensor(np.ones((2, 3), "float32"))
    y = counted(x) + 1.0
    np.testing.assert_array_equal(y.numpy(ctx), np.arange(1, 7).reshape(2, 3))
    assert [array.dtype.name for array in arrays] == [kind]
    values = evaluate(y.forward.elaborate().comp, {x.node: np.ones((2, 3), "float32")})
    np.testing.assert_array_equal(values[y.node], np.arange(1, 7).reshape(2, 3))


def test_several_results_of_one_call(ctx):
    calls = []

    @oc.defop(shape="...|i,j; ...|i,j => ...|i,j")
    def product(x, y):
        def forward(v, v1, v2):
            v["=:"] = oc.host_call(np.multiply, v1, v2)

        def gradient(g, v1, v2, g1, g2):
            def both(g, x, y):
                calls.append(g.shape)
                return g * y, g * x

            left, right = oc.host_call(both, g, v1, v2, outputs=2)
            g1 += left
            g2 -= right
            g2 += right
            g2 += right

        return forward, gradient

    a, b = RNG.normal(size=(2, 2, 3))
    x, y = oc.param("x", a), oc.param("y", b)
    loss = product(x, y).sum()
    ctx.init(loss)
    ctx.run(train.grad_update(loss))
    np.testing.assert_array_equal(ctx[x.grad], b)
    np.testing.assert_allclose(ctx[y.grad], a)
    assert calls == [(2, 3)]


def test_results_without_consumers_are_discarded(ctx):
    a = RNG.normal(size=(2, 2))
    x = oc.tensor(a, label="x")

    @oc.defop(shape="...|i,j => ...|i,j")
    def first(x):
        def forward(v, v1):
            v["=:"], _ = oc.host_call(lambda x: (2 * x, None), v1, outputs=2)

        return forward, None

    np.testing.assert_array_equal(first(x).numpy(ctx), 2 * a)


def test_formulas_and_numbers_are_arguments(ctx):
    seen = []

    @oc.defop
    def scaled(x):
        def forward(v, v1):
            def function(x, factor):
                seen.append((x.copy(), factor.shape))
                return factor * x

            v["=:"] = oc.host_call(function, v1 * v1 + 1, 3.0)

        return forward, None

    x = oc.tensor([1.0, 2.0], label="x")
    np.testing.assert_array_equal(scaled(x).numpy(ctx), [6.0, 15.0])
    assert seen[0][0].tolist() == [2.0, 5.0] and seen[0][1] == ()


def test_arguments_are_read_only(ctx):
    @oc.defop
    def spoiled(x):
        def forward(v, v1):
            def function(x):
                x += 1
                return x

            v["=:"] = oc.host_call(function, v1)

        return forward, None

    if ctx.queue.immediate:
        with pytest.raises(oc.HostCallError, match="host call `function` .* read-only"):
            spoiled(oc.tensor([1.0])).numpy(ctx)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda x: 1 / 0, "ZeroDivisionError"),
        (lambda x: x[:1], r"sizes \(2,\) for `v`, not one of the sizes \(1,\)"),
        (lambda x: 1j * x, "cannot hold complex"),
        (lambda x: None, "not None"),
    ],
)
def test_failures_name_the_call_and_its_place(ctx, function, message):
    @oc.defop
    def failing(x):
        def forward(v, v1):
            v["=:"] = oc.host_call(function, v1, name="broken")

        return forward, None

    x = oc.tensor([1.0, 2.0], label="x")
    v = failing(x)
    with pytest.raises(oc.HostCallError, match=message) as caught:
        v.numpy(ctx)
    assert "host call `broken` of routine `v_forward`" in str(caught.value)
    assert "test_host_calls.py:" in str(caught.value)


def test_interrupts_pass_through(ctx):
    def interrupted(x):
        raise KeyboardInterrupt

    @oc.defop
    def stopped(x):
        def forward(v, v1):
            v["=:"] = oc.host_call(interrupted, v1)

        return forward, None

    v = stopped(oc.tensor([1.0]))
    routine = ctx.compile(v.forward)
    with pytest.raises(KeyboardInterrupt):
        routine()
    assert v not in ctx  # its value is uninitialized


def test_formulas_of_several_slots_are_refused():
    @oc.defop
    def sums(x, y):
        def forward(v, v1, v2):
            v["=:"] = oc.host_call(np.sin, v1 + v2)

        return forward, None

    with pytest.raises(oc.CodeError, match="argument 1 of the host call `sin` must be a slot, a number or a formula"):
        sums(oc.tensor([1.0]), oc.tensor([2.0])).numpy()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: oc.host_call(3), "is a function of NumPy arrays, not 3"),
        (lambda: oc.host_call(np.sin, "x"), "argument 1 of the host call `sin` must be a slot or a number, not 'x'"),
        (lambda: oc.host_call(np.sin, outputs=0), "the number of `outputs` must be a positive integer, not 0"),
        (lambda: oc.host_call(np.sin, outputs=True), "must be a positive integer, not True"),
    ],
)
def test_wrong_arguments(call, message):
    with pytest.raises(oc.CodeError, match=message):
        call()
