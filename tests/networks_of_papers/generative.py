"""Generative models."""

from __future__ import annotations

import ocannl as oc

from .compare import bits, network, normal, torch
from .layers import F, dense, t_dense


@network(seconds=20, learning_rate=1e-4, x=bits(100, 784, probability=0.2), noise=normal(100, 20))
def vae():
    """The variational autoencoder of Kingma and Welling 2014 for MNIST: 500 hidden units, 20 latent variables."""

    @oc.op
    def encoder(x):
        h = oc.tanh(dense(x, outputs=500))
        return dense(h, outputs=20, label="mean"), dense(h, outputs=20, label="log_variance")

    @oc.op
    def decoder(z):
        return dense(oc.tanh(dense(z, outputs=500)), outputs=784)

    def loss(x, noise):
        mean, log_variance = encoder(x)
        logits = decoder(mean + oc.exp(log_variance / 2) * noise)
        likelihood = (x * logits - oc.softplus(logits)).sum("b|d => b|")
        divergence = 0.5 * (mean**2 + oc.exp(log_variance) - log_variance - 1).sum("b|d => b|")
        return (divergence - likelihood).mean()

    def reference(w, x, noise):
        e, d = w("encoder"), w("decoder")
        h = torch.tanh(t_dense(x, e("dense")))
        mean, log_variance = t_dense(h, e("mean")), t_dense(h, e("log_variance"))
        posterior = torch.distributions.Normal(mean, torch.exp(log_variance / 2))
        z = posterior.loc + posterior.scale * noise
        logits = t_dense(torch.tanh(t_dense(z, d("dense"))), d("dense"))
        prior = torch.distributions.Normal(torch.zeros_like(mean), torch.ones_like(mean))
        divergence = torch.distributions.kl_divergence(posterior, prior).sum(1)
        return (F.binary_cross_entropy_with_logits(logits, x, reduction="none").sum(1) + divergence).mean()

    return loss, reference
