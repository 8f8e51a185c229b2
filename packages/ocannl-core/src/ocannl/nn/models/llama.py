"""Llama: a decoder-only transformer with rotary positions, shared keys and gated units."""

from __future__ import annotations

from typing import Any

from ocannl.lang import api as oc
from ocannl.lang.api import Tensor
from ocannl.nn.attention import attention
from ocannl.nn.cache import CacheView
from ocannl.nn.embedding import embedding
from ocannl.nn.layer import layer
from ocannl.nn.linear import linear
from ocannl.nn.models.stored_names import stored_name
from ocannl.nn.norms import rms_norm
from ocannl.nn.transformers import swiglu


@layer
def llama(
    tokens: Tensor, cache: CacheView | None = None, *, vocabulary: int, width: int, layers: int, heads: int, inner: int,
    kv_heads: int | None = None, window: int | None = None, rotary_base: float = 10000.0, eps: float = 1e-5,
) -> Tensor:  # fmt: skip
    """Logits of the next token at every position: Llama, and with `window` Mistral.

    With a `cache`, `tokens` continue the sequences of a decoder.

    Shapes: `..b.., t| => ..b.., t|vocabulary`, tokens of an integer type.
    Init:   normal with the deviation 0.02; gains 1.
    Source: Touvron et al. 2023; Jiang et al. 2023.
    """
    init = oc.normal(std=0.02)
    x = embedding(tokens, count=vocabulary, width=width, init=init, label="token")
    for _ in range(layers):
        x = llama_layer(
            x, cache, heads=heads, kv_heads=kv_heads, inner=inner, window=window, rotary_base=rotary_base, eps=eps,
            init=init, label="layer",
        )  # fmt: skip
    return linear(rms_norm(x, axes=1, eps=eps, label="norm"), width=vocabulary, bias=False, init=init, label="head")


@layer
def llama_layer(
    x: Tensor, cache: CacheView | None = None, *, heads: int, inner: int, kv_heads: int | None = None,
    window: int | None = None, rotary_base: float = 10000.0, eps: float = 1e-5, init: object = None,
) -> Tensor:  # fmt: skip
    """Causal attention with rotary positions, then SwiGLU, each after an RMS norm and with a residual connection.

    Shapes: `..b.., t|c => ..b.., t|c`.
    """
    attend = attention(
        heads=heads, kv_heads=kv_heads, causal=True, window=window, rotary_base=rotary_base, bias=False, init=init,
        label="attention",
    )  # fmt: skip
    x = x + attend(rms_norm(x, axes=1, eps=eps, label="norm"), None, None, cache)
    return x + swiglu(rms_norm(x, axes=1, eps=eps, label="norm"), inner=inner, init=init, label="feed_forward")


_OUTSIDE = {
    "token.table": "model.embed_tokens.weight", "norm.gain": "model.norm.weight", "head.w": "lm_head.weight"
}  # fmt: skip
_INSIDE = {
    **{f"attention.w_{part}": f"self_attn.{part}_proj.weight" for part in "qkvo"},
    **{f"feed_forward.{part}.w": f"mlp.{part}_proj.weight" for part in ("gate", "up", "down")},
    "norm.gain": "input_layernorm.weight", "norm_2.gain": "post_attention_layernorm.weight",
}  # fmt: skip


def llama_layout() -> dict[str, Any]:
    """Arguments of `oc.load_weights` for files of Llama and Mistral from Hugging Face."""
    return {"names": stored_name(_OUTSIDE, _INSIDE, "model.layers.{}.")}
