"""Sums of products as sequences of pairwise contractions, where these cost less than one loop nest.

Operands and result of a product-sum are the leaves of a tree, whose inner nodes are contractions of two tensors. An
edge of the tree stands for the product of the leaves at either side, summed over the indices of that side only. The sum
is the value that arrives at the leaf of the result, the gradient of an operand the value that arrives at the leaf of
that operand. So gradients share intermediate results, as messages do in the sum-product algorithm (Kschischang, Frey,
Loeliger 2001). They recompute those of the sum; `eliminate_equal_arrays` reuses these within a routine.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass, replace
from functools import reduce as fold
from math import prod

from ocannl.ir.affine import Affine, Sym
from ocannl.ir.assign import Assign, Call, Number, Origin, Piece, Read, Value
from ocannl.ir.ops import ADD, MUL
from ocannl.ir.precision import Precision, bool_, float64, promote
from ocannl.ir.tnode import Role, TNode
from ocannl.lang.core.contraction_order import ContractionTree, contraction_tree
from ocannl.lang.core.slots import SlotAssign
from ocannl.lang.core.symbolic_terms import Hole, Tree

MAX_NARROW_ADDITIONS = 32
"""Terms of a sum over one operand that is accumulated in float32; 94 more may follow within an error of 64 eps."""


def contract_pairwise(written: Sequence[SlotAssign], elaborated: Iterable[Assign], origin: Origin) -> Iterable[Assign]:
    """The assignments of one rule, elaborated, with sums of products replaced by pairwise contractions."""
    assigns = list(elaborated)
    products = _products(written, assigns)
    tree = _tree_of(products) if products else None
    return assigns if tree is None else _contracted(products, tree, origin)


def _contracted(products: Sequence[_Product], tree: ContractionTree, origin: Origin) -> Iterator[Assign]:
    contractions = _Contractions(products, tree, origin)
    for product in products:
        yield from contractions.assigns_to(product)


@dataclass(frozen=True, slots=True)
class _Product:
    """The assignment `target += product of factors`; `slots` are the operands of the operation that it reads."""

    assign: Assign
    target: int
    reads: dict[int, Read]
    numbers: tuple[Number, ...]

    @property
    def piece(self) -> Piece:
        return self.assign.pieces[0]


def _products(assigns: Sequence[SlotAssign], elaborated: Sequence[Assign]) -> list[_Product]:
    """The assignments of one rule as products of the same tensors; none if any is not such a product."""
    products = [_product(a, e) for a, e in zip(assigns, elaborated, strict=True)]
    matched = [p for p in products if p is not None]
    if not matched or len(matched) < len(products):
        return []
    first, written = matched[0], {p.assign.lhs for p in matched}
    leaves = {first.target, *first.reads}
    is_one_product = all({p.target, *p.reads} == leaves and p.piece.loops == first.piece.loops for p in matched)
    is_updated = len(matched) > 1 and any(read.node in written for p in matched for read in p.reads.values())
    return matched if is_one_product and not is_updated else []


def _product(slot_assign: SlotAssign, assign: Assign) -> _Product | None:
    if slot_assign.accum is not ADD or slot_assign.is_concat or len(assign.pieces) != 1 or assign.pieces[0].indirect:
        return None
    slots = _factors(slot_assign.trees[0])
    values = _factors(assign.pieces[0].value)
    reads: dict[int, Read] = {}
    numbers: list[Number] = []
    for hole, value in zip(slots, values, strict=True):
        if isinstance(value, Number):
            numbers.append(value)
        elif isinstance(hole, Hole) and isinstance(value, Read) and hole.slot not in reads:
            reads[hole.slot] = value
        else:
            return None
    target = slot_assign.target.slot
    if len(reads) < 2 or target in reads or not _has_common_type([*reads.values()], assign.lhs):
        return None
    loops = assign.pieces[0].loops
    indices = [assign.pieces[0].indices, *(read.indices for read in reads.values())]
    used = {sym for leaf in indices for index in leaf for sym in index.syms}
    return _Product(assign, target, reads, tuple(numbers)) if used.issuperset(loops) and all(
        loop.extent for loop in loops
    ) else None


def _factors(tree: Tree | Value) -> list[Tree | Value]:
    """The factors of nested products."""
    if isinstance(tree, Call) and tree.op is MUL:
        return [factor for arg in tree.args for factor in _factors(arg)]
    return [tree]


def _has_common_type(reads: Sequence[Read], target: TNode) -> bool:
    """Whether sums and products are associative, up to rounding: floats, or integers of a single type."""
    kinds = {read.node.precision for read in reads} | {target.precision}
    return all(kind.is_float for kind in kinds) or (len(kinds) == 1 and bool_ not in kinds)


def _tree_of(products: Sequence[_Product]) -> ContractionTree | None:
    """The tree for a product, from its indices. The leaf of the smallest slot is the root; the others are the operands,
    in order: gradients have the tree of the sum if the result has slot 0."""
    loops = {sym: n for n, sym in enumerate(products[0].piece.loops)}
    first, *remaining = [frozenset(loops[s] for s in syms) for _, syms in sorted(_leaf_symbols(products[0]).items())]
    return contraction_tree(tuple(remaining), first, tuple(sym.extent for sym in loops))


def _leaf_symbols(product: _Product) -> dict[int, frozenset[Sym]]:
    """The loops in the indices of every tensor."""
    loops = set(product.piece.loops)
    indices = {product.target: product.piece.indices} | {slot: read.indices for slot, read in product.reads.items()}
    return {slot: frozenset(s for i in at for s in i.syms if s in loops) for slot, at in indices.items()}


Edge = tuple[int, int]


class _Contractions:
    """The tree of contractions with the intermediate results so far. Leaves are numbered as slots."""

    def __init__(self, products: Sequence[_Product], tree: ContractionTree, origin: Origin) -> None:
        self.symbols = _leaf_symbols(products[0])
        self.reads = {slot: read for product in products for slot, read in product.reads.items()}
        self.loops = products[0].piece.loops
        self.origin = origin
        nodes = [product.assign.lhs for product in products] + [read.node for read in self.reads.values()]
        self.kind = fold(promote, [node.precision.arithmetic for node in nodes])
        self.messages: dict[Edge, Read] = {}
        self.pending: list[Assign] = []
        self.neighbors: dict[int, list[int]] = {}
        self.root, *self.operands = sorted(self.symbols)
        self._connect(self._add(tree), self.root)

    def _add(self, tree: ContractionTree) -> int:
        """Adds the contractions of a subtree, and returns its topmost node."""
        if isinstance(tree, int):
            return self.operands[tree]
        children = [self._add(subtree) for subtree in tree]
        node = max(self.symbols) + 1 + len([n for n in self.neighbors if n not in self.symbols])
        for child in children:
            self._connect(child, node)
        return node

    def _connect(self, below: int, above: int) -> None:
        self.neighbors.setdefault(above, []).append(below)
        self.neighbors.setdefault(below, []).append(above)

    def assigns_to(self, product: _Product) -> Iterator[Assign]:
        """The assignments for the tensor at a leaf, with those of the intermediate results that it needs first."""
        (contraction,) = self.neighbors[product.target]
        factors = self._factors(contraction, product.target)
        written = self.symbols[product.target]
        computed = _symbols(factors) & set(self.loops)
        if not written.issubset(computed) and not computed.issubset(written):
            factors = [self._stored(factors, computed & written)]  # summed once, then broadcast
        value: Value = _multiplied([*factors, *product.numbers])
        loops = tuple(loop for loop in self.loops if loop in written or loop in _symbols(factors))
        yield from self.pending
        self.pending.clear()
        yield replace(product.assign, pieces=(replace(product.piece, loops=loops, value=value),))

    def _factors(self, node: int, toward: int) -> list[Read]:
        return [self._message(neighbor, node) for neighbor in self.neighbors[node] if neighbor != toward]

    def _message(self, node: int, toward: int) -> Read:
        """The product of the leaves on this side of an edge, summed over the loops of no leaf at the other side."""
        edge = node, toward
        if edge not in self.messages:
            inside = self._leaves(node, toward)
            outside = {sym for leaf, syms in self.symbols.items() if leaf not in inside for sym in syms}
            factors = [self.reads[node]] if node in self.symbols else self._factors(node, toward)
            symbols = _symbols(factors) & set(self.loops)
            is_operand = node in self.symbols and symbols <= outside
            if is_operand:
                self.messages[edge] = factors[0]
            elif node in self.symbols:
                self.messages[edge] = self._operand_sum(factors[0], symbols & outside)
            else:
                self.messages[edge] = self._stored(factors, symbols & outside)
        return self.messages[edge]

    def _leaves(self, node: int, toward: int) -> set[int]:
        """The leaves on this side of an edge."""
        if node in self.symbols:
            return {node}
        return {leaf for n in self.neighbors[node] if n != toward for leaf in self._leaves(n, node)}

    def _operand_sum(self, operand: Read, kept: Set[Sym]) -> Read:
        """An operand summed over its own loops. A long sum is accumulated in float64: this costs little beside the
        contraction, whose own sum may use up the error bound."""
        summed = prod(sym.extent for sym in _symbols([operand]) & set(self.loops) - kept)
        if not self.kind.is_float or summed <= MAX_NARROW_ADDITIONS:
            return self._stored([operand], kept)
        exact = self._stored([operand], kept, float64)
        return exact if self.kind is float64 else self._stored([exact], kept)

    def _stored(self, factors: list[Read], kept: Set[Sym], kind: Precision | None = None) -> Read:
        """A new node with the product of the factors, summed over all loops except `kept`."""
        axes = tuple(loop for loop in self.loops if loop in kept)
        dims, stored = tuple(loop.extent for loop in axes), kind or self.kind
        label = "_".join(["partial", *(loop.name for loop in axes)])
        attributes = Role.RESULT, lambda: dims, lambda: stored
        node = TNode(f"{self.origin.label}.{label}", *attributes, where=self.origin.where)
        symbols = _symbols(factors)
        summed = [loop for loop in self.loops if loop in symbols and loop not in kept]
        indices = tuple(map(Affine.of, axes))
        piece = Piece((*axes, *summed), indices, _multiplied(factors))
        self.pending.append(Assign(node, ADD if summed else None, True, (piece,), self.origin))
        return Read(node, indices)


def _symbols(reads: Sequence[Read]) -> set[Sym]:
    return {sym for read in reads for index in read.indices for sym in index.syms}


def _multiplied(factors: Sequence[Value]) -> Value:
    product, *remaining = factors
    for factor in remaining:
        product = Call(MUL, (product, factor))
    return product
