"""Times of operations beside PyTorch and JAX: values, or with `--gradient` a step of values and gradients.

    python benchmarks/operations.py [names] [--gradient] [--threads 1] [--size 4096] [--type float32] [--backend llvm]

They run in turns, each twice, and the best second run counts; the ratio is that to the faster peer. Names select the
rows whose first word they are; operations without gradients have no row with `--gradient`. The process is bound to as
many cores as there are threads, which limits JAX. With one thread, processor time counts, which other programs disturb
less.
"""

from __future__ import annotations

import argparse
import ctypes
import importlib.util
import math
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

import ocannl as oc
from ocannl import train

ROUNDS, SECONDS = 7, 4.0
M_TRIM_THRESHOLD, M_MMAP_MAX = -1, -4  # options of glibc's allocator


@dataclass(frozen=True)
class Row:
    """One operation; `shapes` are those of the operands, where None is the size."""

    name: str
    ours: Callable[..., Any]
    theirs: Callable[..., Any]
    low: float = -3.0
    high: float = 3.0
    shapes: tuple[tuple[int | None, ...], ...] = ((None, None),)


IMAGE = ((512, 512, 64),)
POSITIONS = (*IMAGE, (512, 512, 2))
SPACE = "h,w,c => c"


def image(f: Callable[..., Any], *arguments: Any, **settings: Any) -> Callable[..., Any]:
    """A function of an image of equal size in PyTorch's order of axes, channels first."""
    return lambda x, *xs: f(x.view(1, x.shape[2], *x.shape[:2]), *(y[None] for y in xs), *arguments, **settings)


PAIR = ((None, None), (None, None))
GELU = partial(oc.gelu, approximate="none")


def rows(x: oc.Tensor) -> oc.Tensor:
    """A matrix as a batch of rows."""
    return oc.einsum("ij => i|j", x)


def ids(x: oc.Tensor) -> oc.Tensor:
    """Class 0 for each row."""
    return oc.tensor(np.zeros(x.dims[0], "int32"), batch_axes=1)


ROWS = (
    Row("tan", oc.tan, torch.tan),
    Row("asin", oc.asin, torch.asin, -1, 1),
    Row("acos", oc.acos, torch.acos, -1, 1),
    Row("atan", oc.atan, torch.atan),
    Row("atan2", oc.atan2, torch.atan2, shapes=PAIR),
    Row("sinh", oc.sinh, torch.sinh),
    Row("cosh", oc.cosh, torch.cosh),
    Row("asinh", oc.asinh, torch.asinh),
    Row("acosh", oc.acosh, torch.acosh, 1, 9),
    Row("atanh", oc.atanh, torch.atanh, -1, 1),
    Row("hypot", oc.hypot, torch.hypot, shapes=PAIR),
    Row("sinc", oc.sinc, torch.sinc),
    Row("erf", oc.erf, torch.erf),
    Row("erfc", oc.erfc, torch.erfc),
    Row("erfinv", oc.erfinv, torch.erfinv, -1, 1),
    Row("lgamma", oc.lgamma, torch.lgamma, 0, 9),
    Row("digamma", oc.digamma, torch.digamma, 0, 9),
    Row("log10", oc.log10, torch.log10, 0, 9),
    Row("expm1", oc.expm1, torch.expm1),
    Row("log1p", oc.log1p, torch.log1p, 0, 9),
    Row("logit", oc.logit, torch.logit, 0, 1),
    Row("gelu exact", GELU, F.gelu),
    Row("gelu tanh", oc.gelu, partial(F.gelu, approximate="tanh")),
    Row("relu6", oc.relu6, F.relu6),
    Row("selu", oc.selu, F.selu),
    Row("celu", oc.celu, F.celu),
    Row("mish", oc.mish, F.mish),
    Row("prelu", oc.prelu, F.prelu, shapes=((None, None), (None,))),
    Row("log_sigmoid", oc.log_sigmoid, F.logsigmoid),
    Row("hard_sigmoid", oc.hard_sigmoid, F.hardsigmoid),
    Row("hard_swish", oc.hard_swish, F.hardswish),
    Row("hard_tanh", oc.hard_tanh, F.hardtanh),
    Row("hardshrink", oc.hardshrink, F.hardshrink),
    Row("softshrink", oc.softshrink, F.softshrink),
    Row("tanhshrink", oc.tanhshrink, F.tanhshrink),
    Row("softsign", oc.softsign, F.softsign),
    Row("threshold", partial(oc.threshold, threshold=0.1, value=2.0), lambda x: F.threshold(x, 0.1, 2.0)),
    Row("glu", lambda x: oc.glu(x, "ij => i"), F.glu),
    Row("lerp", oc.lerp, torch.lerp, shapes=((None, None),) * 3),
    Row("fmod", oc.fmod, torch.fmod, shapes=PAIR),
    Row("copysign", oc.copysign, torch.copysign, shapes=PAIR),
    Row("nan_to_num", oc.nan_to_num, torch.nan_to_num),
    Row("square", oc.square, torch.square),
    Row("interpolate nearest", partial(oc.interpolate, scale=1.5), image(F.interpolate, scale_factor=1.5),
        shapes=IMAGE),
    Row("interpolate bilinear", partial(oc.interpolate, scale=1.5, mode="bilinear"),
        image(F.interpolate, scale_factor=1.5, mode="bilinear"), shapes=IMAGE),
    Row("interpolate bicubic", partial(oc.interpolate, scale=1.5, mode="bicubic"),
        image(F.interpolate, scale_factor=1.5, mode="bicubic"), shapes=IMAGE),
    Row("interpolate area", partial(oc.interpolate, size=200, mode="area"),
        image(F.interpolate, size=(200, 200), mode="area"), shapes=IMAGE),
    Row("grid_sample", oc.grid_sample, image(F.grid_sample, align_corners=False), -1, 1, shapes=POSITIONS),
    Row("pad zeros", partial(oc.pad, widths=3, spec=SPACE), image(F.pad, (3, 3, 3, 3)), shapes=IMAGE),
    Row("pad reflect", partial(oc.pad, widths=3, spec=SPACE, mode="reflect"),
        image(F.pad, (3, 3, 3, 3), mode="reflect"), shapes=IMAGE),
    Row("flip", partial(oc.flip, spec=SPACE), lambda x: x.flip((0, 1)), shapes=IMAGE),
    Row("roll", partial(oc.roll, shift=(5, 7), spec=SPACE), lambda x: x.roll((5, 7), (0, 1)), shapes=IMAGE),
    Row("rot90", partial(oc.rot90, spec=SPACE), lambda x: x.rot90().contiguous(), shapes=IMAGE),
    Row("tile", partial(oc.tile, times=2, spec="h,w,c => h,c"), lambda x: x.tile(1, 2, 1), shapes=IMAGE),
    Row("repeat", partial(oc.repeat, times=2, spec="h,w,c => h,c"), lambda x: x.repeat_interleave(2, 1), shapes=IMAGE),
    Row("pixel_shuffle", partial(oc.pixel_shuffle, block=2), image(F.pixel_shuffle, 2), shapes=IMAGE),
    Row("pixel_unshuffle", partial(oc.pixel_unshuffle, block=2), image(F.pixel_unshuffle, 2), shapes=IMAGE),
    Row("adaptive_avg_pool2d", partial(oc.adaptive_avg_pool2d, size=7), image(F.adaptive_avg_pool2d, 7), shapes=IMAGE),
    Row("adaptive_max_pool2d", partial(oc.adaptive_max_pool2d, size=7), image(F.adaptive_max_pool2d, 7), shapes=IMAGE),
    Row("lp_pool2d", partial(oc.lp_pool2d, window=2), image(F.lp_pool2d, 2.0, 2), shapes=IMAGE),
    Row("local_response_norm", oc.local_response_norm, image(F.local_response_norm, 5), shapes=IMAGE),
    Row("smooth_l1_loss", oc.smooth_l1_loss, partial(F.smooth_l1_loss, reduction="none"), shapes=PAIR),
    Row("log_cosh", oc.log_cosh, lambda x, y: torch.logaddexp(x - y, y - x) - math.log(2), shapes=PAIR),
    Row("binary_cross_entropy", oc.binary_cross_entropy,
        partial(F.binary_cross_entropy_with_logits, reduction="none"), shapes=PAIR),
    Row("poisson_nll_loss", oc.poisson_nll_loss, partial(F.poisson_nll_loss, reduction="none"), shapes=PAIR),
    Row("gaussian_nll_loss", oc.gaussian_nll_loss, partial(F.gaussian_nll_loss, reduction="none"), 0.1,
        shapes=((None, None),) * 3),
    Row("soft_margin_loss", oc.soft_margin_loss, lambda x, y: F.softplus(-x * y), shapes=PAIR),
    Row("kl_div", lambda x, y: oc.kl_div(rows(x), rows(y)),
        lambda x, y: F.kl_div(x, y, reduction="none").sum(1), 0.1, 1, shapes=PAIR),
    Row("cross_entropy smooth", lambda x: oc.cross_entropy(rows(x), ids(x), label_smoothing=0.1),
        lambda x: F.cross_entropy(x, torch.zeros(len(x), dtype=int), label_smoothing=0.1, reduction="none")),
    Row("multi_margin_loss", lambda x: oc.multi_margin_loss(rows(x), ids(x)),
        lambda x: F.multi_margin_loss(x, torch.zeros(len(x), dtype=int), reduction="none")),
    Row("triplet_margin_loss", lambda x, y, z: oc.triplet_margin_loss(rows(x), rows(y), rows(z)),
        partial(F.triplet_margin_loss, reduction="none"), shapes=((None, None),) * 3),
    Row("norm", lambda x: x.norm("ij => i"), lambda x: torch.linalg.vector_norm(x, dim=1)),
    Row("norm of order 3", lambda x: x.norm("ij => i", ord=3), lambda x: torch.linalg.vector_norm(x, 3, dim=1)),
    Row("norm of order 2.5", lambda x: x.norm("ij => i", ord=2.5), lambda x: torch.linalg.vector_norm(x, 2.5, dim=1)),
    Row("matrix_norm 1", lambda x: oc.matrix_norm(x, ord=1), lambda x: torch.linalg.matrix_norm(x, 1)),
    Row("normalize", lambda x: oc.normalize(x, "ij => i"), F.normalize),
    Row("cosine_similarity", lambda x, y: oc.cosine_similarity(rows(x), rows(y)), F.cosine_similarity, shapes=PAIR),
    Row("cdist", oc.cdist, torch.cdist, shapes=((1024, 64), (1024, 64))),
    Row("cdist 1", partial(oc.cdist, p=1), partial(torch.cdist, p=1), shapes=((1024, 64), (1024, 64))),
    Row("nansum", lambda x: oc.nansum(x, "ij => i"), lambda x: torch.nansum(x, 1)),
    Row("nanmean", lambda x: oc.nanmean(x, "ij => i"), lambda x: torch.nanmean(x, 1)),
    Row("ptp", lambda x: oc.ptp(x, "ij => i"), lambda x: x.amax(1) - x.amin(1)),
    Row("moments", lambda x: sum(oc.moments(x, "ij => i")), lambda x: sum(torch.var_mean(x, 1))),
    Row("cov", oc.cov, torch.cov, shapes=((512, 2048),)),
    Row("corrcoef", oc.corrcoef, torch.corrcoef, shapes=((512, 2048),)),
    Row("cross", oc.cross, lambda x, y: torch.linalg.cross(x, y), shapes=((1 << 20, 3),) * 2),
    Row("kron", oc.kron, torch.kron, shapes=((64, 64), (64, 64))),
    Row("exponential", lambda x: oc.exponential(key="e", o=[1 << 22]), lambda x: torch.empty(1 << 22).exponential_()),
    Row("truncated_normal", lambda x: oc.truncated_normal(key="t", o=[1 << 22]),
        lambda x: torch.nn.init.trunc_normal_(torch.empty(1 << 22))),
    Row("gamma", lambda x: oc.gamma(2.0, key="g", o=[1 << 20]),
        lambda x: torch._standard_gamma(torch.full((1 << 20,), 2.0))),
    Row("poisson", lambda x: oc.poisson(5.0, key="p", o=[1 << 20]),
        lambda x: torch.poisson(torch.full((1 << 20,), 5.0))),
    Row("categorical", lambda x: oc.categorical(rows(x), key="c"), lambda x: torch.multinomial(torch.softmax(x, 1), 1)),
    Row("permutation", lambda x: oc.permutation(1 << 20, key="p"), lambda x: torch.randperm(1 << 20)),
)  # fmt: skip


def gram(a: Any) -> Any:
    """A positive definite matrix."""
    return oc.einsum("ik; jk => ij", a, a)


def stft(x: Any) -> torch.Tensor:
    window = torch.hann_window(256)
    return torch.view_as_real(torch.stft(x, 256, 64, window=window, center=False, return_complex=True))


MATRIX, VECTOR = (512, 512), (512,)
ROWS += (
    Row("solve", oc.linalg.solve, torch.linalg.solve, shapes=(MATRIX, VECTOR)),
    Row("inv", oc.linalg.inv, torch.linalg.inv, shapes=(MATRIX,)),
    Row("slogdet", lambda a: oc.linalg.slogdet(a)[1], lambda a: torch.linalg.slogdet(a)[1], shapes=(MATRIX,)),
    Row("cholesky", lambda a: oc.linalg.cholesky(gram(a)), lambda a: torch.linalg.cholesky(a @ a.T), shapes=(MATRIX,)),
    Row("qr", lambda a: oc.linalg.qr(a)[1], lambda a: torch.linalg.qr(a)[1], shapes=(MATRIX,)),
    Row("svdvals", oc.linalg.svdvals, torch.linalg.svdvals, shapes=(MATRIX,)),
    Row("eigvalsh", lambda a: oc.linalg.eigvalsh(gram(a)), lambda a: torch.linalg.eigvalsh(a @ a.T), shapes=(MATRIX,)),
    Row("rfft", oc.fft.rfft, lambda x: torch.view_as_real(torch.fft.rfft(x))),
    Row("rfft2", oc.fft.rfft2, lambda x: torch.view_as_real(torch.fft.rfft2(x))),
    Row("stft", lambda x: oc.fft.stft(x, 256, hop=64), stft, shapes=((8, 64000),)),
)


def ours(row: Row, arrays: Sequence[np.ndarray], arguments: argparse.Namespace) -> Callable[[], object] | None:
    """A compiled routine over the arrays; None for a gradient that does not exist."""
    ctx = oc.Context(arguments.backend, threads=arguments.threads)
    if not arguments.gradient:
        xs = [oc.placeholder(f"x{n}", o=list(a.shape), dtype=arguments.type) for n, a in enumerate(arrays)]
        for x, array in zip(xs, arrays, strict=True):
            ctx[x] = array
        return ctx.compile(row.ours(*xs).forward)
    params = [oc.param(f"x{n}", a) for n, a in enumerate(arrays)]
    loss = row.ours(*params).sum()
    if not loss.has_gradient:
        return None
    ctx.init(loss)
    return ctx.compile(train.grad_update(loss), keep=[p.grad for p in params])


def theirs(row: Row, arrays: Sequence[np.ndarray], arguments: argparse.Namespace) -> Callable[[], object]:
    xs = [torch.tensor(a, requires_grad=arguments.gradient) for a in arrays]

    def step() -> None:
        for x in xs:
            x.grad = None
        row.theirs(*xs).sum().backward()

    return step if arguments.gradient else lambda: row.theirs(*xs)


def seconds(call: Callable[[], object], clock: Callable[[], float]) -> float:
    call()  # the other libraries' arrays leave the cache, and their waiting threads fall asleep
    start = clock()
    call()
    return clock() - start


def compare(row: Row, arguments: argparse.Namespace) -> None:
    random = np.random.default_rng(0)
    shapes = [tuple(arguments.size if n is None else n for n in shape) for shape in row.shapes]
    arrays = [random.uniform(row.low, row.high, shape).astype(arguments.type) for shape in shapes]
    if (routine := ours(row, arrays, arguments)) is None:
        return
    calls = [routine, theirs(row, arrays, arguments)]
    if importlib.util.find_spec("jax"):
        from operations_by_jax import step

        calls += filter(None, [step(row.name, arrays, arguments.gradient, indices)])
    clock = time.process_time if arguments.threads == 1 else time.perf_counter
    for call in calls:
        call()
    rounds, start = [], time.perf_counter()
    while len(rounds) < 2 or (len(rounds) < ROUNDS and time.perf_counter() - start < SECONDS):
        rounds.append([seconds(call, clock) for call in calls])
    times = [1e3 * min(column) for column in zip(*rounds, strict=True)]
    jax_time = f"{times[2]:10.2f}" if len(times) > 2 else f"{'':10}"
    print(f"{row.name:22}{times[0]:10.2f}{times[1]:10.2f}{jax_time}{min(times[1:]) / times[0]:8.2f}", flush=True)


# --- rows with indices ----------------------------------------------------------------------------------------------

COLUMN, LINE = "ij => j", "ij => i"


@cache
def indices(*dims: int) -> np.ndarray:
    """Random indices below the first size."""
    return np.random.default_rng(1).integers(0, dims[0], size=dims).astype("int32")


@cache
def torch_indices(*dims: int) -> torch.Tensor:
    return torch.tensor(indices(*dims), dtype=torch.int64)


def put(x: oc.Tensor, v: oc.Tensor, spec: str, mode: str) -> oc.Tensor:
    return oc.put_along_axis(x, indices(*x.dims), v, spec, mode=mode)


def update(x: oc.Tensor, v: oc.Tensor, mode: str) -> oc.Tensor:
    return oc.index_update(x, indices(x.dims[0]), v, mode=mode)


ROWS += (
    Row("take_along_axis 0", lambda x: oc.take_along_axis(x, indices(*x.dims), COLUMN),
        lambda x: x.gather(0, torch_indices(*x.shape))),
    Row("take_along_axis 1", lambda x: oc.take_along_axis(x, indices(*x.dims), LINE),
        lambda x: x.gather(1, torch_indices(*x.shape))),
    Row("put_along_axis 0", lambda x, v: put(x, v, COLUMN, "add"),
        lambda x, v: x.scatter_add(0, torch_indices(*x.shape), v), shapes=PAIR),
    Row("put_along_axis 1", lambda x, v: put(x, v, LINE, "set"),
        lambda x, v: x.scatter(1, torch_indices(*x.shape), v), shapes=PAIR),
    Row("index_update add", lambda x, v: update(x, v, "add"),
        lambda x, v: x.index_add(0, torch_indices(x.shape[0]), v), shapes=PAIR),
    Row("index_update set", lambda x, v: update(x, v, "set"),
        lambda x, v: x.index_copy(0, torch_indices(x.shape[0]), v), shapes=PAIR),
    Row("segment_sum", lambda x: oc.segment_sum(x, indices(x.dims[0]) % 64, 64),
        lambda x: x.new_zeros(64, x.shape[1]).index_add(0, torch_indices(x.shape[0]) % 64, x)),
    Row("segment_max", lambda x: oc.segment_max(x, indices(x.dims[0]), x.dims[0]),
        lambda x: torch.full_like(x, -np.inf).index_reduce(0, torch_indices(x.shape[0]), x, "amax")),
    Row("bincount", lambda x: oc.bincount(indices(*x.dims), x.dims[0]),
        lambda x: torch.bincount(torch_indices(*x.shape).reshape(-1), minlength=x.shape[0])),
    Row("histogram", lambda x: oc.histogram(x, 100, (-3, 3)), lambda x: torch.histc(x, 100, -3, 3)),
    Row("searchsorted", lambda s, x: oc.searchsorted(oc.sort(s), x),
        lambda s, x: torch.searchsorted(s.sort()[0], x, out_int32=True), shapes=((None,), (None, None))),
    Row("nonzero", lambda x: oc.nonzero(x > 2, x.dims[0] ** 2 // 5), lambda x: torch.nonzero(x > 2)),
    Row("sort", lambda x: oc.sort(x, LINE), lambda x: x.sort(1)[0]),
    Row("argsort", lambda x: oc.argsort(x, LINE), lambda x: torch.sort(x, dim=1, stable=True)[1]),
    Row("topk 8", lambda x: oc.topk(x, 8, LINE)[0], lambda x: x.topk(8)[0]),
    Row("kthvalue", lambda x: oc.kthvalue(x, 100, LINE), lambda x: x.kthvalue(100)[0]),
    Row("median", lambda x: oc.median(x, LINE), lambda x: x.median(1)[0]),
    Row("unique", lambda x: oc.unique(indices(*x.dims), x.dims[0]), lambda x: torch.unique(torch_indices(*x.shape))),
)  # fmt: skip


def reuse_freed_memory() -> None:
    """Keeps freed memory in the process: results of PyTorch would otherwise be paged in at every call."""
    libc = ctypes.CDLL(None)
    for option, value in ((M_MMAP_MAX, 0), (M_TRIM_THRESHOLD, 2**31 - 1)):
        libc.mallopt(option, value)


def main() -> None:
    reuse_freed_memory()
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--gradient", action="store_true")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--size", type=int, default=4096)
    parser.add_argument("--type", default="float32")
    parser.add_argument("--backend", default="llvm")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)  # that of NumPy is set by OPENBLAS_NUM_THREADS before the start
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[-arguments.threads :])
    print(f"{'milliseconds':22}{'ocannl':>10}{'PyTorch':>10}{'JAX':>10}{'ratio':>8}")
    for row in ROWS:
        if not arguments.names or row.name.split()[0] in arguments.names:
            compare(row, arguments)


if __name__ == "__main__":
    main()
