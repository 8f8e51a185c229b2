"""The example of the micrograd README (Karpathy 2020): an expression of two numbers, and its gradients.

python examples/micrograd.py
"""

import ocannl as oc
from ocannl import train


@oc.op
def micrograd():
    a = oc.param(init=[-4.0])
    b = oc.param(init=[2.0])
    c = a + b
    d = a * b + b**3
    c = c + c + 1
    c = c + 1 + c - a
    d = d + d * 2 + oc.relu(b + a)
    d = d + 3 * d + oc.relu(b - a)
    e = c - d
    f = e**2
    g = f / 2
    return g + 10.0 / f


def main():
    g = micrograd()
    a, b = g.params["a"], g.params["b"]
    ctx = oc.Context()
    ctx.init(g)
    ctx.run(train.grad_update(g))
    figures = {"g": ctx[g], "dg/da": ctx[a.grad], "dg/db": ctx[b.grad]}
    for name, (value,) in figures.items():
        print(f"{name:<5} {value:.4f}")
    return figures


if __name__ == "__main__":
    main()
