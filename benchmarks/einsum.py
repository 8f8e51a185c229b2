"""Einsums of three to six operands beside PyTorch's and NumPy's: one thread, float32, milliseconds.

    OMP_NUM_THREADS=1 python benchmarks/einsum.py [--gradients] [NAME ...]

PyTorch chooses its order with `opt_einsum` if that is installed. Rounds alternate; each figure is the minimum. With
`--gradients`, a call computes the sum of the squares of the result and its gradients with respect to all operands.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter

import numpy as np

import ocannl as oc
from ocannl import train

try:
    import torch
except ImportError:
    torch = None  # type: ignore[assignment]

SECONDS = 0.4  # for each contraction
MIN_ROUNDS = 5


@dataclass(frozen=True, slots=True)
class Row:
    """A contraction in NumPy's notation; `sizes` are written as `i=3 j=4`."""

    name: str
    spec: str
    sizes: str

    @property
    def notation(self) -> str:
        return self.spec.replace(",", "; ").replace("->", " => ")

    @property
    def extents(self) -> dict[str, int]:
        return {name: int(size) for name, size in (pair.split("=") for pair in self.sizes.split())}


ROWS = (
    Row("chain of 3", "ij,jk,kl->il", "i=256 j=256 k=256 l=256"),
    Row("chain of 4", "ij,jk,kl,lm->im", "i=200 j=300 k=100 l=250 m=150"),
    Row("chain of 5", "ij,jk,kl,lm,mn->in", "i=128 j=160 k=96 l=192 m=64 n=128"),
    Row("chain of 6", "ij,jk,kl,lm,mn,no->io", "i=128 j=160 k=96 l=192 m=64 n=128 o=100"),
    Row("chain to a vector", "ij,jk,kl,l->i", "i=400 j=400 k=400 l=400"),
    Row("trace of a chain", "ij,jk,kl,li->", "i=200 j=200 k=200 l=200"),
    Row("quadratic form", "bi,ij,bj->b", "b=256 i=256 j=256"),
    Row("bilinear layer", "bi,ijk,bj->bk", "b=128 i=48 j=48 k=64"),
    Row("trilinear form", "bi,bj,bk,ijk->b", "b=64 i=32 j=32 k=32"),
    Row("trilinear layer", "bi,bj,bk,ijkl->bl", "b=64 i=16 j=16 k=16 l=32"),
    Row("weighted Gram matrix", "ni,n,nj->ij", "n=2000 i=128 j=128"),
    Row("low-rank layer", "bi,ir,ro->bo", "b=256 i=512 r=16 o=512"),
    Row("low-rank layer with scales", "bi,ir,r,ro->bo", "b=256 i=512 r=16 o=512"),
    Row("linear attention", "bhqd,bhkd,bhke->bhqe", "b=2 h=4 q=256 k=256 d=32 e=32"),
    Row("attention with a gate", "bhqk,bhkd,bhq->bhqd", "b=2 h=4 q=256 k=256 d=32"),
    Row("attention and projection", "bhqk,bkhd,hde->bqe", "b=2 h=4 q=128 k=128 d=32 e=128"),
    Row("projected scores", "bqi,hid,hjd,bkj->bhqk", "b=2 q=128 k=128 h=4 d=32 i=128 j=128"),
    Row("CP of three modes", "ir,jr,kr->ijk", "i=96 j=96 k=96 r=16"),
    Row("CP of four modes", "ir,jr,kr,lr->ijkl", "i=24 j=24 k=24 l=24 r=12"),
    Row("MTTKRP", "ijk,jr,kr->ir", "i=96 j=96 k=96 r=16"),
    Row("Tucker", "abc,ia,jb,kc->ijk", "a=12 b=12 c=12 i=80 j=80 k=80"),
    Row("Tucker, projected", "ijk,ia,jb,kc->abc", "a=12 b=12 c=12 i=80 j=80 k=80"),
    Row("Tucker of four modes", "abcd,ia,jb,kc,ld->ijkl", "a=6 b=6 c=6 d=6 i=24 j=24 k=24 l=24"),
    Row("MPS of three sites", "ia,ajb,bk->ijk", "i=16 j=16 k=16 a=64 b=64"),
    Row("MPS of five sites", "ia,ajb,bkc,cld,dm->ijklm", "i=8 j=8 k=8 l=8 m=8 a=16 b=16 c=16 d=16"),
    Row("MPS inner product", "ia,ajb,bk,ic,cjd,dk->", "i=8 j=8 k=8 a=64 b=64 c=64 d=64"),
    Row("MPS environment", "ab,aic,bid->cd", "a=96 b=96 i=8 c=96 d=96"),
    Row("MPS and MPO", "abc,aid,bije,cjf->def", "a=32 b=8 c=32 i=4 j=4 d=32 e=8 f=32"),
    Row("PEPS plaquette", "abe,bcf,cdg,dah->efgh", "a=16 b=16 c=16 d=16 e=12 f=12 g=12 h=12"),
    Row("ring of tensors", "iab,jbc,kcd,lda->ijkl", "i=16 j=16 k=16 l=16 a=12 b=12 c=12 d=12"),
    Row("sum of an outer product", "ij,kl,k->", "i=300 j=300 k=300 l=300"),
    Row("shared hyperedge", "ax,bx,cx,x->abc", "a=64 b=64 c=64 x=32"),
    Row("graph convolution", "bmn,bnf,fo->bmo", "b=8 m=100 n=100 f=64 o=64"),
    Row("convolution of a kernel product", "bic,ijk,kcd->bjd", "b=64 i=24 c=32 j=24 k=8 d=32"),
)


def arrays(row: Row) -> list[np.ndarray]:
    random = np.random.default_rng(0)
    operands = row.spec.split("->")[0].split(",")
    return [random.standard_normal([row.extents[c] for c in axes]).astype("f4") for axes in operands]


Call = Callable[[], object]


def contraction(row: Row, data: list[np.ndarray]) -> tuple[dict[str, Call], Callable[[], float]]:
    """The calls by system, and the relative error of ocannl."""
    ctx = oc.Context("llvm", threads=1)
    operands = [oc.placeholder(f"x{n}", shape=",".join(map(str, a.shape))) for n, a in enumerate(data)]
    result = oc.einsum(row.notation, *operands)
    routine = ctx.compile(result.forward)
    for operand, array in zip(operands, data, strict=True):
        ctx[operand] = array
    path = np.einsum_path(row.spec, *data, optimize=("greedy", 1 << 40))[0]  # no limit of memory
    calls: dict[str, Call] = {"ocannl": routine, "NumPy": lambda: np.einsum(row.spec, *data, optimize=path)}
    if torch is not None:
        tensors = [torch.from_numpy(a) for a in data]
        calls["PyTorch"] = lambda: torch.einsum(row.spec, *tensors)
    expected = np.einsum(row.spec, *[a.astype("f8") for a in data], optimize=path)
    return calls, lambda: relative_error(ctx[result], expected)


def gradients(row: Row, data: list[np.ndarray]) -> tuple[dict[str, Call], Callable[[], float]]:
    ctx = oc.Context("llvm", threads=1)
    params = [oc.param(f"x{n}", a) for n, a in enumerate(data)]
    result = oc.einsum(row.notation, *params)
    loss = (result * result).sum()
    ctx.init(loss)
    calls: dict[str, Call] = {"ocannl": ctx.compile(train.grad_update(loss))}
    if torch is None:
        return calls, lambda: 0.0
    leaves = [torch.from_numpy(a).requires_grad_() for a in data]

    def backward() -> None:
        for leaf in leaves:
            leaf.grad = None
        value = torch.einsum(row.spec, *leaves)
        (value * value).sum().backward()

    calls["PyTorch"] = backward
    pairs = list(zip(params, leaves, strict=True))
    return calls, lambda: max(relative_error(ctx[p.grad], leaf.grad.numpy()) for p, leaf in pairs)


def relative_error(actual: np.ndarray, expected: np.ndarray) -> float:
    return float(np.max(np.abs(actual - expected)) / max(np.max(np.abs(expected)), 1e-30))


def main(arguments: list[str]) -> None:
    names = [argument for argument in arguments if argument != "--gradients"]
    prepare = gradients if "--gradients" in arguments else contraction
    if torch is not None:
        torch.set_num_threads(1)
    print(f"{'':32}{'ocannl':>9}{'PyTorch':>9}{'NumPy':>9}  PyTorch / ocannl")
    ratios = []
    for row in ROWS:
        if names and not any(name in row.name for name in names):
            continue
        calls, error = prepare(row, arrays(row))
        best = dict.fromkeys(calls, float("inf"))
        for call in calls.values():
            call()
        stop, rounds = perf_counter() + SECONDS, 0
        while perf_counter() < stop or rounds < MIN_ROUNDS:
            rounds += 1
            for name, call in calls.items():
                start = perf_counter()
                call()
                best[name] = min(best[name], perf_counter() - start)
        assert error() < 1e-4, (row.name, error())
        figures = "".join(f"{best.get(name, np.nan) * 1e3:9.3f}" for name in ("ocannl", "PyTorch", "NumPy"))
        ratios.append(best.get("PyTorch", np.nan) / best["ocannl"])
        print(f"{row.name:32}{figures}  {ratios[-1]:.2f}", flush=True)
    print(f"{'geometric mean':32}{'':27}  {np.exp(np.mean(np.log(ratios))):.2f}")


if __name__ == "__main__":
    main(sys.argv[1:])
