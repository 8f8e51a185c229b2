"""Sample operands of the built-in operations whose domain is restricted."""

from __future__ import annotations

import numpy as np

from ocannl.lang.declare.elementwise_samples import ELEMENTWISE_SAMPLES
from ocannl.lang.declare.indexing_samples import INDEXING_SAMPLES
from ocannl.lang.declare.layout_samples import LAYOUT_SAMPLES
from ocannl.lang.declare.loss_samples import LOSS_SAMPLES
from ocannl.lang.declare.samples import Draw, Sample, sample
from ocannl.lang.declare.statistics_samples import RANDOM_SAMPLES, STATISTICS_SAMPLES

ANY, LINE = Draw(), Draw(dims=(4,))
POSITIVE, SMOOTH = Draw(0.5, 2.0), Draw(avoid=(0.0,))
ABOVE = Draw(2.2, 3.0)
MAP = Draw(dims=(2, 3), input_axes=1)
CLASSES = Draw(dims=(2, 3), batch_axes=1)
SIGNAL = {n: Draw(0.5, 4.0, dims=(4,) * n + (2,)) for n in (1, 2, 3)}
KERNEL = {n: Draw(0.5, 2.0, dims=(2,) * n + (2, 1)) for n in (1, 2, 3)}
BITS, SHIFTS, IDS = (np.array(numbers, "int32") for numbers in ([5, 6, 7], [1, 2, 3], [2, 0, 1]))
COUNTERS = np.array([1, 2, 3, 4], "uint32")
REDUCTIONS = ("sum", "max", "min", "mean", "prod", "var", "std")
MASKS = np.array([[1.0, 0.0, 2.0], [3.0, 4.0, 5.0]], "float32")

SAMPLES: dict[str, tuple[Sample, ...]] = {
    **ELEMENTWISE_SAMPLES,
    **INDEXING_SAMPLES,
    **dict.fromkeys(("abs", "relu", "leaky_relu", "elu"), (sample(SMOOTH),)),
    **dict.fromkeys(("log", "log2", "sqrt", "recip", "recip_sqrt", "log1p"), (sample(POSITIVE),)),
    **dict.fromkeys(("div", "pow"), (sample(POSITIVE, Draw(0.5, 2.0, (3,))), sample(POSITIVE, 2.0))),
    **dict.fromkeys(("softmax", "log_softmax", "logsumexp"), (sample(CLASSES), sample(ANY, "ij => i"))),
    **dict.fromkeys(("cumsum", "cummax", "cummin", "argmax", "argmin"), (sample(LINE),)),
    **dict.fromkeys(("count_nonzero", "any", "all"), (sample(MASKS, "ij => i"), sample(MASKS))),
    **dict.fromkeys(("and_", "or_"), (sample(MASKS, 1.0 - MASKS),)),
    "not_": (sample(MASKS),),
    **dict.fromkeys(REDUCTIONS, (sample(ANY), sample(ANY, "ij => i"))),
    **dict.fromkeys(("bitwise_and", "bitwise_or", "bitwise_xor", "left_shift", "right_shift"), (sample(BITS, SHIFTS),)),
    **{f"conv{n}d": (sample(SIGNAL[n], KERNEL[n]), sample(SIGNAL[n], KERNEL[n], stride=2),
        sample(SIGNAL[n], KERNEL[n], stride=2, padding=1)) for n in (1, 2, 3)},
    **{f"depthwise_conv{n}d": (sample(SIGNAL[n], Draw(dims=(2,) * n + (SIGNAL[n].dims[-1],))),) for n in (1, 2, 3)},
    **{f"conv_transpose{n}d": (sample(Draw(dims=(2,) * n + (2,)), KERNEL[n]),) for n in (1, 2, 3)},
    **{f"{kind}_pool{n}d": (sample(SIGNAL[n], 2),) for kind in ("max", "avg") for n in (1, 2, 3)},
    "sat01": (sample(Draw(avoid=(0.0, 1.0))),),
    "relu_gate": (sample(SMOOTH, ANY),),
    "sat01_gate": (sample(Draw(avoid=(0.0, 1.0)), ANY),),
    "mod": (sample(ANY, ABOVE),),
    **dict.fromkeys(("diagonal", "trace", "tril", "triu"), (sample(Draw(dims=(3, 3))),)),
    "cumprod": (sample(Draw(0.5, 2.0, (4,))),),
    "diag": (sample(LINE),),
    "outer": (sample(LINE, Draw(0.5, 2.0, (3,))),),
    "trunc": (sample(Draw(1.2, 3.9)),),
    "one_hot": (sample(IDS, 3),),
    "where": (sample(np.array([1.0, 0.0, 1.0], "float32"), ANY, ANY),),
    "clip": (sample(Draw(avoid=(-1.0, 1.0)), -1.0, 1.0),),
    **dict.fromkeys(("cast", "astype"), (sample(ANY, "float64"),)),
    "concat": (sample("a; b => a^b", LINE, Draw(dims=(2,))), sample("a^2 => a", LINE)),
    "stack": (sample([LINE, LINE]), sample([ANY, ANY], axis="batch")),
    "block": (sample([[LINE, LINE], [LINE, LINE]]),),
    "iota": (sample(4),),
    **dict.fromkeys(("uniform", "normal"), (sample(key="noise", counter=0, output=[3]),)),
    "bernoulli": (sample(0.5, key="coins", counter=0, output=[6]),),
    "randint": (sample(1, 7, key="dice", counter=0, output=[6]),),
    "dropout": (sample(LINE, 0.5, key="noise", counter=0),),
    "threefry4x32": (sample(COUNTERS, COUNTERS),),
    **dict.fromkeys(("threefry4x32_12", "threefry4x32_20"), (sample(*[COUNTERS] * 9),)),
    "take": (sample(Draw(dims=(3, 2)), IDS),),
    "pick": (sample(LINE, 2),),
    **LAYOUT_SAMPLES,
    **LOSS_SAMPLES,
    **STATISTICS_SAMPLES,
    **RANDOM_SAMPLES,
    "matmul": (sample(MAP, Draw(dims=(3,))),),
    "einsum": (sample("ij; jk => ik", ANY, Draw(dims=(3, 2))), sample("ij => i", ANY, reduce="max")),
}  # fmt: skip
"""Samples by the name of the function or method."""
