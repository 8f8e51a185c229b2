"""Exports the training of a network on handwritten digits as a page of HTML, which trains it in a browser.

    python examples/export_digits.py digits.html

A file called digits.c is C instead, digits.so a shared library, digits.whl a package of Python (see docs/export.md).
Requires ocannl-export, and for the page the wheel ziglang.
"""

from __future__ import annotations

import sys

from sklearn.datasets import load_digits

import ocannl as oc
from ocannl import nn, train

BATCHES, BATCH = 18, 50


def make() -> dict[str, object]:
    """The arguments of `oc.export`: a training step on batch `n`."""
    digits = load_digits()
    count = BATCHES * BATCH
    pixels = digits.data[:count].astype("uint8").reshape(BATCHES, BATCH, 64)
    images = oc.tensor(pixels, batch_axes=2, label="images")
    labels = oc.tensor(digits.target[:count].astype("uint8").reshape(BATCHES, BATCH), batch_axes=2, label="labels")
    n = oc.symbol("n", 0, BATCHES)
    scores = nn.mlp(images[n].astype("float32") / 16, widths=[32, 10])
    loss = oc.cross_entropy(scores, labels[n].astype("int32")).mean()
    ctx = oc.Context("c")
    ctx.init(loss)
    step = ctx.compile(oc.seq(train.grad_update(loss), train.adam(loss, 0.003)), name="train")
    return {"routines": step, "init": loss}


if __name__ == "__main__":
    path = sys.argv[1] if len(sys.argv) > 1 else "digits.c"
    for file in oc.export(path=path, **make()):
        print(file, file.stat().st_size, "bytes")
