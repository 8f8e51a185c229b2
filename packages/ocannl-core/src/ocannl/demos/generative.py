"""Handwritten digits that nobody wrote: a variational autoencoder, and a pair of adversarial networks."""

from __future__ import annotations

from functools import partial
from math import prod
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from ocannl import nn, train
from ocannl.demos.digits import SIDE, load
from ocannl.demos.report import Report, timing
from ocannl.lang.api import Block, Tensor, op, seq, tensor
from ocannl.lang.ops.functions import binary_cross_entropy, exp, normal, sigmoid, stop_gradient
from ocannl.runtime.context import Context
from ocannl.runtime.evaluate import evaluate
from ocannl.show import image_grid, page, save

Array = np.ndarray[Any, Any]

BATCH, HIDDEN, PIXELS = 50, 128, SIDE * SIDE
LATENT, NOISE = 8, 16  # variables of the autoencoder, and of the generator
VAE_RATE, GAN_RATE, GAN_BETAS = 2e-3, 1e-3, (0.5, 0.999)
SHOWN, COLUMNS = 40, 8  # digits in the picture
MAX_NEGATIVE_ELBO = 27.0  # nats for each digit; 44 if every pixel is predicted as 1/2
MAX_DISTANCE = 0.2  # of the means of pixels, which are from 0 to 1


# --- variational autoencoder ------------------------------------------------------------------------------------------


def negative_elbo(output: tuple[Tensor, Tensor, Tensor], image: Tensor) -> Tensor:
    """The reconstruction error and the divergence from normal variables, for each image, in nats (Kingma, Welling
    2014)."""
    logits, mean, log_var = output
    error: Tensor = binary_cross_entropy(logits, image)
    divergence: Tensor = 0.5 * (exp(log_var) + mean * mean - 1 - log_var)
    return error.sum("...|... => ...|") + divergence.sum("...|... => ...|")


def run_vae(ctx: Context, *, epochs: int, seed: int) -> Report:
    """Raises: ImportError without scikit-learn."""
    digits = load(seed)
    data = train.batches({"image": digits.train.images}, BATCH, shuffle=seed)
    (image,) = data.placeholders
    decoder = nn.mlp(widths=[HIDDEN, PIXELS], label="decoder")
    model = nn.vae(latent=LATENT, encoder=nn.mlp(widths=[HIDDEN], label="encoder"), decoder=decoder, label="vae")
    fitted = train.fit(
        lambda x: (model(x), x), loss=lambda output: negative_elbo(*output), optimizer=_adam, data=data, ctx=ctx,
        epochs=epochs, show=False,
    )  # fmt: skip
    elbo = train.average(negative_elbo(model(image), image))
    score = train.evaluate(ctx, {"elbo": elbo}, data.of({"image": digits.test.images}))["elbo"]
    cells = sum(prod(p.dims) for p in model.params.values())
    lines = {
        "network": f"vae, {cells} parameters, {len(fitted.losses)} steps of {BATCH} digits",
        "negative ELBO": f"{score:.2f} nats for each of {len(digits.test)} digits, without noise",
    }
    draw = partial(_draw, lambda z: sigmoid(decoder(z)), LATENT, ctx, seed)
    return Report(-score, -MAX_NEGATIVE_ELBO, lines | timing(fitted), draw)


def _adam(loss: Tensor) -> Any:
    return train.adam(loss, VAE_RATE)


# --- adversarial networks ---------------------------------------------------------------------------------------------


@op
def generator(z: Tensor) -> Tensor:
    return sigmoid(nn.mlp(z, widths=[HIDDEN, PIXELS], label="mlp"))


def adversarial_losses(judge: Block, image: Tensor, drawn: Tensor) -> tuple[Tensor, Tensor]:
    """The loss of the discriminator, with smoothed labels of real images, and that of the generator (Goodfellow et al.
    2014; Salimans et al. 2016)."""
    right = binary_cross_entropy(judge(image), 0.9) + binary_cross_entropy(judge(stop_gradient(drawn)), 0.0)
    return right.mean(), binary_cross_entropy(judge(drawn), 1.0).mean()


def run_gan(ctx: Context, *, epochs: int, seed: int) -> Report:
    """One routine trains both networks: the discriminator on images of both kinds, then the generator on what the
    discriminator says (Goodfellow et al. 2014). Raises: ImportError without scikit-learn."""
    digits = load(seed)
    data = train.batches({"image": digits.train.images}, BATCH, shuffle=seed, partial="drop")
    (image,) = data.placeholders
    generate, judge = generator(label="generator"), nn.mlp(widths=[HIDDEN, 1], rate=0.3, label="judge")
    drawn = generate(normal(batch=[BATCH], output=[NOISE], key="noise"))
    judged, fooled = adversarial_losses(judge, image, drawn)
    ctx.init(fooled, seed=seed)
    step = ctx.compile(
        seq(
            train.grad_update(judged), train.adam(judged, GAN_RATE, betas=GAN_BETAS, params=judge),
            train.grad_update(fooled), train.adam(fooled, GAN_RATE, betas=GAN_BETAS, params=generate),
        )
    )  # fmt: skip
    count, start = 0, perf_counter()
    for _ in range(epochs):
        for batch in data:
            ctx[image] = batch[image]
            step()
            count += 1
    seconds = (perf_counter() - start) / count
    fake = evaluate(generate(_noise(1000, NOISE, seed)), ctx=ctx)
    score = float(np.abs(fake.mean(0) - digits.test.images.mean(0)).max())
    lines = {
        "network": f"generator {NOISE}-{HIDDEN}-{PIXELS}, judge {PIXELS}-{HIDDEN}-1, {count} steps of {BATCH} digits",
        "distance": f"{score:.4f} between the mean digits of the generator and of the test set",
        "time per step": f"{seconds * 1e3:.3f} ms, {1 / seconds:.0f} steps/s",
    }
    return Report(-score, -MAX_DISTANCE, lines, partial(_draw, generate, NOISE, ctx, seed))


# --- pictures ---------------------------------------------------------------------------------------------------------


def _noise(count: int, size: int, seed: int) -> Tensor:
    return tensor(np.random.default_rng(seed).normal(size=(count, size)).astype("float32"), batch_axes=1)


def _draw(decode: Any, size: int, ctx: Context, seed: int, path: Path) -> Path:
    images = evaluate(decode(_noise(SHOWN, size, seed)), ctx=ctx).reshape(-1, SIDE, SIDE)
    figure = page(6, 4)
    image_grid(figure, list(images), [""] * SHOWN, [False] * SHOWN, COLUMNS)
    return save(figure, path)
