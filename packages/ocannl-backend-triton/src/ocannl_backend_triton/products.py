"""Sums of products whose factors share only the loop that is summed: the processor multiplies matrices for these.

    for i, j:
      local acc = 0
      for k:
        acc += a[i, k] * b[k, j]          left: what depends on i, right: what depends on j
      y[i, j] = acc
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ocannl.codegen.numbers import is_narrow
from ocannl.ir.index import Cond, Sym
from ocannl.ir.loops import Apply, Body, Buf, Cast, Comment, Expr, For, Home, Idx, If, Load, Local, Update, Var, When
from ocannl.ir.ops import ADD, BY_NAME
from ocannl.ir.precision import bfloat16, float32
from ocannl.ir.walk import walk
from ocannl_backend_triton.float8 import FORMATS8
from ocannl_backend_triton.nests import is_same, is_whole, quotients

MUL = BY_NAME["mul"]
TILE = 64  # rows of a program that has loops inside as columns
WIDEST = 256  # columns of such a program
LEAST = 8  # iterations of each loop; there is nothing to gain below


@dataclass(frozen=True, slots=True)
class Product:
    """What is added in each iteration of `loop`, for tiles along two others. Factors that are numbers of one narrow
    type are multiplied as they are, or, of eight bits, as bfloat16: what comes out is exact in the wide one."""

    rows: For
    columns: For
    loop: For
    left: Expr
    right: Expr
    update: Update

    @property
    def is_of_row(self) -> bool:
        """Whether the left factor is a row that each program holds, all of it."""
        return any(isinstance(node, Load) and node.ref.buf.home is Home.REG for node in walk(self.left))


@dataclass(frozen=True, slots=True)
class _Sum:
    outer: tuple[For, ...]  # around it, below the kept ones
    loops: tuple[For, ...]
    cond: Cond
    update: Update


def contraction(chain: Sequence[For], body: Body) -> tuple[Product, ...]:
    """The sums in the body that are products: over tiles of two loops of the chain, if there are such, or else of one
    of these and of loops inside of it."""
    kept = frozenset(loop.sym for loop in chain)
    sums = list(_sums(body))
    best: tuple[Product, ...] = ()
    most = 0
    for rows in chain:
        for columns in chain:
            size = rows.sym.extent * columns.sym.extent
            found = [_product(one, kept, rows, columns) for one in sums if not one.outer] if size > most else []
            products = tuple([each for each in found if each is not None])
            if products:
                best, most = products, size
    if best:
        return best
    for rows in chain:
        fit = [one for one in sums if all(_fits(loop, rows.sym) for loop in one.outer)]
        found = [_product(one, kept, rows, one.outer[-1]) for one in fit if _is_short(one.outer[-1:])]
        products = tuple([each for each in found if each is not None])
        best = max(best, products, key=len)
    return best


def _is_short(loops: Sequence[For]) -> bool:
    """Whether each program can take all of it at a time."""
    return bool(loops) and is_whole(loops[0]) and loops[0].sym.extent <= WIDEST


def _fits(loop: For, rows: Sym) -> bool:
    """Whether the loop has the same iterations for all rows of a tile."""
    return loop.step == 1 and all(is_same(index, div, rows, TILE) for index, div in quotients(loop))


def _sums(body: Body, outer: tuple[For, ...] = (), known: frozenset[Buf] = frozenset()) -> Iterator[_Sum]:
    """Perfect nests around an update of a local number."""
    local = known | {stmt.buf for stmt in body if isinstance(stmt, Local) and not stmt.buf.shape}
    for stmt in body:
        loops: list[For] = []
        cond = Cond()
        inner: Body = (stmt,)
        while len(inner) == 1:
            match inner[0]:
                case For() as loop:
                    loops.append(loop)
                    inner = tuple([each for each in loop.body if not isinstance(each, Comment)])
                case If(guard, then, ()):
                    cond = cond & guard
                    inner = then
                case Update(ref, op) as update if ref.buf in local and op is ADD and all(map(is_whole, loops)):
                    yield _Sum(outer, tuple(loops), cond, update)
                    break
                case _:
                    break
        if len(inner) > 1:
            yield from _sums(inner, (*outer, *loops), local)


def _product(each: _Sum, kept: frozenset[Sym], rows: For, columns: For) -> Product | None:
    match each.update.value:
        case Apply(op, (one, other)) if op is MUL and each.update.value.precision is float32:
            for left, right in ((one, other), (other, one)):
                found = _ordered(each, kept, rows, columns, left, right)
                if found is not None:
                    return found
    return None


def _ordered(
    each: _Sum, kept: frozenset[Sym], rows: For, columns: For, left: Expr, right: Expr
) -> Product | None:  # fmt: skip
    """The product, if the left factor is the one that knows the rows. It may be of a local array."""
    first, second = symbols(left, kept), symbols(right, kept)
    if columns.sym in first or rows.sym in second or rows.sym not in first or columns.sym not in second:
        return None
    facts = (*each.cond.ge0, *each.cond.eq0)
    if any({rows.sym, columns.sym} <= set(fact.syms) for fact in facts):
        return None
    summed = [loop for loop in each.loops if loop.sym in first & second]
    if not summed or min(s.extent for s in (rows.sym, columns.sym, summed[0].sym)) < LEAST:
        return None
    loop = max(summed, key=lambda loop: loop.sym.extent)
    if any(isinstance(node, Var) or _is_local(node, loop.sym) for side in (left, right) for node in walk(side)):
        return None
    match left, right:
        case Cast(Load() as a), Cast(Load() as b) if a.precision is b.precision and is_narrow(a.precision):
            is_held = a.precision not in FORMATS8
            left, right = (a, b) if is_held else (Cast(a, bfloat16), Cast(b, bfloat16))
    return Product(rows, columns, loop, left, right, each.update)


def _is_local(node: object, along: Sym) -> bool:
    """Whether it is a local number, other than that of a row along the sum."""
    if not isinstance(node, Load) or node.ref.buf.home is not Home.REG:
        return False
    return [at.only_sym for at in node.ref.at] != [along]


def symbols(value: Expr, kept: frozenset[Sym]) -> set[Sym]:
    """Those that it depends on; what is local is there for each of the kept loops."""
    found: set[Sym] = set()
    for node in walk(value):
        match node:
            case Load(ref):
                found.update(sym for at in ref.at for sym in at.syms)
                if ref.buf.home is Home.REG:
                    found |= kept
            case Idx(index, _):
                found.update(index.syms)
            case When(cond):
                found.update(cond.syms)
            case _:
                pass
    return found
