"""Modules of PyTorch for sequences, with the parameters of the layers of `ocannl.nn` in the order of their creation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch_layer import torch

t, F = torch.nn, torch.nn.functional


class Unpacked(t.Module):  # type: ignore[misc]
    """A module of PyTorch, whose packed parameters are apart: weights of queries, keys and values of attention, and one
    bias for both products of recurrent units, except those of a GRU."""

    def __init__(self, template: Any, call: Callable[..., Any] = lambda module, x: module(x)) -> None:
        super().__init__()
        self.leaves, self.sources, self.call = t.ParameterList(), {}, call
        self.template = [template]  # not a part: its parameters are replaced
        for path, part in template.named_modules():
            self.add(f"{path}." if path else "", part)

    def add(self, path: str, part: Any) -> None:
        if isinstance(part, t.MultiheadAttention):
            weights = part.in_proj_weight.chunk(3)
            biases = part.in_proj_bias.chunk(3)
            numbers = [self.leaf(leaf) for pair in zip(weights, biases, strict=True) for leaf in pair]
            self.sources |= {f"{path}in_proj_weight": numbers[::2], f"{path}in_proj_bias": numbers[1::2]}
        elif isinstance(part, t.RNNBase | t.RNNCellBase):
            is_gru = isinstance(part, t.GRU | t.GRUCell)
            names = [name.removeprefix("weight_ih") for name in part._parameters if name.startswith("weight_ih")]
            for end in names:
                for name in (f"weight_ih{end}", f"bias_ih{end}", f"weight_hh{end}", f"bias_hh{end}"):
                    if name.startswith("bias_hh") and not is_gru:
                        self.sources[path + name] = torch.zeros_like(getattr(part, name)).double()
                    else:
                        self.sources[path + name] = [self.leaf(getattr(part, name))]
        else:
            for name, leaf in part.named_parameters(recurse=False):
                self.sources[path + name] = [self.leaf(leaf)]

    def leaf(self, value: Any) -> int:
        self.leaves.append(t.Parameter(value.detach().clone()))
        return len(self.leaves) - 1

    def forward(self, x: Any) -> Any:
        values = {
            name: torch.cat([self.leaves[n] for n in source]) if isinstance(source, list) else source
            for name, source in self.sources.items()
        }
        (template,) = self.template
        return torch.func.functional_call(
            Called(template, self.call), {f"module.{n}": v for n, v in values.items()}, (x,)
        )


class Called(t.Module):  # type: ignore[misc]
    def __init__(self, module: Any, call: Callable[..., Any]) -> None:
        super().__init__()
        self.module, self.call = module, call

    def forward(self, x: Any) -> Any:
        return self.call(self.module, x)


class Attention(t.Module):  # type: ignore[misc]
    """Attention within a sequence, written out."""

    def __init__(
        self, width: int, heads: int, kv_heads: int | None = None, bias: bool = True, rotate: Any = None
    ) -> None:
        super().__init__()
        self.heads, self.kv_heads, self.rotate = heads, kv_heads or heads, rotate
        shared = width * self.kv_heads // heads
        self.q, self.k, self.v = (t.Linear(width, units, bias) for units in (width, shared, shared))
        self.o = t.Linear(width, width, bias)

    def forward(self, x: Any, mask: Any = None) -> Any:
        q = self.q(x).unflatten(-1, (self.heads, -1)).transpose(-3, -2)
        k, v = (f(x).unflatten(-1, (self.kv_heads, -1)).transpose(-3, -2) for f in (self.k, self.v))
        if self.rotate is not None:
            q, k = self.rotate(q), self.rotate(k)
        k, v = (z.repeat_interleave(self.heads // self.kv_heads, -3) for z in (k, v))
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return self.o(y.transpose(-3, -2).flatten(-2))


def causal(count: int) -> Any:
    return torch.ones(count, count, dtype=torch.bool).tril()


def turned(x: Any, base: float = 10000.0) -> Any:
    """Rotary positions of `..., t, d`, as in Llama."""
    half = x.shape[-1] // 2
    angles = torch.arange(x.shape[-2])[:, None] * base ** (-torch.arange(half, dtype=torch.float64) / half)
    sin, cos = (f(angles).repeat(1, 2).to(x.dtype) for f in (torch.sin, torch.cos))
    return x * cos + torch.cat([-x[..., half:], x[..., :half]], -1) * sin


class Rows(t.Module):  # type: ignore[misc]
    """Adds the rows of a table at the positions of a sequence."""

    def __init__(self, count: int, width: int) -> None:
        super().__init__()
        self.table = t.Parameter(0.3 * torch.randn(count, width))

    def forward(self, x: Any) -> Any:
        return x + self.table[: x.shape[-2]]


class Block(t.Module):  # type: ignore[misc]
    """Pre-norm attention and two dense layers, as in GPT-2 and ViT; `post` as in BERT."""

    def __init__(
        self, width: int, heads: int, inner: int, activation: Any, eps: float = 1e-5, post: bool = False
    ) -> None:
        super().__init__()
        self.attention = Attention(width, heads)
        self.inner, self.outer = t.Linear(width, inner), t.Linear(inner, width)
        self.norm, self.norm_2 = t.LayerNorm(width, eps), t.LayerNorm(width, eps)
        self.activation, self.post = activation, post

    def forward(self, x: Any, mask: Any = None) -> Any:
        def feed(x: Any) -> Any:
            return self.outer(self.activation(self.inner(x)))

        if self.post:
            x = self.norm(x + self.attention(x, mask))
            return self.norm_2(x + feed(x))
        x = x + self.attention(self.norm(x), mask)
        return x + feed(self.norm_2(x))


class GPT(t.Module):  # type: ignore[misc]
    def __init__(self, vocabulary: int, length: int, width: int, layers: int, heads: int) -> None:
        super().__init__()
        self.token, self.position = t.Embedding(vocabulary, width), Rows(length, width)
        gelu = t.GELU("tanh")
        self.layers = t.ModuleList(Block(width, heads, 4 * width, gelu) for _ in range(layers))
        self.norm = t.LayerNorm(width)

    def forward(self, ids: Any) -> Any:
        x = self.position(self.token(ids))
        for layer in self.layers:
            x = layer(x, causal(ids.shape[-1]))
        return self.norm(x) @ self.token.weight.T


class BERT(t.Module):  # type: ignore[misc]
    def __init__(self, vocabulary: int, length: int, width: int, layers: int, heads: int, inner: int) -> None:
        super().__init__()
        self.token, self.position = t.Embedding(vocabulary, width), Rows(length, width)
        self.segment, self.norm = t.Embedding(2, width), t.LayerNorm(width, 1e-12)
        self.layers = t.ModuleList(Block(width, heads, inner, t.GELU(), 1e-12, post=True) for _ in range(layers))

    def forward(self, ids: Any) -> Any:
        x = self.norm(self.position(self.token(ids)) + self.segment.weight[0])
        for layer in self.layers:
            x = layer(x, (ids != 0)[:, None, None])
        return x


class ViT(t.Module):  # type: ignore[misc]
    def __init__(self, sizes: Any, patch: int, width: int, layers: int, heads: int, inner: int, classes: int) -> None:
        super().__init__()
        _, h, w, c = sizes
        self.patch, self.size = t.Linear(patch * patch * c, width), patch
        self.start, self.position = Start(width), Rows(h * w // patch**2 + 1, width)
        self.layers = t.ModuleList(Block(width, heads, inner, t.GELU(), 1e-6) for _ in range(layers))
        self.norm, self.head = t.LayerNorm(width, 1e-6), t.Linear(width, classes)

    def forward(self, x: Any) -> Any:
        x = x.unflatten(2, (-1, self.size)).unflatten(1, (-1, self.size)).transpose(2, 3)  # b, h, w, p, q, c
        x = self.position(self.start(self.patch(x.movedim(-1, 3).flatten(3).flatten(1, 2))))
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x)[:, 0])


class Start(t.Module):  # type: ignore[misc]
    def __init__(self, width: int) -> None:
        super().__init__()
        self.token = t.Parameter(torch.zeros(width))

    def forward(self, x: Any) -> Any:
        return torch.cat([self.token.expand(len(x), 1, -1), x], 1)


class SwiGLU(t.Module):  # type: ignore[misc]
    def __init__(self, width: int, inner: int) -> None:
        super().__init__()
        self.gate, self.up = t.Linear(width, inner, False), t.Linear(width, inner, False)
        self.down = t.Linear(inner, width, False)

    def forward(self, x: Any) -> Any:
        return self.down(F.silu(self.gate(x)) * self.up(x))


class Experts(t.Module):  # type: ignore[misc]
    """Each expert computes all cells; those beyond its `capacity`, first choices last, have the weight 0."""

    def __init__(
        self, width: int, count: int, inner: int, top_k: int, capacity: Callable[[int], int] = lambda cells: cells
    ) -> None:
        super().__init__()
        self.capacity = capacity
        self.router = t.Parameter(torch.randn(count, width))
        self.gate, self.up = (t.Parameter(torch.randn(count, inner, width) / width**0.5) for _ in range(2))
        self.down, self.top_k = t.Parameter(torch.randn(count, width, inner) / inner**0.5), top_k

    def forward(self, x: Any) -> Any:
        best, chosen = (x @ self.router.T).topk(self.top_k)
        y, fill = torch.zeros_like(x), [0] * len(self.router)
        for weight, e in zip(best.softmax(-1).unbind(-1), chosen.unbind(-1), strict=True):
            accepted = torch.zeros_like(weight)
            for cell, expert in enumerate(e.flatten().tolist()):
                accepted.view(-1)[cell] = float(fill[expert] < self.capacity(e.numel()))
                fill[expert] += 1
            weight = weight * accepted
            gate, up = (torch.einsum("...c,...ic->...i", x, w[e]) for w in (self.gate, self.up))
            y = y + weight[..., None] * torch.einsum("...i,...ci->...c", F.silu(gate) * up, self.down[e])
        return y


class BalancedExperts(Experts):
    """The results plus the loss of Mixtral that balances the choices of the router."""

    def forward(self, x: Any) -> Any:
        scores = (x @ self.router.T).flatten(0, -2)
        chosen = F.one_hot(scores.topk(self.top_k).indices, len(self.router)).to(x.dtype)
        shares = chosen.mean(0) * scores.softmax(-1).mean(0)
        return super().forward(x) + len(self.router) * shares.sum()


class LlamaLayer(t.Module):  # type: ignore[misc]
    def __init__(self, width: int, heads: int, kv_heads: int, inner: int, window: int) -> None:
        super().__init__()
        self.attention = Attention(width, heads, kv_heads, bias=False, rotate=turned)
        self.norm, self.norm_2 = t.RMSNorm(width, 1e-5), t.RMSNorm(width, 1e-5)
        self.feed, self.window = SwiGLU(width, inner), window

    def forward(self, x: Any) -> Any:
        mask = causal(x.shape[-2]).triu(1 - self.window)
        x = x + self.attention(self.norm(x), mask)
        return x + self.feed(self.norm_2(x))


def llama(vocabulary: int, width: int, layers: int, **settings: int) -> Any:
    blocks = [LlamaLayer(width, **settings) for _ in range(layers)]
    return t.Sequential(
        t.Embedding(vocabulary, width), *blocks, t.RMSNorm(width, 1e-5), t.Linear(width, vocabulary, False)
    )
