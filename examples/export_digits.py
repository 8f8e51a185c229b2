"""Exports the training of a network on handwritten digits as a page of HTML, which trains it in a browser.

    python examples/export_digits.py digits.html

On the page, `drawing` can be painted, and `recognize` computes what digit it is. A file called digits.c is C instead,
which train_digits.c uses, digits.so a shared library, digits.whl a package of Python (see docs/export.md). Requires
ocannl-export, and for the page the wheel ziglang.
"""

from __future__ import annotations

import sys

from sklearn.datasets import load_digits

import ocannl as oc
from ocannl import nn, train

BATCHES, BATCH = 18, 50


def make() -> dict[str, object]:
    """The arguments of `oc.export`: a training step on batch `n`, and the probabilities of a drawing."""
    digits = load_digits()
    count = BATCHES * BATCH
    pixels = digits.images[:count].astype("uint8").reshape(BATCHES, BATCH, 8, 8)
    images = oc.tensor(pixels, batch_axes=2, label="images")
    labels = oc.tensor(digits.target[:count].astype("uint8").reshape(BATCHES, BATCH), batch_axes=2, label="labels")
    n = oc.symbol("n", 0, BATCHES)
    net = nn.mlp(widths=[32, 10])
    loss = oc.cross_entropy(net(images[n].astype("float32") / 16), labels[n].astype("int32")).mean()
    probabilities = oc.softmax(net(oc.placeholder("drawing", output=[8, 8]))).with_label("probabilities")
    ctx = oc.Context("c")
    ctx.init(loss)
    step = ctx.compile(oc.seq(train.grad_update(loss), train.adam(loss, 0.003)), name="train")
    recognize = ctx.compile(probabilities.forward, name="recognize", keep=probabilities)
    return {"routines": [step, recognize], "init": loss, "name": "digits"}


if __name__ == "__main__":
    path = sys.argv[1] if len(sys.argv) > 1 else "digits.c"
    for file in oc.export(path=path, **make()):
        print(file, file.stat().st_size, "bytes")
