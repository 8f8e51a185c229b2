"""The inputs and the results of the built-in operations that a declaration describes by more than their names."""

from __future__ import annotations

from dataclasses import replace

from ocannl.lang.declare.inputs import Count, Input, at_least
from ocannl.lang.declare.outputs import Output

_INTEGERS = Input("int | bool", differentiable=False)
_FLOATS = Input("float")
_WORDS = Input("uint32", differentiable=False)
_BITS = ("bitwise_and", "bitwise_or", "bitwise_xor", "left_shift", "right_shift")
_INDEXED = (
    "bincount", "gather_nd", "index_update", "one_hot", "pick", "put_along_axis", "scatter_nd", "take",
    "take_along_axis", *(f"segment_{name}" for name in ("max", "mean", "min", "prod", "sum")),
)  # fmt: skip

INPUTS: dict[str, dict[str, Input]] = {
    **{name: {"x": _INTEGERS, "y": _INTEGERS} for name in _BITS},
    **{f"threefry4x32_{rounds}": {f"x{n}": _INTEGERS for n in range(1, 10)} for rounds in (12, 20)},
    "threefry4x32": {"key": _WORDS, "counter": _WORDS},
    **{name: {"ids": _INTEGERS} for name in _INDEXED},
    "categorical": {"logits": _FLOATS},
    "cross_entropy": {"logits": _FLOATS},
    "ctc_loss": {
        "log_probabilities": _FLOATS, "targets": _INTEGERS, "input_lengths": _INTEGERS, "target_lengths": _INTEGERS
    },
    "dropout": {"x": _FLOATS},
    "multi_margin_loss": {"target": _INTEGERS},
    "multinomial": {"p": _FLOATS},
    "softmax_focal_loss": {"logits": _FLOATS, "target": _INTEGERS},
}  # fmt: skip
"""Inputs of restricted types, by operation."""

LISTS: dict[str, Count] = {"tensors": at_least(1), "nested": at_least(1)}
"""Inputs that are lists of tensors, by name."""

VARIADIC = ("concat", "einsum", "meshgrid")
"""Operations that take one or more tensors as `*xs`."""

KEYWORDS = {
    "binary_cross_entropy": ("weight", "positive_weight"),
    "choice": ("p",),
    "cross_entropy": ("weight",),
    "fft.stft": ("window",),
    "multi_margin_loss": ("weight",),
    "scaled_dot_product_attention": ("bias",),
    "softmax_focal_loss": ("weight",),
}
"""Optional inputs that are keywords, by operation. Other keywords are settings."""

_CLASSES = "one factor for each class"

DOCS: dict[str, str] = {
    "anchor": "the points that are compared",
    "bias": "a tensor to add to the scores",
    "bins": "the limits of the intervals, in ascending order",
    "concentration": "the shape of the distribution",
    "condition": "nonzero where the first alternative is chosen",
    "counter": "the block to encrypt, four words",
    "distance": "the distances of pairs",
    "grid": "the position of each cell of the result, from -1 to 1",
    "high": "the upper limit",
    "ids": "the positions along the axis",
    "imaginary": "the imaginary parts",
    "input_lengths": "the number of steps of each sequence, by default all",
    "k": "the keys",
    "kernel": "the weights of the window",
    "key": "the key, four words",
    "left": "the left factor",
    "log_probabilities": "the logarithms of the probabilities of classes, for each step",
    "logits": "logarithms of probabilities, up to a constant",
    "low": "the lower limit",
    "mask": "nonzero where a query sees a key",
    "negative": "points that are far from the anchors",
    "nested": "the blocks, in lists of lists for several axes",
    "positive": "points that are near the anchors",
    "positive_weight": "the factor of targets 1",
    "q": "the queries",
    "rate": "the mean number of events",
    "real": "the real parts",
    "right": "the right factor",
    "scale": "the factor of the numbers",
    "scores": "the scores of classes",
    "sequence": "values in ascending order",
    "slope": "the factor of negative values",
    "target": "the values that are expected",
    "target_lengths": "the number of labels of each sequence, by default all",
    "targets": "the labels of each sequence",
    "tensors": "tensors of one shape",
    "transform": "the affine transformation, a matrix of two rows or three",
    "v": "the values of the keys",
    "value": "the result at 0",
    "values": "the values to write",
    "variance": "the variances that are predicted",
    "weight": _CLASSES,
    "weights": "one factor for each cell",
    "window": "one factor for each cell of a frame, by default 1",
    "xs": "the operands",
}
"""What an input is, by its name. Operands with names of one letter are described with their operation."""

SPECIFIC_DOCS: dict[str, str] = {
    **dict.fromkeys(("bernoulli.p", "multinomial.p"), "the probabilities"),
    **dict.fromkeys(("beta.alpha", "beta.beta"), "a parameter of the distribution"),
    **{f"segment_{name}.ids": "the segment of each row" for name in ("max", "mean", "min", "prod", "sum")},
    "binary_cross_entropy.weight": "one factor for each term",
    "bincount.ids": "the values to count",
    "choice.p": "the probabilities of the rows, up to a factor",
    "cond.condition": "a scalar, nonzero for the first function",
    "cosine_embedding_loss.target": "1 for pairs that are alike, else -1",
    "contrastive_loss.target": "1 for pairs that are alike, else 0",
    "cross_entropy.target": "the id of the class, or a distribution over the classes",
    "gather_nd.ids": "the positions along the first axes",
    "lerp.weight": "the part of the second operand",
    "one_hot.ids": "the position of the 1 in each row",
    "scatter_nd.ids": "the positions along the first axes",
    "take.t": "the table",
}
"""Inputs that are not what their names say of other operations."""

_RESULTS: dict[str, dict[str, str]] = {
    "linalg.eigh": {"w": "the eigenvalues", "v": "the eigenvectors, in columns"},
    "linalg.lu": {"p": "the permutation", "l": "the lower factor", "u": "the upper factor"},
    "linalg.qr": {"q": "the orthonormal columns", "r": "the upper triangular factor"},
    "linalg.slogdet": {"sign": "the sign", "logabsdet": "the logarithm of the absolute value"},
    "linalg.svd": {"u": "the left singular vectors", "s": "the singular values", "vh": "the right singular vectors"},
    "moments": {"mean": "the mean", "var": "the variance"},
    "topk": {"values": "the cells", "ids": "their positions"},
}

RESULTS = {name: {result: Output(doc=doc) for result, doc in results.items()} for name, results in _RESULTS.items()}
"""The results of operations that have several, in the order of the tuple."""


def builtin_input(operation: str, name: str) -> Input:
    is_variadic = name == "xs" and operation in VARIADIC
    count = at_least(1) if is_variadic else LISTS.get(name)
    declared = Input(count=count) if count else INPUTS.get(operation, {}).get(name, Input())
    return replace(declared, doc=SPECIFIC_DOCS.get(f"{operation}.{name}") or DOCS.get(name, ""))
