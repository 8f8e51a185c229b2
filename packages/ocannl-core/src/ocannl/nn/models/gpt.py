"""GPT-2: a decoder-only transformer."""

from __future__ import annotations

from typing import Any

from ocannl.lang import api as oc
from ocannl.lang.api import Block, Tensor
from ocannl.nn.cache import CacheView
from ocannl.nn.embedding import embedding
from ocannl.nn.layer import layer
from ocannl.nn.models.stored_names import pairs, stored_name
from ocannl.nn.positions import position_embedding
from ocannl.nn.transformers import encoder


@layer
def gpt(
    tokens: Tensor, cache: CacheView | None = None, *, vocabulary: int, length: int, width: int, layers: int,
    heads: int, inner: int | None = None, rate: float = 0.0, eps: float = 1e-5,
) -> Tensor:  # fmt: skip
    """Logits of the next token at every position of sequences of up to `length` tokens: GPT-2.

    The dense layers have `inner` units, by default four times `width`; logits are products with the table of tokens.
    With a `cache`, `tokens` continue the sequences of a decoder.

    Shapes: `..b.., t| => ..b.., t|vocabulary`, tokens of an integer type.
    Init:   normal with the deviation 0.02; biases 0, gains 1.
    Source: Radford, Wu, Child, Luan, Amodei, Sutskever 2019.
    """
    init = oc.normal(std=0.02)
    embed = embedding(count=vocabulary, width=width, init=init, label="token")
    x = position_embedding(embed(tokens), None if cache is None else cache.positions, count=length, label="position")
    x = oc.dropout(x, rate) if rate else x
    x = encoder(
        x, None, cache, layers=layers, heads=heads, inner=inner or 4 * width, pre_norm=True, causal=True,
        activation=oc.gelu, rate=rate, eps=eps, init=init, label="decoder",
    )  # fmt: skip
    return oc.einsum("...|c; v, c => ...|v", x, embed.params["table"])


_OUTSIDE = {
    "token.table": "wte.weight", "position.table": "wpe.weight", **pairs("decoder.norm.{}", "ln_f.{}", "gain")
}  # fmt: skip
_INSIDE = {
    **{f"attention.{ours}_{part}": (f"attn.c_attn.{theirs}", number, 3)
       for ours, theirs in (("w", "weight"), ("b", "bias")) for number, part in enumerate("qkv")},
    **pairs("attention.{}_o", "attn.c_proj.{}"), **pairs("norm.{}", "ln_1.{}", "gain"),
    **pairs("norm_2.{}", "ln_2.{}", "gain"), **pairs("feed_forward.inner.{}", "mlp.c_fc.{}"),
    **pairs("feed_forward.outer.{}", "mlp.c_proj.{}"),
}  # fmt: skip


def gpt_layout(net: Block) -> dict[str, Any]:
    """Arguments of `oc.load_weights` for the files of GPT-2: `oc.load_weights(path, net, **nn.gpt_layout(net))`."""
    dense = [path for path, p in net.params.items() if len(p.dims) == 2 and "table" not in path]
    return {"names": stored_name(_OUTSIDE, _INSIDE, "h.{}."), "transpose": dense}
