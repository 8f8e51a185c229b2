"""Variational autoencoders."""

from __future__ import annotations

from collections.abc import Callable

from ocannl.lang import api as oc
from ocannl.lang.api import Tensor
from ocannl.nn.layer import layer
from ocannl.nn.linear import linear


@layer
def vae(
    x: Tensor, noise: Tensor | None = None, *, latent: int, encoder: Callable[[Tensor], Tensor],
    decoder: Callable[[Tensor], Tensor],
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """A variational autoencoder: what `decoder` makes of a sample of `latent` normal variables, and their mean and the
    logarithm of their variance, both linear in what `encoder` makes of `x`.

    `noise` is drawn in training, and zero in inference, unless it is given.

    Init:   that of `nn.linear`.
    Source: Kingma, Welling 2014.
    """
    features = encoder(x)
    mean = linear(features, width=latent, label="mean")
    log_var = linear(features, width=latent, label="log_var")
    if noise is None:
        noise = oc.normal() if oc.is_training() else oc.full(0.0)
    return decoder(mean + oc.exp(0.5 * log_var) * noise), mean, log_var


