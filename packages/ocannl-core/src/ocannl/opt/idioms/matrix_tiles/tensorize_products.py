"""Tiles products of bfloat16 matrices for processors with instructions for tiles or pairs (tensorization)."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, replace

from ocannl.ir.accesses import alias_class
from ocannl.ir.affine import Sym
from ocannl.ir.capabilities import Capabilities
from ocannl.ir.loops import BindIndex, Body, Buf, Const, For, If, Local, MemorySpace, Proc, Ref, Stmt
from ocannl.ir.name_mangling import Namer
from ocannl.opt import machine_model as machine
from ocannl.opt.analysis.fusion_group import FusionGroup, group_of
from ocannl.opt.analysis.nests import accessed_buffers, bound_names, same_objects
from ocannl.opt.analysis.weights import weight_arrays
from ocannl.opt.idioms.matrix_tiles.tileable_product import TileableProduct, tileable_product
from ocannl.opt.idioms.matrix_tiles.tiled_product import TiledProduct


def tensorize_products(proc: Proc, capabilities: Capabilities) -> Proc:
    """Builds products of bfloat16 matrices from blocks of sums, which tiles compute (tensorization). The right operand is
    packed in panels of columns, in which the terms of a pair are adjacent; here with rows that are read in place:

        proc step                                           proc step
          y : f32[32,16]       out                            y   : f32[32,16]           out
          x : bfloat16[32,64]  in                             x   : bfloat16[32,64]      in
          w : bfloat16[64,16]  in                             w   : bfloat16[64,16]      in
          for i_2 in 0..32:                                   w_2 : bfloat16[1,32,16,2]  arena
            for j_2 in 0..16:                                 for j_2_3 in 0..1:
              local acc: f32                                    for k_3 in 0..32:
              acc = 0                                             for j_2_4 in 0..16:
              for k in 0..64:                          ==>          w_2[j_2_3, k_3, j_2_4, 0] = w[2*k_3, 16*j_2_3+j_2_4]
                acc += f32(x[i_2, k]) * f32(w[k, j_2])              w_2[j_2_3, k_3, j_2_4, 1] = w[2*k_3+1, 16*j_2_3+j_2_4]
              y[i_2, j_2] = acc                               for i_2_2 in 0..1:
                                                                local sums: f32[32,16]
                                                                tensorized for i_2_4 in 0..32:
                                                                  for j_2_6 in 0..16:
                                                                    local acc_2: f32
                                                                    acc_2 = 0
                                                                    for k_4 in 0..32:
                                                                      acc_2 += f32(x[32*i_2_2+i_2_4, 2*k_4]) * f32(w_2[0, k_4, j_2_6, 0]) + f32(x[32*i_2_2+i_2_4, 2*k_4+1]) * f32(w_2[0, k_4, j_2_6, 1])
                                                                    sums[i_2_4, j_2_6] = acc_2
                                                                for i_2_3 in 0..32:
                                                                  for j_2_5 in 0..16:
                                                                    y[32*i_2_2+i_2_3, j_2_5] = sums[i_2_3, j_2_5]

    An operand is packed in local memory if the product is inside of a loop. Both operands may take both roles; the
    cheaper assignment counts. Products that are too small for tiles, or take less time without packing, stay as they are.
    """  # noqa: E501
    weights = weight_arrays(proc) if capabilities.wants_precomputed_weights else set[Buf]()
    names = Namer(bound_names(proc))
    body: list[Stmt] = []
    bufs: list[Buf] = []
    for stmt in proc.body:
        group = group_of(stmt, names)
        product = None if group is None else tileable_product(group, capabilities.bfloat16_tiles, weights)
        if product is None:
            nest = _ProductsInLoops.of(stmt, names, capabilities, weights)
            changed = nest.stmt(stmt)
            body += (*nest.copies, changed)
            bufs += nest.bufs
        else:
            tiled = TiledProduct.of(product, names, capabilities, lambda ref: MemorySpace.ARENA)
            for operand in tiled.packed_in(MemorySpace.ARENA):
                body += operand.copies
                bufs.append(operand.ref.buf)
            body += tiled.blocks()
    return proc if same_objects(body, proc.body) else replace(proc, body=tuple(body), bufs=(*proc.bufs, *bufs))


@dataclass(slots=True)
class _ProductsInLoops:
    """A statement with products inside of loops, and the copies of operands that do not depend on these, which are
    executed before it. Other operands are packed in local memory, of `local_bytes` so far."""

    names: Namer
    capabilities: Capabilities
    weights: Collection[Buf]
    written: Collection[object]  # alias classes of the arrays that the statement writes
    copies: list[Stmt] = field(default_factory=list)
    bufs: list[Buf] = field(default_factory=list)
    local_bytes: int = 0

    @staticmethod
    def of(stmt: Stmt, names: Namer, capabilities: Capabilities, weights: Collection[Buf]) -> _ProductsInLoops:
        return _ProductsInLoops(names, capabilities, weights, {alias_class(buf) for buf in accessed_buffers(stmt)[1]})

    def stmt(self, stmt: Stmt) -> Stmt:
        match stmt:
            case For(body=body) | BindIndex(body=body):
                new = self.body(body)
                return stmt if same_objects(new, body) else replace(stmt, body=new)
            case If(cond, on_true, on_false):
                first, second = self.body(on_true), self.body(on_false)
                is_same = same_objects((*first, *second), (*on_true, *on_false))
                return stmt if is_same else If(cond, first, second)
            case _:
                return stmt

    def body(self, body: Body) -> Body:
        out: list[Stmt] = []
        for stmt in body:
            group = group_of(stmt, self.names)
            product = None if group is None else self.product_of(group)
            out += (self.stmt(stmt),) if product is None else self.tiled(product)
        return tuple(out)

    def product_of(self, group: FusionGroup) -> TileableProduct | None:
        """Returns the product that a group computes, unless it is a step of a longer sum."""
        starts_from_constant = all(isinstance(reduction.init, Const) for reduction in group.reductions)
        syms = [*group.syms, *(sym for reduction in group.reductions for sym in reduction.syms)]
        free = [ref.buf for ref in group.reads if ref.buf in self.weights and self.is_invariant(ref, syms)]
        unit = self.capabilities.bfloat16_tiles
        return tileable_product(group, unit, free, self.may_pack) if starts_from_constant else None

    def is_invariant(self, ref: Ref, syms: Collection[Sym]) -> bool:
        """Whether an operand depends on no loop but the given ones, and the statement does not write it."""
        is_array = ref.buf.space in (MemorySpace.GLOBAL, MemorySpace.ARENA)
        return is_array and alias_class(ref.buf) not in self.written and all(sym in syms for sym in ref.syms)

    def may_pack(self, product: TileableProduct) -> bool:
        """Whether local memory has room for the operands that are packed in each iteration."""
        return self.local_bytes + self.bytes_in_loops(product) <= machine.MAX_LOCAL_OPERAND_BYTES

    def bytes_in_loops(self, product: TileableProduct) -> int:
        return sum(
            product.packed_bytes(ref) for ref in product.packed_operands
            if not self.is_invariant(ref, product.syms)
        )  # fmt: skip

    def tiled(self, product: TileableProduct) -> Body:
        """Returns the declarations and copies of operands in local memory, and the blocks."""

        def space_of(ref: Ref) -> MemorySpace:
            return MemorySpace.ARENA if self.is_invariant(ref, product.syms) else MemorySpace.LOCAL

        self.local_bytes += self.bytes_in_loops(product)
        tiled = TiledProduct.of(product, self.names, self.capabilities, space_of)
        for operand in tiled.packed_in(MemorySpace.ARENA):
            self.copies += operand.copies
            self.bufs.append(operand.ref.buf)
        packed = tiled.packed_in(MemorySpace.LOCAL)
        declarations = [Local(operand.ref.buf) for operand in packed]
        return (*declarations, *(copy for operand in packed for copy in operand.copies), *tiled.blocks())
