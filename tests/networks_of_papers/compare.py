"""Compares a network with its PyTorch twin: the loss, all gradients, and three calls of a compiled training step.

The twin computes in float64. Each step is compared from the weights that it starts with, so that rounding errors do not
grow from step to step; the twin has momentum of its own. The root mean square of an array's error may be `TOLERANCE` of
that of the array, or four times the measured sensitivity of the twin where that is more, and never more than
`MAX_TOLERANCE`. A single element may be off by `PEAK` times that of the largest element, since one unit that is on here
and off there changes a few elements of a gradient much more than others. Arrays below the noise floor, such as
gradients of biases that a normalization removes, may be off by four times what the twin in float32 is.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

import ocannl as oc
from ocannl import train

from .network import NETWORKS, Arrays, Built, Network, build
from .twin import TOLERANCE, Reference, differentiate, errors, largest, negligible, reference_of, root_mean_square

STEPS = 3
MOMENTUM = 0.9
ROUNDING = 2.0**-23  # of weights in float32
PEAK = 10


def compile_step(network: Network, built: Built) -> oc.Routine:
    update = train.sgd(built.loss, network.learning_rate, momentum=MOMENTUM)
    return built.ctx.compile(oc.seq(train.grad_update(built.loss), update))


def check_gradients(name: str, backend: str, threads: int) -> None:
    """The loss and all gradients, from a routine that computes nothing else."""
    reference = reference_of(name)
    with oc.Context(backend, threads=threads) as ctx:
        built = build(NETWORKS[name], ctx)
        ctx.run(train.grad_update(built.loss))
        np.testing.assert_allclose(ctx[built.loss], reference.gradients.loss, rtol=TOLERANCE)
        gradients = {path: ctx[p.grad] for path, p in built.trained().items()}
    assert_close(gradients, reference.gradients.arrays, reference, {})


def check_steps(name: str, backend: str, threads: int) -> None:
    """The losses of training steps compiled into one routine, and the changes that they make."""
    network, reference = NETWORKS[name], reference_of(name)
    with oc.Context(backend, threads=threads) as ctx:
        built = build(network, ctx)
        step = compile_step(network, built)
        velocity: Arrays = dict.fromkeys(built.trained(), np.zeros((), "float32"))
        for _ in range(STEPS):
            weights = built.weights()
            step()
            loss, gradients = differentiate(network, weights)
            np.testing.assert_allclose(ctx[built.loss], loss, rtol=TOLERANCE)
            velocity = {path: MOMENTUM * velocity[path] + gradient for path, gradient in gradients.items()}
            changes = {path: ctx[p] - weights[path] for path, p in built.trained().items()}
            wanted = {path: -network.learning_rate * v for path, v in velocity.items()}
            rounding = {path: ROUNDING * largest(weights[path]) / (largest(v) or 1.0) for path, v in wanted.items()}
            assert_close(changes, wanted, reference, rounding)


def assert_close(arrays: Arrays, exact: Arrays, reference: Reference, rounding: Mapping[str, float]) -> None:
    """`rounding` is how much each array may be off besides."""
    assert arrays.keys() == exact.keys()
    for path, array in arrays.items():
        assert array.shape == exact[path].shape, path
        infinite = np.count_nonzero(~np.isfinite(array))
        assert not infinite, f"{path}: {infinite} of {array.size} elements are not finite"
    tiny = negligible(exact)
    allowed = {path: reference.noise if path in tiny else reference.tolerance for path in exact}
    for size, factor in (root_mean_square, 1), (largest, PEAK):
        limits = {path: factor * limit + PEAK * rounding.get(path, 0.0) for path, limit in allowed.items()}
        error = errors(arrays, exact, size)
        wrong = [f"{path}: {e:.1e} > {limits[path]:.1e}" for path, e in error.items() if e > limits[path]]
        assert not wrong, f"{len(wrong)} of {len(error)} have too large an error ({size.__name__}): {wrong}"
