"""Classifies handwritten digits with a network of two layers, without the command line.

pip install "ocannl-core[demo]" && python examples/digits.py
"""

import numpy as np
from sklearn.datasets import load_digits

import ocannl as oc
from ocannl import train


@oc.op
def mlp(x, *, hidden, classes):
    w1 = oc.param()  # label: the name of the variable; shape: inferred
    b1 = oc.param(0.0, o=[hidden])
    w2 = oc.param()
    b2 = oc.param(0.0, o=[classes])
    return w2 @ oc.relu(w1 @ x + b1) + b2


def main(epochs=30, batch=50, hidden=64):
    images, labels = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(labels))
    images, labels = (images[order] / 16).astype("float32"), labels[order]
    train_size = 1500 // batch * batch
    xs = images[:train_size].reshape(-1, batch, 64)
    ts = np.eye(10, dtype="float32")[labels[:train_size]].reshape(-1, batch, 10)

    n = oc.symbol("n", 0, len(xs))  # index of the batch, an argument of the compiled step
    x = oc.tensor(xs, batch_axes=2, label="x")[n]
    t = oc.tensor(ts, batch_axes=2, label="t")[n]
    net = mlp(hidden=hidden, classes=10)
    logits = net(x)
    shifted = logits - logits.max("...|... => ...|0")
    log_sum = oc.log(oc.exp(shifted).sum("...|... => ...|0"))
    loss = ((log_sum - shifted) * t).sum() / batch

    ctx = oc.Context()
    fitted = train.fit(ctx, loss, train.sgd(loss, 0.1, momentum=0.9), n, epochs=epochs, shuffle=0)

    test = net(oc.tensor(images[1500:], batch_axes=1, label="test"))
    ctx.run(test.forward)
    accuracy = np.mean(ctx[test].argmax(axis=1) == labels[1500:])
    print(f"{ctx.backend.name}: accuracy {accuracy:.3f}, {fitted.step_seconds * 1e3:.2f} ms per step")
    return accuracy


if __name__ == "__main__":
    main()
