"""The workloads of `compare`, at sizes that fill a GPU; `tiny` ones are for trying everything out without one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
from compare.workloads import MI, Array, Workload, chain, decoder, gemm, lenet, normal, perceptron, rows

GPT2_SMALL = {"L": 12, "D": 768, "H": 12, "T": 1024, "B": 8, "V": 50257}
TINY = {"L": 1, "D": 32, "H": 2, "T": 16, "B": 2, "V": 48}


def halved(workload: Workload) -> Workload:
    """All arrays of floats as bfloat16; sums stay in float32."""

    def half(value: object) -> object:
        if isinstance(value, list):
            return [half(item) for item in value]
        if isinstance(value, np.ndarray) and value.dtype == np.float32:
            return value.astype(ml_dtypes.bfloat16)
        return value

    return {key: half(value) for key, value in workload.items()}


def attention(batch: int, heads: int, context: int, width: int) -> Workload:
    """Causal: half of the products are needed."""
    rng = np.random.default_rng(11)
    arrays: dict[str, Array] = {name: normal(rng, batch, heads, context, width) for name in "qkv"}
    return {"kind": "attention", **arrays, "flops": 2.0 * batch * heads * context * context * width}


def square(size: int) -> Workload:
    return halved(gemm(size, size, size))


WORKLOADS: dict[str, tuple[Callable[..., Workload], Any, Any]] = {  # of full sizes, and of tiny ones
    "W2": (lambda size: halved(perceptron(size, (size,) * 4)), 4096, 32),
    "W4": (lenet, 4096, 4),
    "W5": (lambda sizes: halved(decoder(sizes)), GPT2_SMALL, TINY),
    "product_4096": (square, 4096, 32),
    "product_8192": (square, 8192, 64),
    "attention": (lambda sizes: halved(attention(*sizes)), (8, 12, 1024, 64), (2, 2, 16, 16)),
    "softmax": (lambda shape: rows("softmax", 8, shape), (16384, 4096), (16, 64)),
    "layernorm": (lambda shape: rows("layernorm", 7, shape), (16384, 4096), (16, 64)),
    "chain": (lambda cells: chain(cells=cells), 256 * MI, 4096),
}


def workload(name: str, small: bool = False) -> Workload:
    build, full, tiny = WORKLOADS[name]
    return build(tiny if small else full)
