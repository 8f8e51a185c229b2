"""BERT: an encoder of texts."""

from __future__ import annotations

from functools import partial
from typing import Any

from ocannl.lang import api as oc
from ocannl.lang.api import Tensor
from ocannl.lang.dtypes import int32
from ocannl.nn.embedding import embedding
from ocannl.nn.layer import layer
from ocannl.nn.models.stored_names import pairs, stored_name
from ocannl.nn.norms import layer_norm
from ocannl.nn.positions import position_embedding
from ocannl.nn.transformers import encoder


@layer
def bert(
    tokens: Tensor, mask: Tensor | None = None, segments: Tensor | None = None, *, width: int, layers: int, heads: int,
    inner: int, vocabulary: int = 30522, length: int = 512, segment_count: int = 2, rate: float = 0.0,
    eps: float = 1e-12,
) -> Tensor:  # fmt: skip
    """Features of the tokens of texts: BERT.

    `mask` is not 0 for tokens and 0 for padding; `segments` are ids of the parts of a text, by default all 0.

    Shapes: `..b.., t|; ..b.., t|; ..b.., t| => ..b.., t|width`, tokens and segments of an integer type.
    Init:   normal with the deviation 0.02; biases 0, gains 1.
    Source: Devlin, Chang, Lee, Toutanova 2019.
    """
    init = oc.normal(std=0.02)
    x = embedding(tokens, count=vocabulary, width=width, init=init, label="token")
    x = position_embedding(x, count=length, init=init, label="position")
    segments = oc.full(0, b=[], o=[], dtype=int32) if segments is None else segments
    x = x + embedding(segments, count=segment_count, width=width, init=init, label="segment")
    x = layer_norm(x, axes=1, eps=eps, label="norm")
    x = oc.dropout(x, rate) if rate else x
    keys = None if mask is None else oc.einsum("..., s| => ...|0, 0, s", mask)
    return encoder(
        x, keys, layers=layers, heads=heads, inner=inner, activation=partial(oc.gelu, approximate="none"), rate=rate,
        eps=eps, init=init, label="encoder",
    )  # fmt: skip


_OUTSIDE = {
    "token.table": "embeddings.word_embeddings.weight", "position.table": "embeddings.position_embeddings.weight",
    "segment.table": "embeddings.token_type_embeddings.weight",
    **pairs("norm.{}", "embeddings.LayerNorm.{}", "gain"),
}  # fmt: skip
_INSIDE = {
    **pairs("attention.{}_q", "attention.self.query.{}"), **pairs("attention.{}_k", "attention.self.key.{}"),
    **pairs("attention.{}_v", "attention.self.value.{}"), **pairs("attention.{}_o", "attention.output.dense.{}"),
    **pairs("norm.{}", "attention.output.LayerNorm.{}", "gain"), **pairs("norm_2.{}", "output.LayerNorm.{}", "gain"),
    **pairs("feed_forward.inner.{}", "intermediate.dense.{}"), **pairs("feed_forward.outer.{}", "output.dense.{}"),
}  # fmt: skip


def bert_layout() -> dict[str, Any]:
    """Arguments of `oc.load_weights` for files of Hugging Face, `oc.load_weights(path, net, **nn.bert_layout())`.

    Files with more arrays, such as those of a pooling layer, take `strict=False`.
    """
    return {"names": stored_name(_OUTSIDE, _INSIDE, "encoder.layer.{}.")}
