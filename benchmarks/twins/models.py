"""The models of the demonstrations. `lib` is `by_torch` or `by_jax`; weights have the paths of the parameters."""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType
from typing import Any

Weights = dict[str, Any]
Array = Any


def dense(lib: ModuleType, w: Weights, path: str, x: Array) -> Array:
    return lib.linear(x, w[f"{path}.w"], w[f"{path}.b"])


def mlp(lib: ModuleType, w: Weights, path: str, x: Array, activation: Any = None) -> Array:
    """`nn.mlp`: as many layers as there are weights."""
    activation = activation or lib.relu
    x, count = dense(lib, w, f"{path}linear", x), 2
    while f"{path}linear_{count}.w" in w:
        x, count = dense(lib, w, f"{path}linear_{count}", activation(x)), count + 1
    return x


# --- characters -------------------------------------------------------------------------------------------------------


def bigram(lib: ModuleType, w: Weights, tokens: Array) -> Array:
    return lib.embedding(tokens, w["logits.table"])


def perceptron(lib: ModuleType, w: Weights, tokens: Array, context: int = 8) -> Array:
    """Layers of the last characters, of which those before the first are zero."""
    embedded = lib.embedding(tokens, w["characters.table"])
    padded = lib.pad(embedded, context - 1, 0)
    count = tokens.shape[1]
    last = lib.concatenate([padded[:, shift : shift + count] for shift in range(context)], 2)
    return mlp(lib, w, "mlp.", last, lib.tanh)


def gru(lib: ModuleType, w: Weights, path: str, x: Array, start: Array | None = None) -> tuple[Array, Array]:
    return lib.gru(x, start, *(w[f"{path}.cell.{name}"] for name in ("w_x", "w_h", "b_x", "b_h")))


def recurrent(lib: ModuleType, w: Weights, tokens: Array) -> Array:
    states, _ = gru(lib, w, "gru", lib.embedding(tokens, w["characters.table"]))
    return dense(lib, w, "logits", states)


def adder(lib: ModuleType, w: Weights, question: Array, previous: Array) -> Array:
    read, written = (lib.embedding(tokens, w["characters.table"]) for tokens in (question, previous))
    _, last = gru(lib, w, "reader", read)
    states, _ = gru(lib, w, "writer", written, last)
    return dense(lib, w, "logits", states)


def norm(lib: ModuleType, w: Weights, path: str, x: Array, eps: float) -> Array:
    return lib.layer_norm(x, w[f"{path}.gain"], w[f"{path}.b"], eps)


def encoder(
    lib: ModuleType, w: Weights, path: str, x: Array, *, heads: int, causal: bool, approximate: bool, eps: float
) -> Array:
    """As many layers of a pre-norm transformer as there are weights, and a last norm."""
    batch, length, width = x.shape
    count, at = 1, f"{path}.layer"
    while f"{at}.norm.gain" in w:
        h = norm(lib, w, f"{at}.norm", x, eps)
        q, k, v = (
            lib.linear(h, w[f"{at}.attention.w_{part}"], w[f"{at}.attention.b_{part}"])
            .reshape(batch, length, heads, width // heads)
            .swapaxes(1, 2)
            for part in "qkv"
        )
        mixed = lib.attention(q, k, v, causal).swapaxes(1, 2).reshape(batch, length, width)
        x = x + lib.linear(mixed, w[f"{at}.attention.w_o"], w[f"{at}.attention.b_o"])
        h = norm(lib, w, f"{at}.norm_2", x, eps)
        hidden = lib.gelu(dense(lib, w, f"{at}.feed_forward.inner", h), approximate)
        x = x + dense(lib, w, f"{at}.feed_forward.outer", hidden)
        count, at = count + 1, f"{path}.layer_{count + 1}"
    return norm(lib, w, f"{path}.norm", x, eps)


def transformer(lib: ModuleType, w: Weights, tokens: Array) -> Array:
    x = lib.embedding(tokens, w["token.table"]) + w["position.table"][: tokens.shape[1]]
    x = encoder(lib, w, "decoder", x, heads=4, causal=True, approximate=True, eps=1e-5)
    return lib.linear(x, w["token.table"], None)


# --- pictures: batch, height, width, channels -------------------------------------------------------------------------


def lenet(lib: ModuleType, w: Weights, image: Array) -> Array:
    x = lib.conv(image, w["conv2d.w"], w["conv2d.b"], 1, 4)
    x = lib.conv(lib.avg_pool(lib.tanh(x)), w["conv2d_2.w"], w["conv2d_2.b"], 1, 0)
    return mlp(lib, w, "mlp.", lib.avg_pool(lib.tanh(x)).reshape(len(image), -1), lib.tanh)


def resnet(lib: ModuleType, w: Weights, image: Array, is_training: bool) -> Array:
    def normed_conv(x: Array, block: str, number: str, stride: int = 1) -> Array:
        x = lib.conv(x, w[f"{block}conv2d{number}.w"], None, stride, 1)
        return lib.batch_norm(x, w, f"{block}batch_norm{number}.", is_training)

    x = lib.relu(normed_conv(image, "", ""))
    for block, stride in (("residual_block.", 1), ("residual_block_2.", 2), ("residual_block_3.", 2)):
        y = normed_conv(lib.relu(normed_conv(x, block, "", stride)), block, "_2")
        shortcut = x if stride == 1 else lib.conv(x, w[f"{block}conv2d_3.w"], None, stride, 0)
        x = lib.relu(y + shortcut)
    return dense(lib, w, "linear", x.mean((1, 2)))


def vit(lib: ModuleType, w: Weights, image: Array, patch: int = 2, heads: int = 4) -> Array:
    batch, side = image.shape[:2]
    count = side // patch
    x = image.reshape(batch, count, patch, count, patch, -1).swapaxes(2, 3).reshape(batch, count * count, -1)
    x = dense(lib, w, "patch", x)
    start = lib.broadcast(w["start"], (batch, 1, x.shape[-1]))
    x = lib.concatenate([start, x], 1) + w["position.table"]
    x = encoder(lib, w, "encoder", x, heads=heads, causal=False, approximate=False, eps=1e-6)
    return dense(lib, w, "head", x[:, 0])


def unet(lib: ModuleType, w: Weights, image: Array) -> Array:
    """U-Net with batch norms, in training: as many levels as there are weights."""

    def double_conv(x: Array, block: str) -> Array:
        for number in ("", "_2"):
            x = lib.conv(x, w[f"{block}.conv2d{number}.w"], None, 1, 1)
            x = lib.relu(lib.batch_norm(x, w, f"{block}.batch_norm{number}.", True))
        return x

    levels = [double_conv(image, "down_1")]
    while f"down_{len(levels) + 1}.conv2d.w" in w:
        levels.append(double_conv(lib.max_pool(levels[-1]), f"down_{len(levels) + 1}"))
    x = levels.pop()
    while levels:
        name = f"up_conv_{len(levels)}"
        up = lib.conv_transpose(x, w[f"{name}.w"], w[f"{name}.b"], 2)
        x = double_conv(lib.concatenate([levels.pop(), up], 3), name.replace("_conv", ""))
    return lib.conv(x, w["conv2d.w"], w["conv2d.b"], 1, 0)


def negative_elbo(lib: ModuleType, w: Weights, image: Array, noise: Array) -> Array:
    """One number for each row."""
    features = mlp(lib, w, "encoder.", image)
    mean, log_var = dense(lib, w, "mean", features), dense(lib, w, "log_var", features)
    logits = mlp(lib, w, "decoder.", mean + lib.exp(0.5 * log_var) * noise)
    divergence = 0.5 * (lib.exp(log_var) + mean * mean - 1 - log_var)
    return lib.binary_cross_entropy(logits, image).sum(-1) + divergence.sum(-1)


def generator(lib: ModuleType, w: Weights, noise: Array) -> Array:
    return lib.sigmoid(mlp(lib, w, "generator.mlp.", noise))


def judged(lib: ModuleType, w: Weights, image: Array, noise: Array) -> Array:
    """The loss of the discriminator."""
    drawn = lib.stop_gradient(generator(lib, w, noise))
    losses: Sequence[Array] = [
        lib.binary_cross_entropy(mlp(lib, w, "judge.", x), target) for x, target in ((image, 0.9), (drawn, 0.0))
    ]
    return (losses[0] + losses[1]).mean()


def fooled(lib: ModuleType, w: Weights, noise: Array) -> Array:
    """The loss of the generator."""
    return lib.binary_cross_entropy(mlp(lib, w, "judge.", generator(lib, w, noise)), 1.0).mean()
