"""The test of one backend by `ocannl doctor`: loads it and tests all operations and precisions that it supports.

`ocannl doctor` calls `report` in an isolated process, so that a backend can hang or crash without further harm.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ocannl.backend.registry import open_backend
from ocannl.base.config import settings
from ocannl.base.errors import BackendUnavailable, OcannlError
from ocannl.base.plugins import exception_summary, single_line
from ocannl.ir.affine import Affine, Sym
from ocannl.ir.assign import Assign, Call, Number, Piece, Read, Seq, Value
from ocannl.ir.ops import ADD, ID, MUL, OPS, Domain, Op
from ocannl.ir.precision import PRECISIONS, Family, Precision, float32, uint32
from ocannl.ir.tnode import Role, TNode
from ocannl.runtime.context import Context

INTEGER_DOMAINS = (Domain.INTEGER, Domain.WORD)
CELLS = 32
Array = np.ndarray[Any, Any]
Probe = tuple[str, Assign, Array]  # the tested feature, code that uses it, and the expected value of its left side


class ProbePrograms:
    """Small programs over a positive, a signed and an integer array, with distinct left sides."""

    def __init__(self) -> None:
        positive = np.arange(CELLS, 0, -1, dtype=np.float32) / 8
        signed = np.arange(-CELLS // 2, CELLS // 2, dtype=np.float32) / 8
        self.operands = (_node("p", CELLS), positive), (_node("s", CELLS), signed)
        self.integers = _node("n", CELLS, precision=uint32), np.arange(CELLS, dtype=np.uint32)
        self.arrays = dict((*self.operands, self.integers))

    def all(self, precisions: frozenset[str]) -> Iterator[Probe]:
        yield from self._product()
        for op in OPS:
            if op.domain not in INTEGER_DOMAINS:
                yield self._operation(op)
            elif uint32.name in precisions:
                yield self._on_integers(op)
        for precision in PRECISIONS:
            if precision.name in precisions:
                yield from self._precision(precision)

    def _product(self) -> Iterator[Probe]:
        """y[i] = sum over k of w[i, k] * x[k] + 1."""
        w, x, y = _node("w", 3, 4), _node("x", 4), _node("y", 3)
        self.arrays |= {w: (a := np.arange(12.0).reshape(3, 4)), x: (b := np.arange(4.0))}
        i, k = Sym("i", 0, 2), Sym("k", 0, 3)
        at = Affine.of
        product = Call(MUL, (Read(w, (at(i), at(k))), Read(x, (at(k),))))
        yield "a product", Assign(y, ADD, True, (Piece((i, k), (at(i),), product),)), a @ b
        z = _node("z", 3)
        yield "a sum", _pointwise(z, ADD, y, 1), a @ b + 1

    def _operation(self, op: Op) -> Probe:
        first = 0 if op.arity > 1 or op.domain is Domain.FLOAT else 1
        nodes, arrays = zip(*(self.operands[(first + n) % 2] for n in range(op.arity)), strict=True)
        return f"operation `{op.name}`", _pointwise(_node(op.name, CELLS), op, *nodes), op.numpy(*arrays)

    def _on_integers(self, op: Op) -> Probe:
        (node, array), target = self.integers, _node(op.name, CELLS, precision=uint32)
        return f"operation `{op.name}`", _pointwise(target, op, *[node] * op.arity), op.numpy(*[array] * op.arity)

    def _precision(self, kind: Precision) -> Iterator[Probe]:
        """Conversion to the precision and back, and a square computed in it."""
        (p, positive), feature = self.operands[0], f"precision `{kind.name}`"
        into, back, square = (
            _node(f"{kind.name}_{n}", CELLS, precision=k) for n, k in enumerate((kind, float32, kind))
        )
        rounded = positive.astype(kind.numpy)
        yield feature, _pointwise(into, ID, p), rounded
        yield feature, _pointwise(back, ID, into), rounded.astype(np.float32)
        if kind.family is not Family.BOOL:
            wide = rounded.astype(kind.arithmetic.numpy)
            yield feature, _pointwise(square, MUL, into, into), (wide * wide).astype(kind.numpy)


def _node(label: str, *dims: int, precision: Precision = float32) -> TNode:
    return TNode(label, Role.PLACEHOLDER, lambda: dims, lambda: precision)


def _pointwise(target: TNode, op: Op, *operands: TNode | int) -> Assign:
    i = Sym("i", 0, target.dims[0] - 1)
    at = (Affine.of(i),)
    values: tuple[Value, ...] = tuple(Number(o) if isinstance(o, int) else Read(o, at) for o in operands)
    return Assign(target, None, True, (Piece((i,), at, Call(op, values)),))


def probe_backend(name: str) -> str:
    """Tests a backend and returns a one-line summary. Raises: OcannlError for the first wrong result."""
    open_backend(name).capabilities  # noqa: B018 (measures the processor, unless that is kept in the cache)
    with settings(cache=False, on_defect="raise"):  # so that the compiler itself is tested
        context = Context(name)
        precisions = context.backend.capabilities.precisions
        if unknown := sorted(precisions - {p.name for p in PRECISIONS}):
            raise OcannlError(f"it claims the precision `{unknown[0]}`, which does not exist")
        programs = ProbePrograms()
        with np.errstate(all="ignore"):
            probes = list(programs.all(precisions))
        for node, array in programs.arrays.items():
            context.set(node, array)
        outputs = {assign.lhs: "the result of a probe" for _, assign, _ in probes}
        context.compile_comp(Seq(tuple(assign for _, assign, _ in probes)), outputs, name="probe")()
        for feature, assign, expected in probes:
            _compare(feature, context.get(assign.lhs), expected)
    return f"works: {len(OPS)} operations, {len(precisions)} precisions ({context.backend.version})"


def _compare(feature: str, result: Array, expected: Array) -> None:
    result, expected = result.astype(np.float64), expected.astype(np.float64)
    wrong = ~np.isclose(result, expected, 1e-5, 1e-6, equal_nan=True)
    if wrong.any():
        raise OcannlError(f"{feature} is incorrect: {result[wrong][0]:g} instead of {expected[wrong][0]:g}")


def report(name: str) -> dict[str, object]:
    """Returns the verdict: whether the backend works, the reason in one line, and whether it reports that it cannot
    work on this machine."""
    works, unavailable = False, False
    try:
        reason, works = probe_backend(name), True
    except OcannlError as error:
        reason, unavailable = single_line(str(error)), isinstance(error, BackendUnavailable)
    except Exception as error:  # whatever a backend of any distribution raises is reported in one line
        reason = exception_summary(error)
    return {"works": works, "reason": reason, "is_unavailable": unavailable}
