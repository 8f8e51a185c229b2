"""Products of matrices beside PyTorch's: GF/s and the ratio of the times.

    python benchmarks/products.py [--threads N] [--dtype bfloat16] [FORM:MxKxN ...]

Forms: `nn` is `a[m,k] b[k,n]`, `nt` is `a[m,k] b[n,k]` as in a layer with weights `[outputs, inputs]`, `tn` is
`a[k,m] b[k,n]` as in the gradient of weights, `tt` is `a[k,m] b[n,k]`, and `batch:BxMxKxN` is a batch of products.
Rounds alternate; each figure is the median. One thread is timed by processor time, several by elapsed time. A pause
precedes each round: threads of OpenMP spin for milliseconds after their last loop, on the cores that are timed next.
"""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from statistics import geometric_mean, median
from time import perf_counter, process_time, sleep

import numpy as np
import torch

import ocannl as oc

SECONDS = 0.8  # for each product
ROUND_SECONDS = 0.02
PAUSE_SECONDS = 0.02
MIN_ROUNDS = 5
TOLERANCES = {"float32": 1e-4, "bfloat16": 1e-2}  # of the largest cell
FORMS = {
    "nn": "m,k; k,n => m,n", "nt": "m,k; n,k => m,n", "tn": "k,m; k,n => m,n", "tt": "k,m; n,k => m,n",
    "batch": "b,m,k; b,k,n => b,m,n",
}  # fmt: skip
PRODUCTS = (
    *(f"nn:{n}x{n}x{n}" for n in (64, 96, 128, 256, 333, 512, 777, 1024, 1500, 2048)),
    "nn:333x777x555", "nn:1000x17x1000", "nn:32x768x3072", "nn:128x768x3072", "nn:128x3072x768", "nn:4096x256x64",
    "nt:8x768x3072", "nt:32x768x3072", "nt:128x768x768", "nt:128x768x3072", "nt:128x3072x768", "nt:512x768x2304",
    "nt:64x4096x1024", "tn:768x128x3072", "tn:3072x128x768", "tn:1024x512x1024", "tt:512x768x512",
    "batch:64x48x48x48", "batch:96x128x64x128",
)  # fmt: skip


@dataclass(frozen=True)
class Product:
    form: str
    sizes: dict[str, int]

    @staticmethod
    def parse(text: str) -> Product:
        form, sizes = text.split(":")
        names = "bmkn" if form == "batch" else "mkn"
        return Product(form, dict(zip(names, map(int, sizes.split("x")), strict=True)))

    @property
    def flops(self) -> int:
        return 2 * prod(self.sizes.values())

    def operands(self) -> list[np.ndarray]:
        random = np.random.default_rng(0)
        axes = [part.strip().split(",") for part in FORMS[self.form].split("=>")[0].split(";")]
        return [random.standard_normal([self.sizes[name] for name in names]).astype("f4") for names in axes]


Call = Callable[[], object]


def calls(product: Product, threads: int, dtype: str) -> tuple[Call, Call, Callable[[], float]]:
    """The calls of ocannl and of PyTorch, and the difference of their results, relative to the largest cell."""
    a, b = product.operands()
    ctx = oc.Context("llvm", threads=threads)
    result = oc.einsum(FORMS[product.form], oc.tensor(a, dtype=dtype), oc.tensor(b, dtype=dtype))
    routine = ctx.compile(result.forward)
    left, right = (torch.from_numpy(operand).to(getattr(torch, dtype)) for operand in (a, b))
    left = left.T if product.form in ("tn", "tt") else left
    right = right.T if product.form in ("nt", "tt") else right
    out = torch.empty(result.dims, dtype=left.dtype)

    def difference() -> float:
        theirs = out.float().numpy()
        return float(np.max(np.abs(ctx[result].astype("f4") - theirs)) / np.abs(theirs).max())

    return routine, lambda: torch.matmul(left, right, out=out), difference


def seconds(call: Call, repetitions: int, clock: Callable[[], float]) -> float:
    start = clock()
    for _ in range(repetitions):
        call()
    return (clock() - start) / repetitions


def main() -> None:
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--dtype", choices=TOLERANCES, default="float32")
    parser.add_argument("products", nargs="*", default=PRODUCTS)
    arguments = parser.parse_args()
    threads, dtype = arguments.threads, arguments.dtype
    torch.set_num_threads(threads)
    clock = process_time if threads == 1 else perf_counter
    print(f"{'':22}{'ocannl':>9}{'PyTorch':>9}  ocannl / PyTorch, {dtype}, {threads} thread{'s'[: threads > 1]}")
    ratios = []
    for text in arguments.products:
        product = Product.parse(text)
        ours, theirs, difference = calls(product, threads, dtype)
        repetitions = []
        for call in (ours, theirs):
            call()
            repetitions.append(max(1, int(ROUND_SECONDS / seconds(call, 2, perf_counter))))
        assert difference() < TOLERANCES[dtype], (text, difference())
        times: tuple[list[float], list[float]] = ([], [])
        stop = perf_counter() + SECONDS
        while perf_counter() < stop or len(times[0]) < MIN_ROUNDS:
            for call, count, measured in zip((ours, theirs), repetitions, times, strict=True):
                sleep(PAUSE_SECONDS)
                call()  # wakes the threads
                measured.append(seconds(call, count, clock))
        rates = [product.flops / median(measured) / 1e9 for measured in times]
        ratios.append(rates[0] / rates[1])
        print(f"{text:22}{rates[0]:9.1f}{rates[1]:9.1f}  {ratios[-1]:.2f}", flush=True)
    print(f"{'geometric mean':22}{'':18}  {geometric_mean(ratios):.2f}, lowest {min(ratios):.2f}")


if __name__ == "__main__":
    main()
