"""Expressions of recomputed arrays in terms of stored ones."""

from __future__ import annotations

from ocannl.ir.accesses import alias_class
from ocannl.ir.affine import Affine, Sym
from ocannl.ir.loops import Buf, Expr, Let, Load, Ref, Var
from ocannl.opt.analysis.fusion_group import Reduction, local_buffer
from ocannl.opt.analysis.fusion_group_graph import ProgramGroups
from ocannl.opt.analysis.nests import loads
from ocannl.opt.analysis.substitution import map_expr


class RecomputedValues:
    """Expressions of recomputed arrays in terms of stored ones, as read by the statement at `position`; `score_bufs`
    maps the matrix products in them to buffers of one block, indexed by `key_sym`."""

    def __init__(
        self, program: ProgramGroups, producers: set[int], position: int, key_sym: Sym, key_block: int
    ) -> None:
        self.program, self.producers, self.position = program, producers, position
        self.key_sym, self.key_block = key_sym, key_block
        self.score_bufs: dict[Reduction, Buf] = {}
        self.used_producers: set[int] = set()
        self.operand_producers: set[int] = set()  # positions of the statements that write the operands of products
        self.written = {alias_class(ref.buf) for ref in program.groups[position].writes}
        self.is_unchanged = True  # no stored operand is overwritten between producer and consumer, nor by the consumer

    def value(self, ref: Ref, before: int) -> Expr:
        writer = self.program.accesses.reaching_write(ref.buf, before)
        if writer not in self.producers:
            self.check_unchanged(ref, before)
            return Load(ref)
        self.used_producers.add(writer)
        group, store = self.program.groups[writer], self.program.store_to(writer, ref.buf)
        values = {
            store_index.terms[0][1]: read_index
            for store_index, read_index in zip(store.ref.indices, ref.indices, strict=True)
            if store_index.terms
        }
        group = group.substituted(values)
        lets: dict[str, Expr] = {}

        def leaf(node: Expr) -> Expr:
            match node:
                case Var(name):
                    return lets[name]
                case Load(inner):
                    reduction = next((candidate for candidate in group.reductions if candidate.acc is inner.buf), None)
                    return self.value(inner, writer) if reduction is None else Load(self.score_ref(reduction, writer))
            return node

        for stmt in group.epilogue:
            value = map_expr(stmt.value, leaf)
            if isinstance(stmt, Let):
                lets[stmt.name] = value
            elif stmt.ref.buf is ref.buf:
                return value
        raise AssertionError(f"{ref.buf.name} is not stored by this group")

    def check_unchanged(self, ref: Ref, before: int) -> None:
        reaching_write = self.program.accesses.reaching_write
        is_kept = (
            reaching_write(ref.buf, before) == reaching_write(ref.buf, self.position)
            and alias_class(ref.buf) not in self.written
        )
        self.is_unchanged = self.is_unchanged and is_kept

    def score_ref(self, reduction: Reduction, at: int) -> Ref:
        if reduction not in self.score_bufs:
            for ref in loads(reduction.update.value):
                self.check_unchanged(ref, at)
                self.operand_producers.add(self.program.accesses.reaching_write(ref.buf, at))
            names = self.program.names
            self.score_bufs[reduction] = local_buffer(
                names("score"), reduction.acc.precision, (self.key_block,)
            )
        return Ref(self.score_bufs[reduction], (Affine.of(self.key_sym),))
