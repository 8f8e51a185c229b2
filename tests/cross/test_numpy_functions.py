"""Functions of NumPy build a tensor where an operation computes the same, and are answered otherwise."""

from __future__ import annotations

import numpy as np
import pytest

import ocannl as oc

FUNCTIONS = {kind.__name__: kind for kind in vars(np).values() if isinstance(kind, np.ufunc) and kind.signature is None}
INTEGER = {name for name in FUNCTIONS if name.startswith("bitwise") or name.endswith("shift")} - {"bitwise_count"}
ANSWERED = {
    "bitwise_count", "conjugate", "divmod", "float_power", "floor_divide", "fmax", "fmin", "frexp", "gcd", "invert",
    "isnat", "lcm", "ldexp", "logaddexp2", "modf", "nextafter", "spacing",
}  # fmt: skip
CELLS = [-np.inf, -3.0, -2.5, -1.0, -0.5, -0.0, 0.0, 0.3, 0.5, 1.0, 1.5, 2.5, 3.0, np.inf, np.nan]


def operands(name):
    cells = np.arange(-3, 6) if name in INTEGER else np.array(CELLS)
    others = np.array([1, 2, 3]) if name in INTEGER else np.array([1.0, -2.0, 3.0, 0.0, -0.0, np.nan, np.inf, 2.5])
    return [array.ravel() for array in np.meshgrid(cells, others)][: FUNCTIONS[name].nin]


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_function_computes_what_numpy_does(name):
    arrays = operands(name)
    if name in ANSWERED:
        with pytest.raises(oc.ArgumentError, match=f"np.{name} computes arrays"):
            FUNCTIONS[name](*map(oc.tensor, arrays))
        return
    with np.errstate(all="ignore"):
        expected = FUNCTIONS[name](*arrays)
    result = FUNCTIONS[name](*map(oc.tensor, arrays))
    assert isinstance(result, oc.Tensor)
    np.testing.assert_allclose(result.numpy(), expected, rtol=1e-12)


def test_gradient_passes_through_a_function_of_numpy():
    w = oc.param("w", [1.0, 2.0])
    loss, ctx = np.exp(np.multiply(w, 2)).sum(), oc.Context("numpy")
    ctx.init(loss)
    ctx.run(oc.train.grad_update(loss))
    np.testing.assert_allclose(ctx[w.grad], 2 * np.exp([2.0, 4.0]), rtol=1e-6)


def test_function_of_an_array_and_a_tensor_is_the_operator():
    a, x = np.array([3.0, 4.0]), oc.tensor([1.0, 2.0])
    np.testing.assert_array_equal(np.subtract(a, x).numpy(), a - [1.0, 2.0])
    np.testing.assert_array_equal(np.subtract(x, a).numpy(), [1.0, 2.0] - a)
    with pytest.raises(oc.CodeError, match=r"oc\.eq"):
        np.equal(a, x)
