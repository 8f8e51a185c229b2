"""Test programs with the contents of their memory before and after a call."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from ocannl.ir.affine import Affine, Sym
from ocannl.ir.interpret import interpret
from ocannl.ir.loops import AccessMode, Body, Buf, Expr, Load, MemorySpace, Proc, Ref, Store, loop, row_major
from ocannl.ir.precision import Precision, precision
from ocannl.ir.tnode import Role, TNode

Array = np.ndarray[Any, Any]
A = Affine.of


def pool(
    name: str,
    array: Array,
    access: AccessMode = AccessMode.INOUT,
    shape: tuple[int, ...] | None = None,
    strides: tuple[int, ...] | None = None,
) -> Buf:
    """A global buffer for an array; `shape` and `strides` describe how it is indexed."""
    kind, cells = precision(array.dtype), (array.size,)
    node = TNode(name, Role.PLACEHOLDER, lambda: cells, lambda: kind)
    shape = array.shape if shape is None else shape
    return Buf(name, kind, shape, row_major(shape) if strides is None else strides, MemorySpace.GLOBAL, access, node)


def local(name: str, kind: Precision, *shape: int) -> Buf:
    return Buf(name, kind, shape, row_major(shape), MemorySpace.LOCAL, AccessMode.TEMP)


def block(name: str, kind: Precision, offset: int, *shape: int) -> Buf:
    """A temporary in the arena."""
    return Buf(name, kind, shape, row_major(shape), MemorySpace.ARENA, AccessMode.TEMP, offset=offset)


def sym(name: str, extent: int) -> Sym:
    return Sym(name, 0, extent - 1)


def cell(buf: Buf, *at: Affine | Sym | int) -> Ref:
    return Ref(buf, tuple(map(A, at)))


def load(buf: Buf, *at: Affine | Sym | int) -> Load:
    return Load(cell(buf, *at))


@dataclass(frozen=True, eq=False)
class Case:
    """`inputs` are the arrays of the global buffers, in order. `want` are their contents after a call, None if the
    interpreter determines them."""

    proc: Proc
    inputs: tuple[Array, ...]
    values: tuple[int, ...] = ()
    want: tuple[Array, ...] | None = None

    @property
    def pools(self) -> tuple[Buf, ...]:
        return tuple(b for b in self.proc.bufs if b.space is MemorySpace.GLOBAL)

    def expected(self) -> tuple[Array, ...]:
        if self.want is not None:
            return self.want
        arrays = {b.node: a for b, a in zip(self.pools, self.inputs, strict=True) if b.node is not None}
        after = interpret(self.proc, arrays, dict(zip(self.proc.syms, self.values, strict=True)))
        return tuple(after[b.node].reshape(a.shape) for b, a in zip(self.pools, self.inputs, strict=True) if b.node)

    @property
    def precisions(self) -> frozenset[str]:
        """The precisions of its arrays."""
        return frozenset(b.precision.name for b in self.proc.bufs)


def case(name: str, arrays: Iterable[tuple[Buf, Array]], body: Body, **more: Any) -> Case:
    """A program over global buffers; `more` are further arguments of `Proc` and `Case`."""
    bufs, inputs = zip(*arrays, strict=True) if arrays else ((), ())
    temporaries, syms, arena = more.pop("temporaries", ()), more.pop("syms", ()), more.pop("arena", 0)
    return Case(Proc(name, (*bufs, *temporaries), syms, body, arena=arena), inputs, **more)


def elementwise(name: str, inputs: Iterable[Array], result: Array, value: Callable[..., Expr]) -> Case:
    """`y[i] = value(x0[i], x1[i], ...)`, with the expected `result`."""
    inputs = tuple(inputs)
    xs = [pool(f"x{n}", array, AccessMode.IN) for n, array in enumerate(inputs)]
    y = pool("y", result, AccessMode.OUT)
    i = sym("i", prod(result.shape))
    body = (loop(i, (Store(cell(y, i), value(*(load(x, i) for x in xs))),)),)
    return Case(Proc(name, (*xs, y), (), body), (*inputs, np.zeros_like(result)), want=(*inputs, result))
