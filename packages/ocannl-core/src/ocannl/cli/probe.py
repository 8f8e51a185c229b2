"""`python -m ocannl.cli.probe NAME`: loads one backend, and holds it to each operation and precision that it claims.

A process of its own for `ocannl doctor`: a backend that hangs or crashes takes nothing else with it. The last line that
it prints is the verdict; status 0 means that the backend works.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import numpy as np

from ocannl.backend.registry import open_backend
from ocannl.base.config import settings
from ocannl.base.errors import BackendUnavailable, OcannlError
from ocannl.base.plugins import words
from ocannl.ir.assign import Apply, Assign, Number, Piece, Read, Seq, Value
from ocannl.ir.index import Affine, Sym
from ocannl.ir.ops import ADD, ID, MUL, OPS, Domain, Op
from ocannl.ir.precision import PRECISIONS, Family, Precision, float32, uint32
from ocannl.ir.tnode import Role, TNode
from ocannl.runtime.context import Context

UNAVAILABLE = 3  # the status when the backend itself says that it cannot work here
ON_INTEGERS = (Domain.INTEGER, Domain.WORD)
CELLS = 32
Array = np.ndarray[Any, Any]
Claim = tuple[str, Assign, Array]  # what is claimed, code that relies on it, and what its left side then holds


class Claims:
    """Small programs over two arrays, one of them positive; each of the programs has a left side of its own."""

    def __init__(self) -> None:
        positive = np.arange(CELLS, 0, -1, dtype=np.float32) / 8
        signed = np.arange(-CELLS // 2, CELLS // 2, dtype=np.float32) / 8
        self.operands = (_node("p", CELLS), positive), (_node("s", CELLS), signed)
        self.words = _node("n", CELLS, precision=uint32), np.arange(CELLS, dtype=np.uint32)
        self.given = dict((*self.operands, self.words))

    def all(self, precisions: frozenset[str]) -> Iterator[Claim]:
        yield from self._product()
        for op in OPS:
            if op.domain not in ON_INTEGERS:
                yield self._operation(op)
            elif uint32.name in precisions:
                yield self._on_integers(op)
        for precision in PRECISIONS:
            if precision.name in precisions:
                yield from self._precision(precision)

    def _product(self) -> Iterator[Claim]:
        """y[i] = sum over k of w[i, k] * x[k] + 1."""
        w, x, y = _node("w", 3, 4), _node("x", 4), _node("y", 3)
        self.given |= {w: (a := np.arange(12.0).reshape(3, 4)), x: (b := np.arange(4.0))}
        i, k = Sym("i", 0, 2), Sym("k", 0, 3)
        at = Affine.of
        product = Apply(MUL, (Read(w, (at(i), at(k))), Read(x, (at(k),))))
        yield "a product", Assign(y, ADD, True, (Piece((i, k), (at(i),), product),)), a @ b
        z = _node("z", 3)
        yield "a sum", _pointwise(z, ADD, y, 1), a @ b + 1

    def _operation(self, op: Op) -> Claim:
        first = 0 if op.arity > 1 or op.domain is Domain.FLOAT else 1
        nodes, arrays = zip(*(self.operands[(first + n) % 2] for n in range(op.arity)), strict=True)
        return f"operation `{op.name}`", _pointwise(_node(op.name, CELLS), op, *nodes), op.numpy(*arrays)

    def _on_integers(self, op: Op) -> Claim:
        (node, array), target = self.words, _node(op.name, CELLS, precision=uint32)
        return f"operation `{op.name}`", _pointwise(target, op, *[node] * op.arity), op.numpy(*[array] * op.arity)

    def _precision(self, kind: Precision) -> Iterator[Claim]:
        """Into the precision, a square there, and back."""
        (p, positive), what = self.operands[0], f"precision `{kind.name}`"
        into, back, square = (
            _node(f"{kind.name}_{n}", CELLS, precision=k) for n, k in enumerate((kind, float32, kind))
        )
        rounded = positive.astype(kind.numpy)
        yield what, _pointwise(into, ID, p), rounded
        yield what, _pointwise(back, ID, into), rounded.astype(np.float32)
        if kind.family is not Family.BOOL:
            wide = rounded.astype(kind.arithmetic.numpy)
            yield what, _pointwise(square, MUL, into, into), (wide * wide).astype(kind.numpy)


def _node(label: str, *dims: int, precision: Precision = float32) -> TNode:
    return TNode(label, Role.PLACEHOLDER, lambda: dims, lambda: precision)


def _pointwise(target: TNode, op: Op, *operands: TNode | int) -> Assign:
    i = Sym("i", 0, target.dims[0] - 1)
    at = (Affine.of(i),)
    values: tuple[Value, ...] = tuple(Number(o) if isinstance(o, int) else Read(o, at) for o in operands)
    return Assign(target, None, True, (Piece((i,), at, Apply(op, values)),))


def try_out(name: str) -> str:
    """Raises what is wrong; else says what was found."""
    open_backend(name)
    with settings(cache=False):  # what is looked at is the compiler
        context = Context(name)
        precisions = context.backend.capabilities.precisions
        if unknown := sorted(precisions - {p.name for p in PRECISIONS}):
            raise OcannlError(f"it claims precision `{unknown[0]}`, which does not exist")
        claims = Claims()
        with np.errstate(all="ignore"):
            wanted = list(claims.all(precisions))
        for node, array in claims.given.items():
            context.set(node, array)
        left = {assign.lhs: "the result of a probe" for _, assign, _ in wanted}
        context.compile_comp(Seq(tuple(assign for _, assign, _ in wanted)), left, name="probe")()
        for what, assign, right in wanted:
            _compare(what, context.get(assign.lhs), right)
    return f"works: {len(OPS)} operations, {len(precisions)} precisions ({context.backend.version})"


def _compare(what: str, found: Array, right: Array) -> None:
    one, other = found.astype(np.float64), right.astype(np.float64)
    wrong = ~np.isclose(one, other, 1e-5, 1e-6, equal_nan=True)
    if wrong.any():
        raise OcannlError(f"it gets {what} wrong: {one[wrong][0]:g} instead of {other[wrong][0]:g}")


def main(name: str) -> int:
    try:
        print(try_out(name))
    except OcannlError as wrong:
        print(" ".join(str(wrong).split()))
        return UNAVAILABLE if isinstance(wrong, BackendUnavailable) else 1
    except Exception as wrong:
        print(words(wrong))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
