"""Gives an imported network a new head and fine-tunes it: an ONNX model that finds upside-down text learns digits.

The network is the smallest one of rapidocr, a MobileNetV3 with 129 000 weights. Its dense layer is replaced, and all
weights are trained on the handwritten digits of scikit-learn.

pip install --no-deps rapidocr && pip install scikit-learn && python examples/fine_tune_onnx.py
"""

import numpy as np
from shipped_models import file_of

import ocannl as oc
from ocannl import nn, train
from ocannl.demos import digits

FEATURES = "reshape2_0.tmp_0"  # the operand of the dense layer that is replaced
ZOOM = 6  # pixels of the network for a pixel of a digit
BATCH = 50


@oc.op
def classifier(pictures, *, network):
    """`b|3,h,w => b|10`."""
    original = oc.graph(network(oc.einsum("b|c, h, w => |b, c, h, w", pictures)))
    features = oc.einsum("|b, c => b|c", original[FEATURES].tensor)
    return nn.linear(features, width=digits.CLASSES, label="head")


def pictures_of(split):
    """Digits as the network expects pictures: 48 x 48, of three equal channels, from -1 to 1."""
    pixels = split.images.reshape(-1, digits.SIDE, digits.SIDE).repeat(ZOOM, 1).repeat(ZOOM, 2)
    return np.stack(3 * [2 * pixels - 1], 1)


def fine_tune(network, ctx=None, epochs=4, count=digits.TRAIN_SIZE, seed=0):
    """Trains a new head and the network below. Returns the training, whose metrics are of the validation set."""
    data = digits.load(seed)
    rows = {"pictures": pictures_of(data.train)[:count], "label": data.train.labels[:count].astype("int32")}
    validation = {"pictures": pictures_of(data.validation), "label": data.validation.labels.astype("int32")}
    batches = train.batches(rows, BATCH, shuffle=seed)
    return train.fit(
        classifier(network=network, label="digits"), oc.cross_entropy, lambda loss: train.adam(loss, 1e-3), batches,
        ctx=oc.Context() if ctx is None else ctx, epochs=epochs, validation=batches.of(validation),
        metrics={"accuracy": train.accuracy}, show=False,
    )  # fmt: skip


def main(epochs=4):
    network = oc.onnx.load(file_of("rapidocr", "models", "ch_ppocr_mobile_v2.0_cls_mobile.onnx"))
    fitted = fine_tune(network, epochs=epochs)
    for epoch, watched in enumerate(fitted.watched, 1):
        print(f"epoch {epoch}: accuracy {watched['accuracy']:.3f}")
    print(f"loss {fitted.losses[0]:.3f} to {fitted.losses[-1]:.3f}, {fitted.step_seconds * 1e3:.0f} ms per step")
    return fitted


if __name__ == "__main__":
    main()
