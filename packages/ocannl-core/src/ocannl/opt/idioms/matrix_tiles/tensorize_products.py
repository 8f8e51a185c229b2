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
    """Builds products of bfloat16 matrices from blocks of tiles, with an operand that is packed in pairs of terms."""
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
