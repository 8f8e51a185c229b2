"""Programs with products of bfloat16 tiles, and the errors of their results.

Sums of the programs in `EXACT` are integers below 2**24. The error of other results is in units of its bound.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from unittest import mock

import ml_dtypes
import numpy as np

import ocannl as oc
from ocannl import train
from ocannl.opt import machine_model as machine

FORMS = {"nn": "m,k; k,n => m,n", "nt": "m,k; n,k => m,n", "tn": "k,m; k,n => m,n", "tt": "k,m; n,k => m,n"}
SIZES = [(32, 32, 32), (64, 96, 64), (33, 64, 50), (70, 100, 45), (17, 63, 31), (40, 2048, 64), (35, 3001, 65)]
EPS = 2.0**-23

rng = np.random.default_rng(0)


def integers(*shape: int) -> oc.Tensor:
    return oc.tensor(rng.integers(-4, 5, shape).astype(ml_dtypes.bfloat16))


def product(spec: str, *operands: oc.Tensor) -> oc.Tensor:
    return oc.einsum(spec, *operands).with_dtype("float32")


def matrices(form: str, sizes: tuple[int, int, int]) -> oc.Tensor:
    extents = dict(zip("mkn", sizes, strict=True))
    axes = [part.strip().split(",") for part in FORMS[form].partition("=>")[0].split(";")]
    return product(FORMS[form], *(integers(*(extents[name] for name in names)) for names in axes))


def with_bias() -> oc.Tensor:
    total = product("s,m,k; s,k,n => s,m,n", integers(3, 40, 64), integers(3, 64, 50))
    return oc.relu(oc.einsum("s,m,n; n => s,m,n", total, oc.cast(integers(50), oc.float32), combine="add"))


EXACT: Mapping[str, Callable[[], oc.Tensor]] = {
    **{f"{form} {sizes}": lambda form=form, sizes=sizes: matrices(form, sizes) for form in FORMS for sizes in SIZES},
    "batches, bias and activation": with_bias,
    "convolution": lambda: product("s,y<+i,x<+j,c; i,j,c,o => s,y,x,o", integers(2, 18, 9, 32), integers(3, 3, 32, 48)),
    "parts of a convolution": lambda: product(
        "y<+i,x<+j,c; i,j,c,o => y,x,o", integers(10, 34, 320), integers(3, 3, 320, 32)
    ),
    "tokens": lambda: product("s,t,k; o,k => s,t,o", integers(8, 32, 96), integers(64, 96)),
    "result in bfloat16": lambda: oc.einsum("m,k; k,n => m,n", integers(64, 64), integers(64, 64)),
}  # fmt: skip


def values(tensor: oc.Tensor, backend: str = "llvm", threads: int = 1) -> np.ndarray:
    with oc.settings(cache=False), oc.Context(backend, threads=threads) as ctx:
        ctx.compile(tensor.forward)()
        return np.asarray(ctx[tensor], "float64")


def training_step(backend: str, threads: int = 1) -> np.ndarray:
    """The losses of steps whose parameters and activations are bfloat16."""
    rows = np.random.default_rng(1)
    with oc.settings(cache=False), oc.Context(backend, threads=threads) as ctx:
        x = oc.tensor(rows.normal(size=(64, 96)).astype(ml_dtypes.bfloat16))
        target = oc.tensor(rows.normal(size=(64, 32)).astype("float32"))
        with oc.use_precision("bfloat16", gradients="float32"):
            hidden = oc.relu(oc.einsum("m,k; o,k => m,o", x, oc.param("w1", output=[128, 96])))
            out = oc.einsum("m,k; o,k => m,o", hidden, oc.param("w2", output=[32, 128]))
        loss = ((oc.cast(out, oc.float32) - target) ** 2).mean()
        ctx.init(loss)
        routine = ctx.compile(oc.seq(train.grad_update(loss), train.sgd(loss, 0.05)))
        return np.array([(routine(), float(ctx[loss]))[1] for _ in range(4)])


Error = Callable[[np.ndarray], float]
Program = Callable[[int], np.ndarray]


def programs() -> Iterator[tuple[str, Error, Program]]:
    """Yields the name of a program, the error of its result, and the program, which takes the number of threads."""
    for name, build in EXACT.items():
        tensor = build()
        exact = values(tensor, "numpy")
        yield (
            name, lambda got, exact=exact: float(np.abs(got - exact).max()),
            lambda threads, tensor=tensor: values(tensor, "llvm", threads),
        )  # fmt: skip
    x, y = (rng.standard_normal(shape).astype(ml_dtypes.bfloat16) for shape in ((70, 5000), (5000, 45)))
    tensor = product(FORMS["nn"], oc.tensor(x), oc.tensor(y))
    left, right = x.astype("float64"), y.astype("float64")
    bound = 64 * EPS * np.abs(left) @ np.abs(right)
    yield (
        "bound of sums", lambda got: float((np.abs(got - left @ right) / bound).max()),
        lambda threads: values(tensor, "llvm", threads),
    )  # fmt: skip
    large, small = np.ones((64, 5000)), np.full((5000, 64), 2.0**-24)
    small[0] = 1.0
    total = product(FORMS["nn"], *(oc.tensor(x.astype(ml_dtypes.bfloat16)) for x in (large, small)))
    yield (
        "bound of sums of a large and many small terms",
        lambda got: float((np.abs(got - large @ small) / (64 * EPS * (large @ small))).max()),
        lambda threads: values(total, "llvm", threads),
    )
    losses = training_step("numpy")
    yield (
        "training step", lambda got: float(np.abs(got / losses - 1).max() / 2.0**-8),
        lambda threads: training_step("llvm", threads),
    )  # fmt: skip


def always_tiled() -> AbstractContextManager[object]:
    """All products are computed by tiles that are large enough for these."""
    return mock.patch.object(machine, "PAIR_TERMS_PER_CYCLE", 2.0**-40)
