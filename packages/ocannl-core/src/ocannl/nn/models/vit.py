"""ViT: a transformer of the patches of an image."""

from __future__ import annotations

from functools import partial

from ocannl.lang import api as oc
from ocannl.lang.api import Tensor
from ocannl.nn.layer import layer
from ocannl.nn.linear import linear
from ocannl.nn.positions import position_embedding
from ocannl.nn.transformers import encoder


@layer
def vit(
    image: Tensor, *, patch: int, width: int, layers: int, heads: int, inner: int, classes: int, rate: float = 0.0,
    eps: float = 1e-6,
) -> Tensor:  # fmt: skip
    """Logits of classes: a pre-norm encoder of square patches after a learned start, and a dense layer of its result.

    Shapes: `..b..|h, w, c => ..b..|classes`; `patch` divides `h` and `w`.
    Init:   positions normal with the deviation 0.02, `start` 0; others as in `nn.linear` and `nn.attention`.
    Source: Dosovitskiy et al. 2021.
    """
    patches = oc.einsum("...|(h p), (w q), c => ..., (h w)|p, q, c", image, p=patch, q=patch)
    x = linear(patches, width=width, label="patch")
    count = x.dims[len(x.shape.batch) - 1]
    start = oc.concat(f"t|c => t^{count}|c", oc.einsum("c => 0|c", oc.param("start", 0.0, o=[width])))
    x = oc.concat("..., t|c => ..., 1^t|c", x) + start
    x = position_embedding(x, count=count + 1, label="position")
    x = encoder(
        x, layers=layers, heads=heads, inner=inner, pre_norm=True, activation=partial(oc.gelu, approximate="none"),
        rate=rate, eps=eps, label="encoder",
    )  # fmt: skip
    return linear(oc.einsum("..., 0|c => ...|c", x), width=classes, label="head")
