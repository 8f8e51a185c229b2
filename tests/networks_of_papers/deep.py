"""Networks that are deep for their time."""

from __future__ import annotations

import ocannl as oc

from .layers import F, dense, t_dense
from .network import ids, network, uniform
from .twin import torch


@network(seconds=65, learning_rate=0.02, x=uniform(64, 784), y=ids(10, 64))
def highway():
    """A highway network of 50 layers of 50 units (Srivastava, Greff and Schmidhuber 2015), with transform bias -2."""

    @oc.op
    def layer(x):
        gate = oc.sigmoid(dense(x, outputs=50, label="transform") - 2)
        return gate * oc.relu(dense(x, outputs=50)) + (1 - gate) * x

    @oc.op
    def model(x):
        x = oc.relu(dense(x, outputs=50))
        for _ in range(50):
            x = layer(x)
        return dense(x, outputs=10)

    def loss(x, y):
        return oc.cross_entropy(model(x), y).mean()

    def reference(w, x, y):
        w = w("model")
        x = F.relu(t_dense(x, w("dense")))
        for _ in range(50):
            layer = w("layer")
            gate = torch.sigmoid(t_dense(x, layer("transform")) - 2)
            x = gate * F.relu(t_dense(x, layer("dense"))) + (1 - gate) * x
        return F.cross_entropy(t_dense(x, w("dense")), y)

    return loss, reference
