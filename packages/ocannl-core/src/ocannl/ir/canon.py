"""The text of a computation with everything accidental taken out: what a cache looks compiled code up by.

Nodes, static symbols and loops are numbered by first use, so it does not matter when they were made or what loops are
called. Labels and headings stay, because generated names and settled facts mention them; origins do not.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from json.encoder import encode_basestring_ascii as quoted

from ocannl.ir.assign import Apply, Assign, Block, Comp, Convert, Index, Number, Piece, Read, Seq, Value
from ocannl.ir.index import Affine, Cond, Sym, SymKind
from ocannl.ir.tnode import TNode


@dataclass(frozen=True, slots=True)
class Canonical:
    """The text, what its numbers stand for, and whose text it is."""

    text: str
    nodes: tuple[TNode, ...]
    statics: tuple[Sym, ...]
    code: Comp
    asked: Mapping[TNode, str]


def canonical(code: Comp, asked: Mapping[TNode, str]) -> Canonical:
    """`asked` are the nodes that somebody wants to keep, and who."""
    writer = _Writer()
    writer.comp(code)
    head = [_node(n, number, asked.get(n)) for n, number in writer.nodes.items()]
    head += [f"t{number} {quoted(s.name)} {s.lo}..{s.hi}" for s, number in writer.statics.items()]
    return Canonical("\n".join([*head, *writer.lines, ""]), tuple(writer.nodes), tuple(writer.statics), code, asked)


def _node(node: TNode, number: int, asked: str | None) -> str:
    dims = ",".join(map(str, node.dims))
    text = f"n{number} {quoted(node.label)} {node.precision.name}[{dims}] {node.role.value}"
    if node.requested:
        text += f" requested {node.requested.value} {quoted(str(node.requested.author))}"
    return text if asked is None else f"{text} asked {quoted(asked)}"


class _Writer:
    def __init__(self) -> None:
        self.lines: list[str] = []
        self.nodes: dict[TNode, int] = {}
        self.statics: dict[Sym, int] = {}
        self.loops: dict[Sym, int] = {}  # of the piece at hand
        self.boxes: dict[int, tuple[dict[Sym, int], str, dict[int, str]]] = {}  # see `piece`
        self.known: dict[int, str] = {}

    def comp(self, code: Comp) -> None:
        stack: list[Comp | str] = [code]
        while stack:
            match stack.pop():
                case Seq(items):
                    stack.extend(reversed(items))
                case Block(text, body):
                    self.lines.append(f"{{ {quoted(text)}")
                    stack += ["}", body]
                case Assign() as assign:
                    self.assign(assign)
                case str() as line:
                    self.lines.append(line)

    def assign(self, assign: Assign) -> None:
        accum = assign.accum.name if assign.accum else "store"
        self.lines.append(f"n{self.node(assign.lhs)} {accum}{' clear' if assign.clear else ''}")
        for piece in assign.pieces:
            box = self.enter(piece)
            when = "" if piece.when.is_true else f" when {self.cond(piece.when)}"
            picks = "".join(f" pick {p.sym.lo}..{p.sym.hi} {self.value(p.value)}" for p in piece.picks)
            self.lines.append(f" [{box}] {self.indices(piece.at)} <- {self.value(piece.value)}{when}{picks}")

    def enter(self, piece: Piece) -> str:
        """The loops by their numbers, and as text. Many pieces have the very same loops, and the very same indices with
        them, which are written once."""
        found = self.boxes.get(id(piece.loops))
        if found is None or piece.picks:
            loops = {sym: n for n, sym in enumerate((*piece.loops, *(pick.sym for pick in piece.picks)))}
            found = loops, " ".join([f"{s.lo}..{s.hi}" for s in piece.loops]), {}
            if not piece.picks:
                self.boxes[id(piece.loops)] = found
        self.loops, box, self.known = found
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
            case Apply(op, args):
                return f"{op.name}({', '.join([self.value(a) for a in args])})"
            case Convert(inner, precision):
                return f"{precision.name}:{self.value(inner)}"

    def node(self, node: TNode) -> int:
        return self.nodes.setdefault(node, len(self.nodes))

    def indices(self, at: tuple[Affine, ...]) -> str:
        text = self.known.get(id(at))
        if text is None:
            text = self.known[id(at)] = ",".join([self.index(a) for a in at])
        return text

    def index(self, index: Affine) -> str:
        if not index.terms:
            return str(index.const)
        terms = sorted([(self.sym(s), c) for c, s in index.terms])
        return "".join([f"{c:+}{kind}{n}" for (kind, n), c in terms]) + (f"{index.const:+}" if index.const else "")

    def sym(self, sym: Sym) -> tuple[str, int]:
        if sym.kind is SymKind.STATIC:
            return "t", self.statics.setdefault(sym, len(self.statics))
        return "l", self.loops[sym]

    def cond(self, cond: Cond) -> str:
        facts = [f"{self.index(a)}>=0" for a in cond.ge0] + [f"{self.index(a)}==0" for a in cond.eq0]
        return " and ".join(facts)
