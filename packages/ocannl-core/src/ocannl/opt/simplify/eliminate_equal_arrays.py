"""Global value numbering over arrays: replaces reads of a temporary by reads of an equal, unmodified array."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable
from dataclasses import replace
from itertools import count

from ocannl.ir.accesses import alias_class
from ocannl.ir.affine import Affine, Sym
from ocannl.ir.loops import AccessMode, Buf, Const, Expr, IndexValue, Load, MemorySpace, Proc, Ref, Stmt, Store
from ocannl.ir.precision import bool_
from ocannl.ir.walk import walk
from ocannl.opt.analysis.nests import AccessTable, PerfectNest, accessed_buffers, covers_buffer, loads, nest_of
from ocannl.opt.analysis.substitution import map_expr, map_statements

ANY_BUFFER = Buf("any", bool_, (), (), MemorySpace.LOCAL, AccessMode.TEMP)


def eliminate_equal_arrays(proc: Proc) -> Proc:
    """Replaces reads of a temporary by reads of an array with the same value number; `eliminate_dead_code` then removes
    the temporary.

        proc step                         proc step
          x : f32[5]  in                    x : f32[5]  in
          s : f32[5]  arena                 s : f32[5]  arena
          t : f32[5]  arena                 t : f32[5]  arena
          y : f32[5]  out                   y : f32[5]  out
          for i in 0..5:                    for i in 0..5:
            s[i] = exp(x[i])                  s[i] = exp(x[i])
          for k in 0..5:           ==>      for k in 0..5:
            t[k] = exp(x[k])                  t[k] = exp(x[k])
          for n in 0..5:                    for n in 0..5:
            y[n] = s[n] * t[n]                y[n] = s[n] * s[n]

    A write gives its array a new value number, unless an equal write of operands with equal numbers already has one, or
    it copies an input that no statement writes, which is read instead.
    """
    aliases = Counter(alias_class(buf) for buf in proc.bufs)
    values = _ArrayValues(buf for buf in proc.bufs if buf.access is AccessMode.IN and aliases[alias_class(buf)] == 1)
    candidates: list[tuple[int, Buf, list[Buf]]] = []
    for position, stmt in enumerate(proc.body):
        nest = nest_of(stmt)
        if nest is None:
            for buf in accessed_buffers(stmt)[1]:
                values.renew(buf)
            continue
        buf = nest.leaf.ref.buf
        equal_bufs = values.write(nest)
        if equal_bufs and buf.access is AccessMode.TEMP:
            candidates.append((position, buf, equal_bufs))
    if not candidates:
        return proc
    table = AccessTable(proc.body)
    replacements: dict[Buf, Buf] = {}
    for position, buf, equal_bufs in candidates:
        if table.writers[buf][-1] == position and table.readers.get(buf, [0])[0] > position:
            unmodified = (b for b in equal_bufs if b not in replacements and table.writers.get(b, [0])[-1] <= position)
            live = [b for b in unmodified if b.access is not AccessMode.TEMP or b in table.readers]
            if live:
                replacements[buf] = live[0]
    if not replacements:
        return proc

    def leaf(node: Expr) -> Expr:
        if isinstance(node, Load) and node.ref.buf in replacements:
            return Load(Ref(replacements[node.ref.buf], node.ref.indices))
        return node

    body: tuple[Stmt, ...] = map_statements(proc.body, lambda ref: ref, leaf)
    return replace(proc, body=body)


def _copied_buffer(nest: PerfectNest) -> Buf | None:
    """Returns the array that the nest copies as a whole; None if there is none."""
    match nest.leaf:
        case Store(target, Load(source)) if covers_buffer(nest) and source.indices == target.indices:
            old, new = source.buf, target.buf
            is_equal = (old.shape, old.precision) == (new.shape, new.precision)
            return old if is_equal else None
        case _:
            return None


class _ArrayValues:
    """The current value number of each array."""

    __slots__ = ("canonical_numbers", "canonical_syms", "read_only", "first_nests", "fresh", "holders", "numbers")

    def __init__(self, read_only: Iterable[Buf] = ()) -> None:
        self.read_only = frozenset(read_only)  # arrays that nothing writes
        self.fresh = count()
        self.numbers: dict[Buf, int] = {}
        self.first_nests: dict[Hashable, tuple[PerfectNest, int]] = {}  # by signature, with the value number
        self.canonical_numbers: dict[Hashable, dict[Hashable, int]] = {}  # by signature and canonical form
        self.holders: dict[int, list[Buf]] = {}  # arrays that a value number was assigned to, in program order
        self.canonical_syms: dict[tuple[int, int, int], Sym] = {}

    def renew(self, buf: Buf) -> int:
        """Assigns a fresh value number to the array."""
        number = self.numbers[buf] = next(self.fresh)
        return number

    def number_of(self, buf: Buf) -> int:
        number = self.numbers.get(buf)
        return self.renew(buf) if number is None else number

    def write(self, nest: PerfectNest) -> list[Buf]:
        """Records the write of a nest and returns the other arrays that have the same value number now."""
        leaf, buf = nest.leaf, nest.leaf.ref.buf
        original = _copied_buffer(nest)
        if original is not None and original in self.read_only:
            self.numbers[buf] = self.number_of(original)
            return [original]
        old_number = None if isinstance(leaf, Store) and covers_buffer(nest) else self.number_of(buf)
        operation = None if isinstance(leaf, Store) else leaf.op.name
        extents = tuple([loop.sym.extent for loop in nest.loops])
        operands = tuple([self.number_of(ref.buf) for ref in loads(leaf.value)])
        signature = buf.precision.name, buf.shape, buf.strides, operation, extents, old_number, operands
        number = self.numbers[buf] = self.number_of_nest(signature, nest)
        equal_bufs = [b for b in self.holders.get(number, ()) if b is not buf and self.numbers[b] == number]
        self.holders.setdefault(number, []).append(buf)
        return equal_bufs

    def number_of_nest(self, signature: Hashable, nest: PerfectNest) -> int:
        """Returns the value number of an equal nest, or a fresh one; nests with a unique signature are not compared."""
        if signature not in self.first_nests:
            self.first_nests[signature] = nest, next(self.fresh)
            return self.first_nests[signature][1]
        if signature not in self.canonical_numbers:
            first, number = self.first_nests[signature]
            self.canonical_numbers[signature] = {self.canonical_form(first): number}
        numbers, form = self.canonical_numbers[signature], self.canonical_form(nest)
        if form not in numbers:
            numbers[form] = next(self.fresh)
        return numbers[form]

    def canonical_form(self, nest: PerfectNest) -> Hashable:
        """Returns a form that is equal for alpha-equivalent nests, whatever buffers they read."""
        values = {loop.sym: Affine.of(self.canonical_sym(n, loop.sym)) for n, loop in enumerate(nest.loops)}

        def leaf(node: Expr) -> Expr:
            match node:
                case Load(ref):
                    return Load(Ref(ANY_BUFFER, tuple([at.substitute(values) for at in ref.indices])))
                case IndexValue(index, precision):
                    return IndexValue(index.substitute(values), precision)
                case _:
                    return node

        loops = tuple([(loop.lo.substitute(values), loop.hi.substitute(values), loop.step) for loop in nest.loops])
        target = tuple([index.substitute(values) for index in nest.leaf.ref.indices])
        value = nest.leaf.value
        constants = tuple([repr(node.value) for node in walk(value) if isinstance(node, Const)])  # with signs of zeros
        return loops, nest.cond.substitute(values), target, map_expr(value, leaf, values), constants

    def canonical_sym(self, depth: int, sym: Sym) -> Sym:
        key = depth, sym.lo, sym.hi
        if key not in self.canonical_syms:
            self.canonical_syms[key] = Sym(f"s{depth}", sym.lo, sym.hi)
        return self.canonical_syms[key]
