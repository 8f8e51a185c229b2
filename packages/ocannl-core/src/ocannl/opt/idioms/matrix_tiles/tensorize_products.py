"""Tiles products of bfloat16 matrices for processors with matrix instructions (tensorization)."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

from ocannl.ir.capabilities import Capabilities
from ocannl.ir.loops import BindIndex, Body, Buf, Const, For, If, MemorySpace, Proc, Stmt
from ocannl.ir.name_mangling import Namer
from ocannl.opt import machine_model as machine
from ocannl.opt.analysis.fusion_group import group_of
from ocannl.opt.analysis.nests import bound_names, same_objects
from ocannl.opt.analysis.weights import weight_arrays
from ocannl.opt.idioms.matrix_tiles.matrix_product import MatrixProduct, matrix_product
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
    cheaper assignment counts. Products that are too small for tiles, or take less time than packing, stay as they are.
    """  # noqa: E501
    weights = weight_arrays(proc) if capabilities.wants_precomputed_weights else ()
    return _Tensorizer(Namer(bound_names(proc)), capabilities, weights).run(proc)


@dataclass(frozen=True, slots=True)
class _Tensorizer:
    names: Namer
    capabilities: Capabilities
    weights: Collection[Buf]

    def run(self, proc: Proc) -> Proc:
        body: list[Stmt] = []
        bufs: list[Buf] = []
        for stmt in proc.body:
            product = self.product_of(stmt, self.weights)
            if product is None:
                body.append(self.nested(stmt))
            else:
                tiled = TiledProduct.of(product, self.names, self.capabilities, MemorySpace.ARENA)
                body += (*tiled.fills(), *tiled.copies, *tiled.blocks())
                bufs += tiled.bufs
        return proc if same_objects(body, proc.body) else replace(proc, body=tuple(body), bufs=(*proc.bufs, *bufs))

    def product_of(self, stmt: Stmt, weights: Collection[Buf] = ()) -> MatrixProduct | None:
        group = group_of(stmt, self.names)
        return None if group is None else matrix_product(group, weights)

    def nested(self, stmt: Stmt) -> Stmt:
        match stmt:
            case For(body=body) | BindIndex(body=body):
                new = self.nested_body(body)
                return stmt if same_objects(new, body) else replace(stmt, body=new)
            case If(cond, on_true, on_false):
                first, second = self.nested_body(on_true), self.nested_body(on_false)
                is_same = same_objects((*first, *second), (*on_true, *on_false))
                return stmt if is_same else If(cond, first, second)
            case _:
                return stmt

    def nested_body(self, body: Body) -> Body:
        out: list[Stmt] = []
        for stmt in body:
            product = self.product_of(stmt)  # packed in each iteration
            tiled = None
            if product is not None and isinstance(product.reduction.init, Const):  # else it is a step of a longer sum
                tiled = TiledProduct.of(product, self.names, self.capabilities, MemorySpace.LOCAL)
            if tiled is None or sum(buf.nbytes for buf in tiled.bufs) > machine.MAX_LOCAL_SUMS_BYTES:
                out.append(self.nested(stmt))
            else:
                out += (*tiled.locals, *tiled.copies, *tiled.blocks())
        return tuple(out)
