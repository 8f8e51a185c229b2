"""The workloads of `compare`, at sizes that fill a GPU; `tiny` ones are for trying everything out without one."""

from __future__ import annotations

from collections.abc import Callable

import ml_dtypes
import numpy as np
from compare.workloads import MI, Array, Workload, chain, decoder, gemm, lenet, normal, perceptron, rows

GPT2_SMALL = {"L": 12, "D": 768, "H": 12, "T": 1024, "B": 8, "V": 50257}
TINY = {"L": 1, "D": 32, "H": 2, "T": 16, "B": 2, "V": 48}


def halved(workload: Workload) -> Workload:
    """All arrays of floats as bfloat16; sums stay in float32."""

    def half(value: object) -> object:
        if isinstance(value, list):
            return [half(each) for each in value]
        if isinstance(value, np.ndarray) and value.dtype == np.float32:
            return value.astype(ml_dtypes.bfloat16)
        return value

    return {key: half(value) for key, value in workload.items()}


def attention(batch: int, heads: int, context: int, width: int) -> Workload:
    """Causal: half of the products are needed."""
    rng = np.random.default_rng(11)
    arrays: dict[str, Array] = {name: normal(rng, batch, heads, context, width) for name in "qkv"}
    return {"kind": "attention", **arrays, "flops": 2.0 * batch * heads * context * context * width}


FULL: dict[str, Callable[[], Workload]] = {
    "W2": lambda: halved(perceptron(4096, 4096, 4096, 4096, 4096)),
    "W4": lambda: lenet(4096),
    "W5": lambda: halved(decoder(GPT2_SMALL)),
    "product_4096": lambda: halved(gemm(4096, 4096, 4096)),
    "product_8192": lambda: halved(gemm(8192, 8192, 8192)),
    "attention": lambda: halved(attention(8, 12, 1024, 64)),
    "softmax": lambda: rows("softmax", 8, (16384, 4096)),
    "layernorm": lambda: rows("layernorm", 7, (16384, 4096)),
    "chain": lambda: chain(cells=256 * MI),
}
SMALL: dict[str, Callable[[], Workload]] = {
    "W2": lambda: halved(perceptron(16, 32, 32, 32, 32)),
    "W4": lambda: lenet(4),
    "W5": lambda: halved(decoder(TINY)),
    "product_4096": lambda: halved(gemm(32, 32, 32)),
    "product_8192": lambda: halved(gemm(64, 64, 64)),
    "attention": lambda: halved(attention(2, 2, 16, 16)),
    "softmax": lambda: rows("softmax", 8, (16, 64)),
    "layernorm": lambda: rows("layernorm", 7, (16, 64)),
    "chain": lambda: chain(cells=4096),
}
