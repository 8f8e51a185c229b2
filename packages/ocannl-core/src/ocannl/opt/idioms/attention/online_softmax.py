"""Online softmax: one pass over the keys with a running maximum (Milakov and Gimelshein 2018; Dao et al. 2022)."""

from __future__ import annotations

from dataclasses import replace
from math import prod

from ocannl.ir.accesses import alias_class
from ocannl.ir.affine import Sym
from ocannl.ir.loops import AccessMode, Apply, Buf, Const, MemorySpace, Proc, Stmt, Store, is_full
from ocannl.opt import machine_model as machine
from ocannl.opt.analysis.fusion_group import FusionGroup
from ocannl.opt.analysis.fusion_group_graph import ProgramGroups
from ocannl.opt.analysis.nests import loads, unit_covering_loops
from ocannl.opt.idioms.attention.match_softmax import Softmax, WeightedSum, match_softmax
from ocannl.opt.idioms.attention.online_nest import OnlineSoftmaxNest, ScoreProducer


def online_softmax(
    proc: Proc, key_block: int | None = None, min_keys: int | None = None, max_register_row: int | None = None
) -> Proc:
    """Fuses a softmax and the sums weighted by it into one nest. Each row iterates over blocks of keys and maintains
    the maximum score so far; accumulated sums are rescaled when it grows.

        proc step                                            proc step
          m : f64[2]    arena                                  x : f64[2,4]  in
          x : f64[2,4]  in                                     y : f64[2,3]  out
          e : f64[2,4]  arena                                  v : f64[4,3]  in
          s : f64[2]    arena                                  for i_2 in 0..2:
          y : f64[2,3]  out                                      local top: f64
          v : f64[4,3]  in                                       top = -inf
          for i_2 in 0..2:                                       local total: f64
            local acc: f64                                       total = 0
            acc = -inf                                           local mixed: f64[3]
            for t in 0..4:                                       for d_2 in 0..3:
              acc = max(acc, x[i_2, t])                            mixed[d_2] = 0
            m[i_2] = acc                               ==>       for t_block in 0..2:
          for i_3 in 0..2:                                         local score: f64[2]
            for t_2 in 0..4:                                       for t_6 in 0..2:
              e[i_3, t_2] = exp(x[i_3, t_2] - m[i_3])                score[t_6] = x[i_2, t_6+2*t_block]
          for i_5 in 0..2:                                         local peak: f64
            local acc_2: f64                                       peak = top
            acc_2 = 0                                              for t_5 in 0..2:
            for t_3 in 0..4:                                         peak = max(peak, score[t_5])
              acc_2 += e[i_5, t_3]                                 let base = where(peak == -inf, 0, peak)
            s[i_5] = acc_2                                         let scale = exp(top - base)
          for i_7 in 0..2:                                         top = peak
            for d in 0..3:                                         local power: f64[2]
              local acc_3: f64                                     for t_7 in 0..2:
              acc_3 = 0                                              power[t_7] = exp(score[t_7] - base)
              for t_4 in 0..4:                                     scope:
                acc_3 += e[i_7, t_4] / s[i_7] * v[t_4, d]            local acc_4: f64
              y[i_7, d] = acc_3                                      acc_4 = total * scale
                                                                     for t_8 in 0..2:
                                                                       acc_4 += power[t_8]
                                                                     total = acc_4
                                                                   for d_3 in 0..3:
                                                                     local acc_5: f64
                                                                     acc_5 = mixed[d_3] * scale
                                                                     for t_9 in 0..2:
                                                                       acc_5 += power[t_9] * v[t_9+2*t_block, d_3]
                                                                     mixed[d_3] = acc_5
                                                                 total = total + (top - top)
                                                                 for d_4 in 0..3:
                                                                   y[i_2, d_4] = mixed[d_4] / total

    Scores that are matrix products are computed within the nest. Blocks that an affine condition masks are skipped.
    `key_block` is the number of keys per block, `min_keys` the least number of keys for which weighted sums are fused;
    rows longer than `max_register_row` are fused even without them.
    """
    key_block = machine.KEY_BLOCK if key_block is None else key_block
    min_keys = machine.MIN_KEYS if min_keys is None else min_keys
    return _OnlineSoftmax(
        proc, key_block, min_keys, machine.MAX_REGISTER_ROW if max_register_row is None else max_register_row
    ).result()


class _OnlineSoftmax:
    def __init__(self, proc: Proc, key_block: int, min_keys: int, max_register_row: int) -> None:
        self.proc, self.key_block, self.min_keys, self.max_register_row = proc, key_block, min_keys, max_register_row
        self.program, self.stmts = ProgramGroups(proc), list[Stmt | None](proc.body)

    def result(self) -> Proc:
        removed: set[Buf] = set()
        for position in list(self.program.groups):
            if position in self.program.groups:
                softmax = match_softmax(position, self.program.groups[position], self.program.readers)
                if softmax is not None:
                    removed |= self.replace_softmax(softmax)
        body = tuple([stmt for stmt in self.stmts if stmt is not None])
        if not removed:
            return self.proc
        return replace(self.proc, body=body, bufs=tuple([buf for buf in self.proc.bufs if buf not in removed]))

    def replace_softmax(self, softmax: Softmax) -> set[Buf]:
        """Replaces a softmax by an online nest if that is profitable and legal; returns the eliminated arrays."""
        extent = softmax.key.sym.extent
        weighted_sums = [
            weighted_sum
            for weighted_sum in softmax.weighted_sums
            if extent >= self.min_keys and is_tileable(softmax, weighted_sum)
        ]
        softmax = replace(softmax, weighted_sums=tuple(weighted_sums))
        is_long = (
            extent > self.max_register_row and prod(row.sym.extent for row in softmax.rows) >= machine.MIN_BUSY_ROWS
        )
        if not (weighted_sums or is_long):
            return set()
        producer = self.score_producer(softmax)
        positions = {*softmax.positions, *(weighted_sum.position for weighted_sum in weighted_sums)}
        members = sorted(positions | {producer.position} if producer else positions)
        accesses = self.program.accesses.copy()
        target = members[0]
        for member in members[1:]:
            merged = accesses.common_position(target, member)
            if merged is None:
                return set()
            accesses.merge(merged[1], merged[0])
            target = merged[0]
        arrays = {store.ref.buf for store in softmax.match.stores}
        stored = frozenset(
            buf for buf in arrays if buf.space is not MemorySpace.ARENA or not accesses.is_sole_accessor(buf, target)
        )
        for member in members:
            self.stmts[member] = None
            del self.program.groups[member]
        key_block = self.key_block if weighted_sums or producer else machine.SOFTMAX_BLOCK
        self.stmts[target] = OnlineSoftmaxNest(softmax, producer, stored, key_block, self.program.names).stmt()
        self.program.accesses = accesses
        return arrays - stored | ({producer.ref.buf} if producer else set())

    def score_producer(self, softmax: Softmax) -> ScoreProducer | None:
        """The matrix product that computes the scores if only this softmax reads them, or None. The nest must not write
        its operands."""
        written = {alias_class(store.ref.buf) for store in softmax.match.stores}
        written |= {alias_class(ref.buf) for weighted_sum in softmax.weighted_sums for ref in weighted_sum.writes}
        for ref in dict.fromkeys(loads(softmax.match.score)):
            position = self.program.accesses.reaching_write(ref.buf, softmax.positions[0])
            is_temporary = ref.buf.space is MemorySpace.ARENA and ref.buf.access is AccessMode.TEMP
            if position not in self.program.groups or not is_temporary:
                continue
            if set(self.program.accesses.accessors([ref.buf], position)) - set(softmax.positions):
                continue
            match self.program.groups[position]:
                case FusionGroup(loops, cond, (reduction,), (Store(stored_ref),)) as group if (
                    cond.is_true and stored_ref.buf is ref.buf
                ):
                    if not isinstance(reduction.init, Const) or not all(map(is_full, (*loops, *reduction.loops))):
                        continue
                    if unit_covering_loops(stored_ref, loops) != set(group.syms) or any(
                        alias_class(read.buf) in written for read in group.reads
                    ):
                        continue
                    pairs = zip(stored_ref.indices, ref.indices, strict=True)
                    values = {sym: read_index for index, read_index in pairs if (sym := index.only_sym)}
                    producer = group.substituted(values)
                    if _is_query_key_product(producer, [row.sym for row in softmax.rows], softmax.key.sym):
                        return ScoreProducer(position, ref, producer)
        return None


def is_tileable(softmax: Softmax, weighted_sum: WeightedSum) -> bool:
    """Whether the weighted sum is a matrix product with a narrow result, whose factor several rows share."""
    if len(weighted_sum.output_loops) != 1 or weighted_sum.output_loops[0].sym.extent > machine.MAX_VALUE_WIDTH:
        return False
    if weighted_sum.reduction.acc.precision is not softmax.reduction.acc.precision:
        return False
    factor_syms = {sym for ref in loads(weighted_sum.factor) for sym in ref.syms}
    return weighted_sum.output_loops[0].sym in factor_syms and any(row.sym not in factor_syms for row in softmax.rows)


def _is_query_key_product(group: FusionGroup, rows: list[Sym], key: Sym) -> bool:
    """Whether one factor depends on a row but not on the key, and the other on the key but not on that row."""
    match group.reductions[0].update.value:
        case Apply(_, (left, right)):
            left_syms, right_syms = (
                {sym for ref in loads(operand) for sym in ref.syms}
                for operand in (left, right)
            )
            return any({row, key} & left_syms == {row} and {row, key} & right_syms == {key} for row in rows) or any(
                {row, key} & right_syms == {row} and {row, key} & left_syms == {key} for row in rows
            )
    return False
