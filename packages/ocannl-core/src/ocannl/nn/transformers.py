"""Transformers: layers of attention and of dense units, with residual connections."""

from __future__ import annotations

from collections.abc import Callable

from ocannl.lang import api as oc
from ocannl.lang.api import Tensor
from ocannl.nn.attention import attention
from ocannl.nn.cache import CacheView
from ocannl.nn.layer import layer
from ocannl.nn.linear import linear
from ocannl.nn.norms import layer_norm
from ocannl.nn.operand_axes import feature_count

Activation = Callable[[Tensor], Tensor]


@layer
def feed_forward(
    x: Tensor,
    *,
    inner: int,
    activation: Activation = oc.relu,
    bias: bool = True,
    rate: float = 0.0,
    init: object = None,
) -> Tensor:
    """Two dense layers, the first of `inner` units: `outer(activation(inner(x)))`, with dropout between them.

    Shapes: `...|c => ...|c`.
    Init:   that of `nn.linear`.
    """
    h = activation(linear(x, width=inner, bias=bias, init=init, label="inner"))
    h = oc.dropout(h, rate) if rate else h
    return linear(h, width=feature_count(x, "feed_forward"), bias=bias, init=init, label="outer")


@layer
def swiglu(x: Tensor, *, inner: int, bias: bool = False, init: object = None) -> Tensor:
    """`down(silu(gate(x)) * up(x))`, with `inner` units of `gate` and `up`.

    Shapes: `...|c => ...|c`.
    Init:   that of `nn.linear`.
    Source: Shazeer 2020.
    """
    gate, up = (linear(x, width=inner, bias=bias, init=init, label=name) for name in ("gate", "up"))
    return linear(oc.silu(gate) * up, width=feature_count(x, "swiglu"), bias=bias, init=init, label="down")


@layer
def encoder_layer(
    x: Tensor, mask: Tensor | None = None, cache: CacheView | None = None, *,
    heads: int, inner: int, pre_norm: bool = False, causal: bool = False, activation: Activation = oc.relu,
    rate: float = 0.0, attention_rate: float | None = None, eps: float = 1e-5, init: object = None,
) -> Tensor:  # fmt: skip
    """Attention within the sequence, then dense layers, each with a residual connection and a layer normalization.

    The norms follow the sums, or with `pre_norm` precede the layers. With `causal` it is a layer of a decoder-only
    transformer. `rate` is that of dropout on the results of both parts and on the units; `attention_rate` that on
    the weights of attention, by default the same.

    Shapes: `..b.., t|c => ..b.., t|c`; the mask broadcasts to `..b..|heads, t, t`.
    Init:   that of `nn.attention` and `nn.linear`.
    Source: Vaswani et al. 2017; Xiong et al. 2020.
    """
    residual = _Residual(pre_norm, rate, eps)
    attend = attention(
        heads=heads,
        causal=causal,
        rate=rate if attention_rate is None else attention_rate,
        init=init,
        label="attention",
    )
    feed = feed_forward(inner=inner, activation=activation, rate=rate, init=init, label="feed_forward")
    x = residual(x, lambda h: attend(h, None, mask, cache))
    return residual(x, feed)


@layer
def decoder_layer(
    x: Tensor, memory: Tensor, mask: Tensor | None = None, memory_mask: Tensor | None = None,
    cache: CacheView | None = None, *, heads: int, inner: int, pre_norm: bool = False, activation: Activation = oc.relu,
    rate: float = 0.0, eps: float = 1e-5, init: object = None,
) -> Tensor:  # fmt: skip
    """Causal attention within the sequence, attention to `memory`, the result of an encoder, then dense layers.

    Shapes: `..b.., t|c; ..b.., s|c' => ..b.., t|c`; `mask` broadcasts to `..b..|heads, t, t`, `memory_mask` to
            `..b..|heads, t, s`.
    Init:   that of `nn.attention` and `nn.linear`.
    Source: Vaswani et al. 2017.
    """
    residual = _Residual(pre_norm, rate, eps)
    attend = attention(heads=heads, causal=True, rate=rate, init=init, label="attention")
    cross = attention(heads=heads, rate=rate, init=init, label="cross_attention")
    feed = feed_forward(inner=inner, activation=activation, rate=rate, init=init, label="feed_forward")
    x = residual(x, lambda h: attend(h, None, mask, cache))
    x = residual(x, lambda h: cross(h, memory, memory_mask, cache))
    return residual(x, feed)


class _Residual:
    """`norm(x + f(x))`, or `x + f(norm(x))`, with dropout on the result of `f`."""

    def __init__(self, pre_norm: bool, rate: float, eps: float) -> None:
        self.pre_norm, self.rate, self.eps = pre_norm, rate, eps

    def __call__(self, x: Tensor, function: Callable[[Tensor], Tensor]) -> Tensor:
        y = function(layer_norm(x, axes=1, eps=self.eps, label="norm") if self.pre_norm else x)
        y = oc.dropout(y, self.rate) if self.rate else y
        return x + y if self.pre_norm else layer_norm(x + y, axes=1, eps=self.eps, label="norm")


def _ended(x: Tensor, final_norm: bool | None, pre_norm: bool, eps: float) -> Tensor:
    """The result of a stack, with a last normalization, by default if the norms precede the layers."""
    has_norm = pre_norm if final_norm is None else final_norm
    return layer_norm(x, axes=1, eps=eps, label="norm") if has_norm else x


@layer
def encoder(
    x: Tensor, mask: Tensor | None = None, cache: CacheView | None = None, *,
    layers: int, heads: int, inner: int, pre_norm: bool = False, final_norm: bool | None = None, causal: bool = False,
    activation: Activation = oc.relu, rate: float = 0.0, eps: float = 1e-5, init: object = None,
) -> Tensor:  # fmt: skip
    """A stack of `nn.encoder_layer`, by default with a last normalization if the norms precede the layers.

    Shapes: `..b.., t|c => ..b.., t|c`.
    """
    for _ in range(layers):
        x = encoder_layer(
            x, mask, cache, heads=heads, inner=inner, pre_norm=pre_norm, causal=causal, activation=activation,
            rate=rate, eps=eps, init=init, label="layer",
        )  # fmt: skip
    return _ended(x, final_norm, pre_norm, eps)


@layer
def decoder(
    x: Tensor, memory: Tensor, mask: Tensor | None = None, memory_mask: Tensor | None = None,
    cache: CacheView | None = None, *, layers: int, heads: int, inner: int, pre_norm: bool = False,
    final_norm: bool | None = None, activation: Activation = oc.relu, rate: float = 0.0, eps: float = 1e-5,
    init: object = None,
) -> Tensor:  # fmt: skip
    """A stack of `nn.decoder_layer`, by default with a last normalization if the norms precede the layers.

    Shapes: `..b.., t|c; ..b.., s|c' => ..b.., t|c`.
    """
    for _ in range(layers):
        x = decoder_layer(
            x, memory, mask, memory_mask, cache, heads=heads, inner=inner, pre_norm=pre_norm, activation=activation,
            rate=rate, eps=eps, init=init, label="layer",
        )  # fmt: skip
    return _ended(x, final_norm, pre_norm, eps)


@layer
def transformer(
    source: Tensor, target: Tensor, source_mask: Tensor | None = None, *,
    layers: int, heads: int, inner: int, pre_norm: bool = False, final_norm: bool = True,
    activation: Activation = oc.relu, rate: float = 0.0, eps: float = 1e-5, init: object = None,
) -> Tensor:  # fmt: skip
    """An encoder of `source`, and a decoder of `target` that attends to its result, of `layers` layers each.

    Shapes: `..b.., s|c; ..b.., t|c => ..b.., t|c`; the mask of keys broadcasts to `..b..|heads, s, s`.
    Source: Vaswani et al. 2017.
    """
    settings = {
        "layers": layers, "heads": heads, "inner": inner, "pre_norm": pre_norm, "final_norm": final_norm,
        "activation": activation, "rate": rate, "eps": eps, "init": init,
    }  # fmt: skip
    memory = encoder(source, source_mask, label="encoder", **settings)
    return decoder(target, memory, None, source_mask, label="decoder", **settings)
