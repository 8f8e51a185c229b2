"""`python -m ocannl.cli.probe NAME`: loads one backend, compiles a tiny program with it, runs it, looks at the result.

A process of its own for `ocannl doctor`: a backend that hangs or crashes takes nothing else with it. The last line that
it prints is the verdict; status 0 means that the backend works.
"""

from __future__ import annotations

import sys

import numpy as np

from ocannl.base.config import settings
from ocannl.base.errors import BackendUnavailable, OcannlError
from ocannl.ir.assign import Apply, Assign, Number, Piece, Read, Seq
from ocannl.ir.index import Affine, Sym
from ocannl.ir.ops import ADD, MUL
from ocannl.ir.precision import float32
from ocannl.ir.tnode import Role, TNode
from ocannl.runtime.context import Context

UNAVAILABLE = 3  # the status when the backend itself says that it cannot work here


def program() -> tuple[TNode, TNode, TNode, Seq]:
    """y[i] = sum over k of w[i, k] * x[k] + 1."""
    w, x, y = _node("w", 3, 4), _node("x", 4), _node("y", 3)
    i, k, j = Sym("i", 0, 2), Sym("k", 0, 3), Sym("j", 0, 2)
    at = Affine.of
    product = Apply(MUL, (Read(w, (at(i), at(k))), Read(x, (at(k),))))
    sums = Assign(y, ADD, True, (Piece((i, k), (at(i),), product),))
    plus = Assign(y, None, False, (Piece((j,), (at(j),), Apply(ADD, (Read(y, (at(j),)), Number(1)))),))
    return w, x, y, Seq((sums, plus))


def _node(label: str, *dims: int) -> TNode:
    return TNode(label, Role.PLACEHOLDER, lambda: dims, lambda: float32)


def try_out(name: str) -> str:
    """Raises what is wrong; else says what was found."""
    with settings(cache=False):  # what is looked at is the compiler
        context = Context(name)
        w, x, y, code = program()
        a, b = np.arange(12.0).reshape(3, 4), np.arange(4.0)
        context.set(w, a)
        context.set(x, b)
        context.compile_comp(code, name="probe")()
        found, wanted = context.get(y), a @ b + 1
    if not np.array_equal(found, wanted):
        raise OcannlError(f"a small program gives {found.tolist()} instead of {wanted.tolist()}")
    return f"compiled and ran a small program ({context.backend.version})"


def main(arguments: list[str]) -> int:
    try:
        print(try_out(*arguments))
    except OcannlError as wrong:
        print(" ".join(str(wrong).split()))
        return UNAVAILABLE if isinstance(wrong, BackendUnavailable) else 1
    except Exception as wrong:
        print(" ".join(f"{type(wrong).__name__}: {wrong}".split()))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
