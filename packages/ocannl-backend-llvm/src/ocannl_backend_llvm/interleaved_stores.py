"""Stores of a vectorized loop to adjacent cells of each iteration, such as the components of vectors.

    vectorized for i in 0..16:
      y[i, 0] = a[i]                  three stores of 16 adjacent cells each, instead of three scatters
      y[i, 1] = b[i]
      y[i, 2] = c[i]
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ocannl.ir.accesses import alias_class
from ocannl.ir.affine import Affine, Sym
from ocannl.ir.loops import Body, Load, Stmt, Store
from ocannl.ir.walk import walk
from ocannl_backend_llvm.builder import Builder

MAX_COMPONENTS = 4  # n (n - 1) shuffles replace n scatters


def split_at_runs(body: Body, sym: Sym) -> Iterator[Stmt | tuple[Store, ...]]:
    """The statements in order; stores that fill one interval over all iterations of the loop come as one tuple."""
    at = 0
    while at < len(body):
        stmt = body[at]
        run = _run_at(stmt, body[at : at + MAX_COMPONENTS], sym) if isinstance(stmt, Store) else ()
        yield run or stmt
        at += len(run) or 1


def _run_at(first: Store, body: Body, sym: Sym) -> tuple[Store, ...]:
    """The stores to the interval that starts at the cell of the first one, if none reads it; otherwise nothing."""
    stride, alias = first.ref.stride(sym), alias_class(first.ref.buf)
    if not 2 <= stride <= MAX_COMPONENTS:
        return ()
    run = tuple([
        stmt
        for n, stmt in enumerate(body[:stride])
        if isinstance(stmt, Store)
        and stmt.ref.buf is first.ref.buf
        and stmt.ref.address - first.ref.address == Affine((), n)
        and all(alias_class(node.ref.buf) is not alias for node in walk(stmt.value) if isinstance(node, Load))
    ])
    return run if len(run) == stride else ()


def interleave(b: Builder, type_: str, width: int, vectors: Sequence[str]) -> list[str]:
    """The elements of vectors of `width` elements in turn, as equally many vectors."""
    vector, count = f"<{width} x {type_}>", len(vectors)
    results = []
    for first in range(0, count * width, width):
        elements = [divmod(n, count) for n in range(first, first + width)]  # lanes, each with the number of its vector
        result = vectors[0]
        for number in range(1, count):  # the first shuffle places two vectors, each later one another vector
            lanes = [
                width + lane if source == number else lane if number == 1 else position
                for position, (lane, source) in enumerate(elements)
            ]
            mask = ", ".join(f"i32 {lane}" for lane in lanes)
            result = b.assign(f"shufflevector {vector} {result}, {vector} {vectors[number]}, <{width} x i32> <{mask}>")
        results.append(result)
    return results
