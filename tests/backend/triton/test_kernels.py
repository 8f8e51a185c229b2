"""What becomes one kernel, and what it computes, in blocks that fit and in others."""

import numpy as np
import pytest

import ocannl as oc
from ocannl import train


def whole(*shape, seed=0):
    """Small whole numbers: any order gives the same sum."""
    return np.random.default_rng(seed).integers(-3, 4, shape).astype(np.float32)


def kernels(routine):
    return routine.source().count("@triton.jit\ndef") - routine.source().count("\n    return ")


def computed(context, tensor):
    routine = context.compile(tensor.forward)
    routine()
    return routine, context[tensor]


def sums(x):
    return x.sum("...|... => ...|0")


def largest(x):
    return x.max("...|... => ...|0")


def total(x):
    return x.sum()


@pytest.mark.parametrize("sizes", [(8, 8, 8), (16, 16, 16), (33, 70, 100), (1, 9, 40), (130, 64, 65)], ids=str)
@pytest.mark.parametrize("spec", ["ik,kj->ij", "ki,kj->ij", "ik,jk->ij", "ik,kj->ji", "bik,bkj->bij"])
def test_a_product_of_matrices(context, spec, sizes):
    inputs, _, result = spec.partition("->")
    left, right = inputs.split(",")
    size = dict(zip("ijk", sizes, strict=True), b=3)
    a, b = (whole(*(size[axis] for axis in axes), seed=n) for n, axes in enumerate((left, right)))
    notation = f"{left}; {right} => {result}"
    routine, value = computed(context, oc.einsum(notation, oc.tensor(a), oc.tensor(b)))
    np.testing.assert_array_equal(value, np.einsum(spec, a, b))
    assert ("tl.dot" in routine.source()) is (min(sizes) >= 8)
    assert kernels(routine) == 1


@pytest.mark.parametrize("kind", ["float16", "bfloat16"])
def test_narrow_factors_are_multiplied_as_they_are(context, kind):
    a, b = whole(20, 30), whole(30, 40, seed=1)
    x, y = oc.tensor(a, dtype=kind), oc.tensor(b, dtype=kind)
    routine, value = computed(context, oc.einsum("ik; kj => ij", x, y))
    np.testing.assert_array_equal(np.asarray(value, np.float32), a @ b)
    assert "tl.dot(tl.load(" in routine.source()


@pytest.mark.parametrize("shape", [(1, 1), (3, 10), (40, 33), (7, 300), (2, 9000), (300, 2)], ids=str)
@pytest.mark.parametrize("function", [oc.softmax, oc.logsumexp, sums, largest, total], ids=lambda f: f.__name__)
def test_rows(context, function, shape):
    data = whole(*shape)
    _, value = computed(context, function(oc.tensor(data, batch_axes=1)))
    wanted = oc.Context("numpy")
    tensor = function(oc.tensor(data, batch_axes=1))
    wanted.run(tensor.forward)
    np.testing.assert_allclose(value, wanted[tensor], rtol=2e-6, atol=1e-7)


def test_what_is_done_with_rows_is_one_kernel(context):
    routine, value = computed(context, oc.softmax(oc.tensor(whole(40, 33), batch_axes=1)))
    assert kernels(routine) == 1
    np.testing.assert_allclose(value.sum(1), 1, rtol=1e-6)


def test_training(context):
    """Of a perceptron, beside the reference."""
    found = []
    for each in (context, oc.Context("numpy")):
        x, target = oc.tensor(whole(24, 20) / 4, batch_axes=1), oc.tensor(whole(24, 9, seed=1), batch_axes=1)
        w, b, v = oc.param("w", o=[30]), oc.param("b", 0.0, o=[30]), oc.param("v")
        loss = ((v @ oc.tanh(w @ x + b) - target) ** 2).sum() / 24
        each.init(loss)
        step = each.compile(oc.seq(train.grad_update(loss), train.adam(loss, 0.01)))
        for _ in range(3):
            step()
        found.append([each[loss], each[w], each[b], each[v]])
    for got, want in zip(*found, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)
