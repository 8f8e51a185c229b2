"""Linear regression with a custom optimizer: RMSprop (Hinton 2012) as assignments over nodes.

python examples/linear_regression.py
"""

import numpy as np

import ocannl as oc
from ocannl import train


@oc.cd
def rmsprop(p, *, rate, decay):
    square = oc.node("square")  # one per parameter; initially 0, kept between steps
    square[...] = decay * square + (1 - decay) * p.grad**2
    p -= rate * p.grad / oc.sqrt(square + 1e-8)


def main(points=200, steps=300):
    rng = np.random.default_rng(0)
    xs = rng.uniform(-1, 1, size=(points, 2)).astype("float32")
    ys = xs @ [[3.0], [-2.0]] + 0.5 + rng.normal(scale=0.1, size=(points, 1))

    x = oc.tensor(xs, batch_axes=1, label="x")
    y = oc.tensor(ys.astype("float32"), batch_axes=1, label="y")
    w = oc.param("w", output=[1])
    b = oc.param("b", 0.0)
    loss = ((w @ x + b - y) ** 2).mean()

    update = oc.seq(*(rmsprop(p, rate=0.02, decay=0.9) for p in loss.params.values()))
    ctx = oc.Context()
    ctx.init(loss)
    step = ctx.compile(oc.seq(train.grad_update(loss), update))
    for _ in range(steps):
        step()
    print("w", ctx[w].round(2), "b", ctx[b].round(2), f"loss {ctx[loss]:.4f}")
    return ctx[w], ctx[b]


if __name__ == "__main__":
    main()
