"""Canonical text of a computation, without accidental details: the key of the compilation cache.

Nodes, static symbols and loops are numbered by first use, so that neither their order of creation nor the names of
loops matter (alpha-equivalence). Labels and headings stay, since generated names depend on them; source locations are
omitted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from json.encoder import encode_basestring_ascii as quoted

from ocannl.base.errors import CodeError
from ocannl.ir.affine import Affine, Cond, Sym, SymKind
from ocannl.ir.assign import (
    Assign,
    Call,
    Comp,
    Conditional,
    Convert,
    Index,
    LabeledBlock,
    Loop,
    Number,
    Piece,
    Read,
    Seq,
    Value,
)
from ocannl.ir.host_call import HostCall
from ocannl.ir.tnode import TNode


@dataclass(frozen=True, slots=True)
class Canonical:
    """The canonical text, the nodes and symbols behind its numbers, and the code it was made from."""

    text: str
    nodes: tuple[TNode, ...]
    statics: tuple[Sym, ...]
    code: Comp
    keep_reasons: Mapping[TNode, str]


def canonical(code: Comp, keep_reasons: Mapping[TNode, str]) -> Canonical:
    """`keep_reasons` maps nodes that must be kept to the reason."""
    writer = _CanonicalWriter()
    writer.comp(code)
    head = [_node(n, number, keep_reasons.get(n)) for n, number in writer.nodes.items()]
    head += [f"t{number} {quoted(s.name)} {s.lo}..{s.hi}" for s, number in writer.statics.items()]
    text = "\n".join([*head, *writer.lines, ""])
    return Canonical(text, tuple(writer.nodes), tuple(writer.statics), code, keep_reasons)


def _node(node: TNode, number: int, keep_reason: str | None) -> str:
    dims = ",".join(map(str, node.dims))
    text = f"n{number} {quoted(node.label)} {node.precision.name}[{dims}] {node.role.value}"
    if node.requested:
        text += f" requested {node.requested.value} {quoted(str(node.requested.author))}"
    return text if keep_reason is None else f"{text} asked {quoted(keep_reason)}"


class _CanonicalWriter:
    def __init__(self) -> None:
        self.lines: list[str] = []
        self.nodes: dict[TNode, int] = {}
        self.statics: dict[Sym, int] = {}
        self.loops: dict[Sym, int] = {}  # of the current piece
        self.iterations: dict[Sym, int] = {}  # of all sequential loops
        self.headers: dict[int, tuple[dict[Sym, int], str, dict[int, str]]] = {}  # see `enter_piece`
        self.index_texts: dict[int, str] = {}

    def comp(self, code: Comp) -> None:
        stack: list[Comp | str] = [code]
        while stack:
            match stack.pop():
                case Seq(items):
                    stack.extend(reversed(items))
                case LabeledBlock(text, body):
                    self.lines.append(f"{{ {quoted(text)}")
                    stack += ["}", body]
                case Loop(sym, body, private, overwritten):
                    self.iterations[sym] = len(self.iterations)
                    overwrites = f" overwrites {self.private(overwritten)}" if overwritten else ""
                    self.lines.append(f"{{ loop {sym.lo}..{sym.hi} private {self.private(private)}{overwrites}")
                    stack += ["}", body]
                case Conditional(condition, body, private):
                    self.lines.append(f"{{ if {self.value(condition)} private {self.private(private)}")
                    stack += ["}", body]
                case Assign() as assign:
                    self.assign(assign)
                case HostCall() as call:
                    numbers = [self.node(n) if isinstance(n, TNode) else n for n in (*call.inputs, *call.written)]
                    self.lines.append(f"host {quoted(call.name)} {numbers}")
                case str() as line:
                    self.lines.append(line)

    def assign(self, assign: Assign) -> None:
        accum = assign.accum.name if assign.accum else "store"
        self.lines.append(f"n{self.node(assign.lhs)} {accum}{' clear' if assign.clear else ''}")
        for piece in assign.pieces:
            box = self.enter_piece(piece)
            when = "" if piece.when.is_true else f" when {self.cond(piece.when)}"
            picks = "".join(f" pick {p.sym.lo}..{p.sym.hi} {self.value(p.value)}" for p in piece.indirect)
            self.lines.append(f" [{box}] {self.indices(piece.indices)} <- {self.value(piece.value)}{when}{picks}")

    def enter_piece(self, piece: Piece) -> str:
        """Enters the scope of a piece and returns the text of its loops. Pieces that share the tuple of loops, and of
        indices, share their texts."""
        entry = self.headers.get(id(piece.loops))
        if entry is None or piece.indirect:
            loops = {sym: n for n, sym in enumerate((*piece.loops, *(pick.sym for pick in piece.indirect)))}
            entry = loops, " ".join([f"{s.lo}..{s.hi}" for s in piece.loops]), {}
            if not piece.indirect:
                self.headers[id(piece.loops)] = entry
        self.loops, box, self.index_texts = entry
        return box

    def value(self, value: Value) -> str:
        match value:
            case Read(node, at, outside, merge):
                rim = "" if outside is None else f" else {outside!r}"
                return f"n{self.node(node)}{'.merge' if merge else ''}[{self.indices(at)}{rim}]"
            case Number(number):
                return f"#{number!r}"
            case Index(index):
                return f"@({self.index(index)})"
            case Call(op, args):
                return f"{op.name}({', '.join([self.value(a) for a in args])})"
            case Convert(inner, precision):
                return f"{precision.name}:{self.value(inner)}"

    def private(self, nodes: tuple[TNode, ...]) -> str:
        return ",".join([f"n{self.node(node)}" for node in nodes])

    def node(self, node: TNode) -> int:
        return self.nodes.setdefault(node, len(self.nodes))

    def indices(self, at: tuple[Affine, ...]) -> str:
        text = self.index_texts.get(id(at))
        if text is None:
            text = self.index_texts[id(at)] = ",".join([self.index(a) for a in at])
        return text

    def index(self, index: Affine) -> str:
        if not index.terms:
            return str(index.const)
        terms = sorted([(self.sym(s), c) for c, s in index.terms])
        return "".join([f"{c:+}{kind}{n}" for (kind, n), c in terms]) + (f"{index.const:+}" if index.const else "")

    def sym(self, sym: Sym) -> tuple[str, int]:
        if sym.kind is SymKind.STATIC:
            return "t", self.statics.setdefault(sym, len(self.statics))
        if sym.kind is SymKind.ITERATION:
            if sym not in self.iterations:
                raise CodeError(
                    f"a tensor of the body of a loop is read outside of the loop (step `{sym.name}`): return it from "
                    "the function of the loop"
                )
            return "i", self.iterations[sym]
        return "l", self.loops[sym]

    def cond(self, cond: Cond) -> str:
        facts = [f"{self.index(a)}>=0" for a in cond.ge0] + [f"{self.index(a)}==0" for a in cond.eq0]
        return " and ".join(facts)
