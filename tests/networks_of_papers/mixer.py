"""Images as sequences of patches."""

from __future__ import annotations

import ocannl as oc

from .layers import F, dense, layer_norm, t_dense, t_layer_norm
from .network import ids, network, normal


@network(seconds=120, learning_rate=0.02, x=normal(2, 224, 224, 3), y=ids(1000, 2))
def mlp_mixer():
    """MLP-Mixer S/16 (Tolstikhin et al. 2021): eight layers, 196 tokens of 512 channels, hidden 256 and 2048."""

    @oc.op
    def mlp(x, *, inner):
        return dense(oc.gelu(dense(x, outputs=inner)), outputs=x.dims[-1])

    def loss(x, y):
        h = dense(oc.einsum("b|(h p),(w q),c => b,(h w)|p,q,c", x, p=16, q=16), outputs=512, label="stem")
        for _ in range(8):
            tokens = mlp(oc.einsum("b,s|c => b,c|s", layer_norm(h)), inner=256, label="tokens")
            h = h + oc.einsum("b,c|s => b,s|c", tokens)
            h = h + mlp(layer_norm(h), inner=2048, label="channels")
        return oc.cross_entropy(dense(layer_norm(h).mean("b,s|c => b|c"), outputs=1000), y).mean()

    def reference(w, x, y):
        def t_mlp(x, w):
            return t_dense(F.gelu(t_dense(x, w("dense")), approximate="tanh"), w("dense"))

        stem = w("stem")
        kernel = stem["w"].permute(0, 3, 1, 2)
        h = F.conv2d(x.permute(0, 3, 1, 2), kernel, stem["b"], stride=16).flatten(2).transpose(1, 2)
        for _ in range(8):
            tokens = t_mlp(t_layer_norm(h, w("layer_norm")).transpose(1, 2), w("tokens"))
            h = h + tokens.transpose(1, 2)
            h = h + t_mlp(t_layer_norm(h, w("layer_norm")), w("channels"))
        return F.cross_entropy(t_dense(t_layer_norm(h, w("layer_norm")).mean(1), w("dense")), y)

    return loss, reference
