"""Weights of a softmax made once more for its gradients, where that costs less than to keep them (Dao et al. 2022)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from math import prod

from ocannl.ir.index import TRUE, Affine, Cond, Sym
from ocannl.ir.loops import (
    AccessMode,
    Buf,
    Expr,
    For,
    MemorySpace,
    Let,
    Load,
    Local,
    Const,
    Proc,
    Ref,
    Stmt,
    Store,
    Update,
    Var,
    When,
    loop,
)
from ocannl.ir.names import Namer
from ocannl.ir.ops import ADD
from ocannl.ir.accesses import storage
from ocannl.opt import machine_model as machine
from ocannl.opt.analysis.cost import cost
from ocannl.opt.analysis.dependences import AccessIndex
from ocannl.opt.analysis.fusion_group import FusionGroup, Reduction, group_of, is_matmul_like, local_buffer
from ocannl.opt.analysis.nests import wrap_in_loops, as_statement, unit_covering_loops, is_full, loads, bound_names, accessed_buffers
from ocannl.opt.analysis.substitution import map_expr, substitute
from ocannl.opt.idioms.attention.masked_blocks import walked
from ocannl.opt.idioms.attention.match_softmax import softmax_at
from ocannl.opt.idioms.attention.online_softmax import is_tile
from ocannl.opt.parallel.split_reductions import renamed

Tail = tuple[Let | Store | Update, ...]


def recompute_attention(proc: Proc, keys: int | None = None, least: int | None = None) -> Proc:
    """Has sums over the weights of a softmax, other than its own, make these block by block.

        proc step                                           proc step
          c : f32[8,8]  arena                                 c : f32[8,8]  arena
          q : f32[8,2]  in                                    q : f32[8,2]  in
          k : f32[8,2]  in                                    k : f32[8,2]  in
          m : f32[8]    arena                                 m : f32[8]    arena
          e : f32[8,8]  arena                                 e : f32[8,8]  arena
          s : f32[8]    arena                                 s : f32[8]    arena
          z : f32[8]    out                                   z : f32[8]    out
          for s_2 in 0..8:                                    for s_2 in 0..8:
            for t in 0..8:                                      for t in 0..8:
              local acc: f32 reg                                  local acc: f32 reg
              acc = 0                                             acc = 0
              for d in 0..2:                                      for d in 0..2:
                acc += q[s_2, d] * k[t, d]                          acc += q[s_2, d] * k[t, d]
              c[s_2, t] = acc                                     c[s_2, t] = acc
          for i_3 in 0..8:                                    for i_3 in 0..8:
            local acc_2: f32 reg                                local acc_2: f32 reg
            acc_2 = -inf                                        acc_2 = -inf
            for t_2 in 0..8:                                    for t_2 in 0..8:
              acc_2 = max(acc_2, c[i_3, t_2])                     acc_2 = max(acc_2, c[i_3, t_2])
            m[i_3] = acc_2                                      m[i_3] = acc_2
          for j_2 in 0..8:                                    for j_2 in 0..8:
            for t_3 in 0..8:                                    for t_3 in 0..8:
              e[j_2, t_3] = exp(c[j_2, t_3] - m[j_2])             e[j_2, t_3] = exp(c[j_2, t_3] - m[j_2])
          for o in 0..8:                                      for o in 0..8:
            local acc_3: f32 reg                       ==>      local acc_3: f32 reg
            acc_3 = 0                                           acc_3 = 0
            for t_4 in 0..8:                                    for t_4 in 0..8:
              acc_3 += e[o, t_4]                                  acc_3 += e[o, t_4]
            s[o] = acc_3                                        s[o] = acc_3
          for t_5 in 0..8:                                    for t_5 in 0..8:
            local acc_4: f32 reg                                local mixed: f32 reg
            acc_4 = 0                                           mixed = 0
            for n in 0..8:                                      for n_block in 0..4:
              acc_4 += e[n, t_5] / s[n]                           local score_2: f32[2] reg
            z[t_5] = acc_4                                        for n_3 in 0..2:
                                                                    local acc_5: f32 reg
                                                                    acc_5 = 0
                                                                    for d_2 in 0..2:
                                                                      acc_5 += q[n_3+2*n_block, d_2] * k[t_5, d_2]
                                                                    score_2[n_3] = acc_5
                                                                  local row: f32[2] reg
                                                                  for n_4 in 0..2:
                                                                    row[n_4] = exp(score_2[n_4] - m[n_4+2*n_block])
                                                                  if true:
                                                                    local acc_6: f32 reg
                                                                    acc_6 = mixed
                                                                    for n_5 in 0..2:
                                                                      acc_6 += row[n_5] / s[n_5+2*n_block]
                                                                    mixed = acc_6
                                                                z[t_5] = mixed

    So do those that read what is computed from the weights cell by cell, such as their gradients. An array is made
    again by all who read it, but for the softmax itself, or kept: what it is made of must be as it was when it was made
    first, while all rows are gone through. Blocks in which all terms are zero, by an affine
    condition, are left out.
    """
    keys = machine.KEY_BLOCK if keys is None else keys
    return _Again(proc, keys, machine.MIN_KEYS if least is None else least).result()


@dataclass(frozen=True, slots=True)
class _Reader:
    """A group with one sum over keys, for each of the rows, and for loops of its own; `refs` are what is made again,
    and `term` is what is added with that in it."""

    group: FusionGroup
    rows: tuple[For, ...]
    own: tuple[For, ...]
    refs: tuple[Ref, ...]
    term: Expr
    makers: frozenset[int]
    needed: frozenset[int]


class _Made:
    """Arrays as expressions of those that stay, where a statement reads them; `sums` are the products in these, and the
    blocks that hold them, along `turn`."""

    def __init__(self, again: _Again, makers: set[int], place: int, turn: Sym) -> None:
        self.again, self.makers, self.place, self.turn = again, makers, place, turn
        self.sums: dict[Reduction, Buf] = {}
        self.met: set[int] = set()
        self.needed: set[int] = set()  # who makes the factors of products
        self.written = {storage(ref.buf) for ref in again.groups[place].writes}
        self.is_same = True  # what stays: nobody has written it since it was read, nor does the statement itself

    def value(self, ref: Ref, before: int) -> Expr:
        at = self.again.places.reaching_write(ref.buf, before)
        if at not in self.makers:
            self.stays(ref, before)
            return Load(ref)
        self.met.add(at)
        group, store = self.again.groups[at], self.again.store(at, ref.buf)
        values = {mine.terms[0][1]: its for mine, its in zip(store.ref.indices, ref.indices, strict=True) if mine.terms}
        group = group.substituted(values)
        lets: dict[str, Expr] = {}

        def leaf(node: Expr) -> Expr:
            match node:
                case Var(name):
                    return lets[name]
                case Load(inner):
                    held = next((each for each in group.reductions if each.acc is inner.buf), None)
                    return self.value(inner, at) if held is None else Load(self.score(held, at))
            return node

        for stmt in group.epilogue:
            value = map_expr(stmt.value, leaf)
            if isinstance(stmt, Let):
                lets[stmt.name] = value
            elif stmt.ref.buf is ref.buf:
                return value
        raise AssertionError(f"{ref.buf.name} is not among what is stored")

    def stays(self, ref: Ref, before: int) -> None:
        newest = self.again.places.reaching_write
        is_kept = newest(ref.buf, before) == newest(ref.buf, self.place) and storage(ref.buf) not in self.written
        self.is_same = self.is_same and is_kept

    def score(self, each: Reduction, at: int) -> Ref:
        if each not in self.sums:
            for ref in loads(each.update.value):
                self.stays(ref, at)
                self.needed.add(self.again.places.reaching_write(ref.buf, at))
            names = self.again.names
            self.sums[each] = local_buffer(names("score"), each.acc.precision, (self.again.keys,))
        return Ref(self.sums[each], (Affine.of(self.turn),))


class _Again:
    def __init__(self, proc: Proc, keys: int, least: int) -> None:
        self.proc, self.keys, self.least = proc, keys, least
        self.names = Namer(bound_names(proc))
        groups = ((at, group_of(stmt, self.names)) for at, stmt in enumerate(proc.body))
        self.groups = {at: group for at, group in groups if group is not None}
        self.places = AccessIndex(list(proc.body))
        self.own: set[int] = set()  # who walks over keys already, or makes what is walked over

    def result(self) -> Proc:
        for at, group in self.groups.items():
            found = softmax_at(at, group, self.readers)
            if found is not None:
                self.own |= {*found.positions, *(each.position for each in found.weighted_sums if is_tile(found, each))}
                self.own |= {self.places.reaching_write(ref.buf, at) for ref in loads(found.match.score)}
        makers = {at for at, group in self.groups.items() if self.own and self.is_made(group)}
        while True:
            wanted = {at: one for at in self.groups if (one := self.reader(at, makers)) is not None}
            used = {at for one in wanted.values() for at in one.makers} - self.own
            needed = {at for one in wanted.values() for at in one.needed}
            kept = {at for at in used if at in needed or not self.is_read_only_by(at, wanted.keys() | used)}
            if not kept:
                break
            makers -= kept
        if not wanted:
            return self.proc
        stmts = [self.built(wanted[at], at, makers) if at in wanted else stmt for at, stmt in enumerate(self.proc.body)]
        body = tuple([stmt for at, stmt in enumerate(stmts) if at not in used])
        left = {buf for stmt in body for some in accessed_buffers(stmt) for buf in some}
        gone = {ref.buf for at in used for ref in self.groups[at].writes} - left
        return replace(self.proc, body=body, bufs=tuple([buf for buf in self.proc.bufs if buf not in gone]))

    # ------------------------------------------------------------------------------------------------- what is found

    def readers(self, place: int, buf: Buf) -> Iterator[tuple[int, FusionGroup]]:
        """The groups that read what a statement writes to an array."""
        for at in self.places.accessors([buf], place):
            if at in self.groups and self.places.reaching_write(buf, at) == place:
                yield at, self.groups[at]

    def store(self, at: int, buf: Buf) -> Store:
        return next(stmt for stmt in self.groups[at].epilogue if isinstance(stmt, Store) and stmt.ref.buf is buf)

    def is_made(self, group: FusionGroup) -> bool:
        """Whether each cell of all that the group writes is a function of its place, and of a short sum at most."""
        loops, stores = group.loops, [stmt for stmt in group.epilogue if not isinstance(stmt, Let)]
        if not group.cond.is_true or not all(map(is_full, loops)) or len(group.reductions) > 1 or not stores:
            return False
        if len({stmt.ref.buf for stmt in stores}) < len(stores):
            return False
        for stmt in stores:
            buf = stmt.ref.buf
            if isinstance(stmt, Update) or buf.space is not MemorySpace.ARENA or buf.access is not AccessMode.TEMP:
                return False
            if len(buf.shape) < 2 or min(buf.shape[-2:]) < self.least or unit_covering_loops(stmt.ref, loops) != set(group.syms):
                return False
        for each in group.reductions:
            if len(each.loops) != 1 or not is_full(each.loops[0]):
                return False
            if each.loops[0].sym.extent > machine.MAX_RECOMPUTED_TERMS:
                return False
            if not isinstance(each.init, Const) or not each.cond.is_true or not is_matmul_like(group):
                return False
            large = machine.MIN_SIZE_RATIO * max(ref.buf.size for ref in loads(each.update.value))
            if any(stmt.ref.buf.size < large for stmt in stores):
                return False
        return True

    def is_read_only_by(self, at: int, places: set[int]) -> bool:
        """Whether no other statement reads what the group writes."""
        for buf in {ref.buf for ref in self.groups[at].writes}:
            for other in self.places.accessors([buf], at):
                group = self.groups.get(other)
                reads = group is None or any(storage(ref.buf) == storage(buf) for ref in group.reads)
                if reads and other not in places and self.places.reaching_write(buf, other) == at:
                    return False
        return True

    def reader(self, at: int, makers: set[int]) -> _Reader | None:
        group = self.groups[at]
        if at in self.own or not group.cond.is_true or len(group.reductions) != 1 or at in makers:
            return None
        (each,) = group.reductions
        match each:
            case Reduction(_, (key,), when, Update(_, op, value)) if op is ADD and when.is_true:
                refs = tuple(dict.fromkeys(ref for ref in loads(value) if self.places.reaching_write(ref.buf, at) in makers))
            case _:
                return None
        elsewhere = [ref for ref in group.reads if self.places.reaching_write(ref.buf, at) in makers and ref not in refs]
        if not refs or elsewhere or not all(map(is_full, (*group.loops, key))) or key.sym.extent < self.least:
            return None
        if any(place.only_sym is None for ref in refs for place in ref.indices if place.terms):
            return None
        known = {frozenset(sym for place in ref.indices for sym in place.syms) for ref in refs}
        rows = tuple([turn for turn in group.loops if turn.sym in next(iter(known))])
        own = tuple([turn for turn in group.loops if turn not in rows])
        if known != {frozenset((key.sym, *(turn.sym for turn in rows)))} or not rows:
            return None
        if len(own) > 1 or prod(turn.sym.extent for turn in own) > machine.MAX_VALUE_WIDTH:
            return None
        if any(isinstance(stmt, Update) for stmt in group.epilogue):
            return None
        made = _Made(self, makers, at, key.sym)
        values = {ref: made.value(ref, at) for ref in refs}
        term = map_expr(value, lambda node: values.get(node.ref, node) if isinstance(node, Load) else node)
        if not made.is_same or not made.sums or not made.met & self.own or cost(term).nodes > machine.MAX_NODES_PER_KEY:
            return None
        return _Reader(group, rows, own, refs, term, frozenset(made.met), frozenset(made.needed))

    # ------------------------------------------------------------------------------------------------- what is built

    def built(self, reader: _Reader, at: int, makers: set[int]) -> Stmt:
        (each,) = reader.group.reductions
        key, acc = each.loops[0].sym, each.acc
        mixed = local_buffer(self.names("mixed"), acc.precision, tuple([turn.sym.extent for turn in reader.own]))
        keys = Sym(self.names(f"{key.name}_block"), 0, -(-key.extent // self.keys) - 1)
        turn = self.turn(key)
        known = {key: Affine(((self.keys, keys),), key.lo) + turn}
        inside = TRUE
        if key.extent % self.keys:
            inside = Cond((Affine.of(key.extent - 1) - turn - Affine(((self.keys, keys),)),))
        made = _Made(self, makers, at, turn)
        rows: dict[Ref, Ref] = {}
        body: list[Stmt] = []
        stores = []
        for ref in reader.refs:
            value = made.value(Ref(ref.buf, tuple([place.substitute(known) for place in ref.indices])), at)
            rows[ref] = Ref(local_buffer(self.names("row"), ref.buf.precision, (self.keys,)), (Affine.of(turn),))
            kept = value if inside.is_true else When(inside, value, Const(0, value.precision))
            stores.append(Store(rows[ref], kept))
        for product, score in made.sums.items():
            body += (Local(score), self.scored(product, Ref(score, (Affine.of(turn),)), inside, key, turn))
        for store in stores:
            body += (Local(store.ref.buf), self.along(key, turn, (), store))
        body.append(self.added(reader, each, mixed, rows, known, inside, turn))
        begin = self.in_turn(reader, mixed, lambda cell: (Store(cell, each.init),))
        end = self.in_turn(reader, mixed, lambda cell: self.ends(reader, each, cell))
        turns = replace(walked(keys, key, self.keys, reader.term), body=tuple(body))
        return as_statement(wrap_in_loops(reader.rows, TRUE, (Local(mixed), begin, turns, end)))

    def turn(self, key: Sym) -> Sym:
        """For the keys of a block."""
        return Sym(self.names(key.name), 0, self.keys - 1)

    def along(self, key: Sym, turn: Sym, sums: tuple[Reduction, ...], store: Store) -> Stmt:
        """The same in a loop of its own."""
        mine = self.turn(key)
        return FusionGroup((loop(mine, ()),), TRUE, sums, (store,)).substituted({turn: Affine.of(mine)}).stmt()

    def scored(self, product: Reduction, to: Ref, inside: Cond, key: Sym, turn: Sym) -> Stmt:
        acc = Ref(local_buffer(self.names("acc"), product.acc.precision, ()), ())
        loops, known = renamed(product.loops, self.names)
        update = replace(product.update, ref=acc, value=substitute(product.update.value, known))
        return self.along(key, turn, (Reduction(product.init, loops, inside, update),), Store(to, Load(acc)))

    def in_turn(self, reader: _Reader, mixed: Buf, tail: Callable[[Ref], Tail]) -> Stmt:
        """Statements for each iteration over the reader's own loops, which have a cell."""
        own, known = renamed(reader.own, self.names)
        cell = Ref(mixed, tuple([Affine.of(turn.sym) - turn.sym.lo for turn in reader.own]))
        group = FusionGroup(reader.own, TRUE, (), tail(cell)).substituted(known)
        return replace(group, loops=own).stmt()

    def added(
        self, reader: _Reader, each: Reduction, mixed: Buf, rows: Mapping[Ref, Ref], known: dict[Sym, Affine], inside: Cond,
        turn: Sym,
    ) -> Stmt:  # fmt: skip
        """What a block of keys adds."""
        acc = Ref(local_buffer(self.names("acc"), each.acc.precision, ()), ())
        cell = Ref(mixed, tuple([Affine.of(own.sym) - own.sym.lo for own in reader.own]))

        def leaf(node: Expr) -> Expr:
            return Load(rows[node.ref]) if isinstance(node, Load) and node.ref in rows else substitute(node, known)

        mine = self.turn(each.syms[0])
        own, fresh = renamed(reader.own, self.names)
        value = substitute(map_expr(each.update.value, leaf, known), fresh | {turn: Affine.of(mine)})
        to = Ref(mixed, tuple([at.substitute(fresh) for at in cell.indices]))
        cond = inside.substitute({turn: Affine.of(mine)})
        total = Reduction(Load(to), (loop(mine, ()),), cond, replace(each.update, ref=acc, value=value))
        return FusionGroup(own, TRUE, (total,), (Store(to, Load(acc)),)).stmt()

    def ends(self, reader: _Reader, each: Reduction, cell: Ref) -> Tail:
        old = Load(each.update.ref)
        return tuple([
            replace(stmt, value=map_expr(stmt.value, lambda node: Load(cell) if node == old else node))
            for stmt in reader.group.epilogue
        ])
