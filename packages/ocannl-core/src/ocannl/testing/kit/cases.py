"""Hand-written programs with the memory they are given, and what that memory holds after a call."""

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
    """A pool buffer whose memory is that of the array; `shape` and `strides` say how it is indexed."""
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
    """`given` is the memory of each pool buffer, in order. `want` is what it holds afterwards, None where that is the
    interpreter's to say."""

    proc: Proc
    given: tuple[Array, ...]
    values: tuple[int, ...] = ()
    want: tuple[Array, ...] | None = None

    @property
    def pools(self) -> tuple[Buf, ...]:
        return tuple(b for b in self.proc.bufs if b.space is MemorySpace.GLOBAL)

    def wanted(self) -> tuple[Array, ...]:
        if self.want is not None:
            return self.want
        arrays = {b.node: a for b, a in zip(self.pools, self.given, strict=True) if b.node is not None}
        after = interpret(self.proc, arrays, dict(zip(self.proc.syms, self.values, strict=True)))
        return tuple(after[b.node].reshape(a.shape) for b, a in zip(self.pools, self.given, strict=True) if b.node)

    @property
    def precisions(self) -> frozenset[str]:
        """Those of its arrays."""
        return frozenset(b.precision.name for b in self.proc.bufs)


def case(name: str, arrays: Iterable[tuple[Buf, Array]], body: Body, **more: Any) -> Case:
    """A program over pool buffers; `more` are further arguments of `Proc` and `Case`."""
    bufs, given = zip(*arrays, strict=True) if arrays else ((), ())
    temporaries, syms, arena = more.pop("temporaries", ()), more.pop("syms", ()), more.pop("arena", 0)
    return Case(Proc(name, (*bufs, *temporaries), syms, body, arena=arena), given, **more)


def elementwise(name: str, given: Iterable[Array], result: Array, value: Callable[..., Expr]) -> Case:
    """`y[i] = value(x0[i], x1[i], ...)`; what `y` holds afterwards is `result`."""
    given = tuple(given)
    xs = [pool(f"x{n}", array, AccessMode.IN) for n, array in enumerate(given)]
    y = pool("y", result, AccessMode.OUT)
    i = sym("i", prod(result.shape))
    body = (loop(i, (Store(cell(y, i), value(*(load(x, i) for x in xs))),)),)
    return Case(Proc(name, (*xs, y), (), body), (*given, np.zeros_like(result)), want=(*given, result))
