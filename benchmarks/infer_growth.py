"""Scaling of shape inference with the number of operations.

    python benchmarks/infer_growth.py [--sizes 250 1000 4000 20000] [--no-collector]

`relate` is the time to emit and propagate the constraints of one operation, `finish` what deciding the open ones adds,
`project` to derive projections; `asked` is all of relate and finish when every result is asked for its sizes at once.
"""

from __future__ import annotations

import argparse
import gc
import time
from collections.abc import Callable

from ocannl.infer.logic import COMPOSE, Logic, einsum, pointwise
from ocannl.infer.parse import parse
from ocannl.infer.shape import Provenance, Shape, project, relate

Operation = tuple[Logic, tuple[Shape, ...], Shape]
Network = Callable[[int, Callable[[Shape], object]], list[Operation]]


class Graph:
    """Operations in the order they are written."""

    def __init__(self, after: Callable[[Shape], object]) -> None:
        self.operations: list[Operation] = []
        self.after = after

    def apply(self, logic: Logic, *operands: Shape) -> Shape:
        result = relate(logic, operands, None, Provenance("t"))
        self.operations.append((logic, operands, result))
        self.after(result)
        return result


def param(*output: int, name: str = "w") -> Shape:
    return Shape.leaf(Provenance(name, "param"), batch=[], output=output or None, role="param")


def perceptron(count: int, after: Callable[[Shape], object]) -> list[Operation]:
    """relu(w @ x + b) + x; biases and the sizes of inputs are inferred."""
    net = Graph(after)
    x = Shape.leaf(Provenance("x"), batch=[32], input=[], output=[64])
    while len(net.operations) < count:
        h = net.apply(pointwise(2), net.apply(COMPOSE, param(64), x), param(name="b"))
        x = net.apply(pointwise(2), net.apply(pointwise(1), h), x)
    return net.operations


HEADS = einsum(parse("...s|..m..; ..m..->h,d => ...s|h,d"))
SCORES = einsum(parse("...s|h,d; ...t|h,d => ...s|t->h"))
MIX = einsum(parse("...s|t->h; ...t|h,d => ...s|h,d"))
JOIN = einsum(parse("...|h,d; h,d->..m.. => ...|..m.."))
MAXIMUM = einsum(parse("...|...->... => ...|0->..."))


def transformer(count: int, after: Callable[[Shape], object]) -> list[Operation]:
    """Decoder blocks: normalization, attention over heads, two layers of weights."""
    net = Graph(after)
    x = Shape.leaf(Provenance("x"), batch=[8, 128], input=[], output=[512])
    unary, binary = pointwise(1), pointwise(2)
    while len(net.operations) < count:
        n = net.apply(binary, net.apply(binary, x, net.apply(einsum(parse("...|... => ...|0")), x)), param(name="gain"))
        q, k, v = (net.apply(HEADS, n, param(8, 64)) for _ in range(3))
        s = net.apply(SCORES, q, k)
        e = net.apply(unary, net.apply(binary, s, net.apply(MAXIMUM, s)))
        a = net.apply(JOIN, net.apply(MIX, net.apply(binary, e, net.apply(MAXIMUM, e)), v), param(512))
        x = net.apply(binary, x, a)
        h = net.apply(unary, net.apply(binary, net.apply(COMPOSE, param(2048), x), param(name="b")))
        x = net.apply(binary, x, net.apply(binary, net.apply(COMPOSE, param(512), h), param(name="c")))
    return net.operations


def measure(network: Network, count: int) -> tuple[float, float, float, float]:
    """Microseconds of an operation: relate, finish, project, asked."""
    gc.collect()
    start = time.process_time()
    operations = network(count, lambda _: None)
    related = time.process_time()
    for _, _, result in reversed(operations):
        result.dims  # noqa: B018
    finished = time.process_time()
    for logic, operands, result in operations:
        project(logic, operands, result)
    projected = time.process_time()
    n = len(operations)
    del operations
    gc.collect()
    again = time.process_time()
    network(count, lambda result: result.dims)
    done = time.process_time()
    return tuple(1e6 * t / n for t in (related - start, finished - related, projected - finished, done - again))  # type: ignore[return-value]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=[250, 1000, 4000, 20000])
    parser.add_argument("--no-collector", action="store_true", help="without collecting garbage")
    arguments = parser.parse_args()
    if arguments.no_collector:
        gc.disable()
    print(f"{'microseconds per operation':32}{'relate':>9}{'finish':>9}{'project':>9}{'asked':>9}")
    for network in (perceptron, transformer):
        for count in arguments.sizes:
            figures = "".join(f"{t:9.1f}" for t in measure(network, count))
            print(f"{network.__name__:12}{count:7} operations {figures}")


if __name__ == "__main__":
    main()
