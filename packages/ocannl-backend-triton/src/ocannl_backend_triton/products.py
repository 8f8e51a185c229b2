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
from ocannl.ir.loops import Apply, Body, Cast, Comment, Expr, For, Home, Idx, If, Load, Local, Update, Var, When
from ocannl.ir.ops import ADD, BY_NAME
from ocannl.ir.precision import float32
from ocannl.ir.walk import walk
from ocannl_backend_triton.nests import is_whole

MUL = BY_NAME["mul"]
LEAST = 8  # iterations of each loop; there is nothing to gain below


@dataclass(frozen=True, slots=True)
class Product:
    """What is added in each iteration of `loop`. Factors that are numbers of one narrow type are multiplied as they
    are: what comes out is exact in the wide one."""

    loop: For
    left: Expr
    right: Expr
    update: Update


@dataclass(frozen=True, slots=True)
class Contraction:
    """A nest of kept loops, two of which lie along the tiles of its products."""

    rows: For
    columns: For
    products: tuple[Product, ...]


@dataclass(frozen=True, slots=True)
class _Sum:
    loops: tuple[For, ...]
    cond: Cond
    update: Update


def contraction(chain: Sequence[For], body: Body) -> Contraction | None:
    """The loops of the chain along which tiles lie, and the sums in the body that are products over them."""
    sums = list(_sums(body))
    best: Contraction | None = None
    for each in sums:
        for rows, columns in _pairs(chain, each):
            found = [product for one in sums if (product := _product(one, rows.sym, columns.sym)) is not None]
            size = rows.sym.extent * columns.sym.extent
            if found and (best is None or size > best.rows.sym.extent * best.columns.sym.extent):
                best = Contraction(rows, columns, tuple(found))
    return best


def _sums(body: Body) -> Iterator[_Sum]:
    """Perfect nests around an update of a local number."""
    local = {stmt.buf for stmt in body if isinstance(stmt, Local) and not stmt.buf.shape}
    for stmt in body:
        loops: list[For] = []
        cond = Cond()
        inner: Body = (stmt,)
        while len(inner) == 1:
            match inner[0]:
                case For() as loop if is_whole(loop):
                    loops.append(loop)
                    inner = tuple([each for each in loop.body if not isinstance(each, Comment)])
                case If(guard, then, ()):
                    cond = cond & guard
                    inner = then
                case Update(ref, op) as update if ref.buf in local and op is ADD and loops:
                    yield _Sum(tuple(loops), cond, update)
                    break
                case _:
                    break


def _pairs(chain: Sequence[For], each: _Sum) -> Iterator[tuple[For, For]]:
    """Loops of which one factor depends on the first alone, the other on the second."""
    match each.update.value:
        case Apply(op, (left, right)) if op is MUL:
            for one, other in ((left, right), (right, left)):
                first, second = _symbols(one), _symbols(other)
                for rows in chain:
                    for columns in chain:
                        if rows.sym in first - second and columns.sym in second - first:
                            yield rows, columns
        case _:
            pass


def _product(each: _Sum, rows: Sym, columns: Sym) -> Product | None:
    match each.update.value:
        case Apply(op, (left, right)) if op is MUL and each.update.value.precision is float32:
            if rows in _symbols(right):
                left, right = right, left
        case _:
            return None
    first, second = _symbols(left), _symbols(right)
    if columns in first or rows in second or rows not in first or columns not in second:
        return None
    facts = (*each.cond.ge0, *each.cond.eq0)
    if any({rows, columns} <= set(fact.syms) for fact in facts):
        return None
    summed = [loop for loop in each.loops if loop.sym in first & second]
    if not summed or min(s.extent for s in (rows, columns, summed[0].sym)) < LEAST:
        return None
    if any(isinstance(node, Var) or _is_local(node) for side in (left, right) for node in walk(side)):
        return None
    match left, right:
        case Cast(Load() as a), Cast(Load() as b) if a.precision is b.precision and is_narrow(a.precision):
            left, right = a, b
    return Product(max(summed, key=lambda loop: loop.sym.extent), left, right, each.update)


def _is_local(node: object) -> bool:
    return isinstance(node, Load) and node.ref.buf.home is Home.REG


def _symbols(value: Expr) -> set[Sym]:
    found: set[Sym] = set()
    for node in walk(value):
        match node:
            case Load(ref):
                found.update(sym for at in ref.at for sym in at.syms)
            case Idx(index, _):
                found.update(index.syms)
            case When(cond):
                found.update(cond.syms)
            case _:
                pass
    return found
