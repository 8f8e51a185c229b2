"""Generative models."""

from __future__ import annotations

import ocannl as oc

from .layers import F, batch_norm, dense, he, t_batch_norm, t_dense
from .network import bits, network, normal
from .twin import torch


@network(seconds=18, learning_rate=1e-4, x=bits(100, 784, probability=0.2), noise=normal(100, 20))
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


@network(seconds=313, learning_rate=0.002, x=normal(8, 64, 64, 3, std=0.5), z=normal(8, 100))
def dcgan():
    """Generator and discriminator of Radford, Metz and Chintala 2016 for 64x64 images, both learning the same loss."""

    @oc.op
    def generator(z):
        w = oc.param(he(100), o=[4, 4, 1024])
        h = oc.relu(batch_norm(w @ z))
        for channels in 512, 256, 128, 3:
            kernel = oc.param(f"kernel_{channels}", oc.normal(std=0.02), o=[5, 5, h.dims[-1], channels])
            h = oc.conv_transpose2d(h, kernel, stride=2, padding="same")
            h = oc.relu(batch_norm(h)) if channels > 3 else oc.tanh(h)
        return h

    @oc.op
    def discriminator(x):
        for channels in 128, 256, 512, 1024:
            kernel = oc.param(f"kernel_{channels}", oc.normal(std=0.02), o=[5, 5, x.dims[-1], channels])
            x = oc.conv2d(x, kernel, stride=2, padding="same")
            x = oc.leaky_relu(batch_norm(x) if channels > 128 else x, slope=0.2)
        return dense(x, outputs=1)

    def loss(x, z):
        critic = discriminator(label="critic")
        return oc.softplus(-critic(x)).mean() + oc.softplus(critic(generator(z))).mean()

    def reference(w, x, z):
        def t_generator(z, w):
            h = torch.einsum("hwcz,bz->bchw", w["w"], z)
            h = F.relu(t_batch_norm(h, w("batch_norm")))
            for channels in 512, 256, 128, 3:
                kernel = w[f"kernel_{channels}"].permute(2, 3, 0, 1)
                h = F.conv_transpose2d(h, kernel, stride=2, padding=2, output_padding=1)
                h = F.relu(t_batch_norm(h, w("batch_norm"))) if channels > 3 else torch.tanh(h)
            return h

        def t_discriminator(x, w):
            for channels in 128, 256, 512, 1024:
                x = F.conv2d(x, w[f"kernel_{channels}"].permute(3, 2, 0, 1), stride=2, padding=2)
                x = F.leaky_relu(t_batch_norm(x, w("batch_norm")) if channels > 128 else x, 0.2)
            return t_dense(x.permute(0, 2, 3, 1).flatten(1), w("dense"))

        real = t_discriminator(x.permute(0, 3, 1, 2), w.block("critic"))
        fake = t_discriminator(t_generator(z, w("generator")), w.block("critic"))
        return F.softplus(-real).mean() + F.softplus(fake).mean()

    return loss, reference
