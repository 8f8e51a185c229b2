"""Pretty-printing of programs: aligned, deterministic, with names from the user's tensors.

    proc step(w: f32[3,7] inout, x: f32[5,7] const; n: 0..9)
      for i in 0..5:                                 # y
        y[i] = relu(x[i, n] * 2)

Precedence is held in one table; an index prints as its affine form.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ocannl.ir import assign as comp
from ocannl.ir.affine import Bound
from ocannl.ir.assign import Origin
from ocannl.ir.host_call import HostCall
from ocannl.ir.loops import (
    Apply,
    BindIndex,
    Body,
    Buf,
    Cast,
    Comment,
    Const,
    Expr,
    For,
    If,
    IndexValue,
    Let,
    Load,
    Local,
    MemorySpace,
    Poll,
    Prefetch,
    Proc,
    ReadClock,
    Ref,
    Stmt,
    Store,
    Update,
    Var,
    When,
    row_major,
)
from ocannl.ir.name_mangling import Namer, identifier
from ocannl.ir.precision import Precision
from ocannl.ir.tnode import TNode

PRECEDENCE = {
    "or": 1, "and": 2, "eq": 3, "ne": 3, "lt": 4, "le": 4, "gt": 4, "ge": 4, "add": 5, "sub": 5,
    "mul": 6, "div": 6, "mod": 6, "neg": 7, "not": 7, "pow": 8,
}  # fmt: skip
SHORT = {"float": "f", "int": "i", "uint": "u"}

Line = tuple[str, Origin | None]
"""A printed line, and the origin of its statement."""

PrintedLoops = dict[tuple[int, int], list[Line]]
"""The lines of loops, by identity and depth."""


def short_name(precision: Precision) -> str:
    """Short name of a precision: `f32` for float32; bool, bfloat16 and 8-bit floats keep their names."""
    stem = precision.name.rstrip("0123456789")
    return SHORT[stem] + precision.name[len(stem) :] if stem in SHORT else precision.name


def format_number(value: float) -> str:
    """The shortest text that reads back as the same number; integral floats print without a fraction."""
    if float(value).is_integer() and abs(value) < 1e15:
        return str(int(value)) if value or str(value)[0] != "-" else "-0.0"
    return repr(value)


def format_infix(name: str, symbol: str, args: list[tuple[str, int]], outer: int) -> str:
    """Prints an operation, parenthesized if it binds less tightly than `outer`; arguments carry their precedence."""
    level = PRECEDENCE.get(name)
    if level is None or not symbol:
        return f"{name}({', '.join(text for text, _ in args)})"
    if len(args) == 1:
        text, inner = args[0]
        out = f"{symbol}({text})" if inner < level else f"{symbol}{text}"
    else:
        (left, a), (right, b) = args
        left = f"({left})" if a < level or (name == "pow" and a <= level) else left
        right = f"({right})" if b <= level else right
        out = f"{left} {symbol} {right}"
    return f"({out})" if level < outer else out


def _level(expr: Expr | comp.Value) -> int:
    match expr:
        case Apply(op, _) | comp.Call(op, _):
            return PRECEDENCE.get(op.name, 9) if op.symbol else 9
        case Const(value, _) | comp.Number(value):
            return 7 if value < 0 else 9
        case IndexValue(index, _) | comp.Index(index):
            return 9 if index.only_sym is not None or (index.is_const and index.const >= 0) else 5
        case When():
            return 0
        case _:
            return 9


def format_ref(ref: Ref) -> str:
    return f"{ref.buf.name}[{', '.join(map(str, ref.indices))}]" if ref.indices else ref.buf.name


def format_expr(expr: Expr, outer: int = 0) -> str:
    match expr:
        case Const(value, _):
            return format_number(value) if value >= 0 or outer <= 7 else f"({format_number(value)})"
        case IndexValue(index, _):
            return str(index) if _level(expr) >= outer else f"({index})"
        case Var(name, _):
            return name
        case Load(ref):
            return format_ref(ref)
        case Apply(op, args):
            return format_infix(op.name, op.symbol, [(format_expr(a), _level(a)) for a in args], outer)
        case When(cond, if_true, if_false):
            text = f"{format_expr(if_true)} if {cond} else {format_expr(if_false)}"
            return f"({text})" if outer or isinstance(if_true, When) else text
        case Cast(value, precision):
            return f"{short_name(precision)}({format_expr(value)})"


def _bound(bound: Bound, lower: bool) -> str:
    parts = []
    for index, div in bound.quotients:
        if div == 1 and index.is_const:
            parts.append(str(index.const if lower else index.const + 1))
        elif div == 1:
            parts.append(str(index if lower else index + 1))
        else:
            parts.append(f"ceildiv({index}, {div})" if lower else f"floordiv({index}, {div})+1")
    if len(parts) == 1:
        return parts[0]
    return f"{'max' if lower else 'min'}({', '.join(parts)})"


def buf_type(buf: Buf) -> str:
    """`f32[5,7]`, with strides if they are not row-major: `f32[5,7]@(1,5)`."""
    if not buf.shape:
        return short_name(buf.precision)
    text = f"{short_name(buf.precision)}[{','.join(map(str, buf.shape))}]"
    return text if buf.strides == row_major(buf.shape) else f"{text}@({','.join(map(str, buf.strides))})"


def _loop_head(loop: For) -> str:
    """`parallel(chunk=4) for i in 0..64`, `vectorized for i in 0..8`, or `for i in 0..64 step 8`."""
    chunk = f"parallel(chunk={loop.parallel_chunk}) " if loop.parallel_chunk else ""
    mode = f"{loop.mode.value} " if loop.mode.value else ""
    step = f" step {loop.step}" if loop.step != 1 else ""
    return f"{chunk}{mode}for {loop.sym.name} in {_bound(loop.lo, True)}..{_bound(loop.hi, False)}{step}"


def _lines(body: Body, depth: int, loops: PrintedLoops | None = None) -> list[Line]:
    lines: list[Line] = []
    _append_lines(lines, body, depth, {} if loops is None else loops)
    return lines


def _append_lines(lines: list[Line], body: Body, depth: int, loops: PrintedLoops) -> None:
    pad = "  " * depth
    for stmt in body:
        match stmt:
            case For():
                key = id(stmt), depth
                if key not in loops:
                    loops[key] = [(f"{pad}{_loop_head(stmt)}:", stmt.origin)]
                    _append_lines(loops[key], stmt.body, depth + 1, loops)
                lines += loops[key]
            case BindIndex(sym, value, inner):
                lines.append((f"{pad}bind {sym.name} in {sym.lo}..{sym.hi + 1} = {format_expr(value)}:", None))
                _append_lines(lines, inner, depth + 1, loops)
            case If(cond, true_body, false_body):
                lines.append((f"{pad}scope:" if cond.is_true and not false_body else f"{pad}if {cond}:", None))
                _append_lines(lines, true_body, depth + 1, loops)
                if false_body:
                    lines.append((f"{pad}else:", None))
                    _append_lines(lines, false_body, depth + 1, loops)
            case Store(ref, value, _, nontemporal):
                text = f"{pad}{'nontemporal ' if nontemporal else ''}{format_ref(ref)} = {format_expr(value)}"
                lines.append((text, statement_origin(stmt)))
            case Update(ref, op, value, _):
                origin = statement_origin(stmt)
                if op.symbol:
                    lines.append((f"{pad}{format_ref(ref)} {op.symbol}= {format_expr(value)}", origin))
                else:
                    target = format_ref(ref)
                    lines.append((f"{pad}{target} = {op.name}({target}, {format_expr(value)})", origin))
            case Let(name, value):
                lines.append((f"{pad}let {name} = {format_expr(value)}", None))
            case Local(buf, init):
                initial = "" if init is None else f" = {format_number(init)}"
                kind = "private" if buf.space is MemorySpace.PRIVATE else "local"
                lines.append((f"{pad}{kind} {buf.name}: {buf_type(buf)}{initial}", None))
            case Comment(text):
                lines.append((f"{pad}# {' '.join(text.split())}", None))
            case Poll():
                lines.append((f"{pad}poll", None))
            case Prefetch(ref, distance, level):
                where = f"level={level}, " if level > 1 else ""
                lines.append((f"{pad}prefetch({where}distance={distance}) {format_ref(ref)}", None))
            case ReadClock(ref):
                lines.append((f"{pad}{format_ref(ref)} = read_clock()", None))


def statement_origin(stmt: Store | Update) -> Origin:
    """The origin of a statement, or if it has none, that of the node whose array it writes: copies of the states of
    loops and of the results of branches have no origin."""
    node = stmt.ref.buf.node
    return stmt.origin if stmt.origin.where or node is None else Origin(node.label, node.where)


def format_stmt(stmt: Stmt) -> str:
    """The first line of a statement."""
    return _lines((stmt,), 0)[0][0]


def print_proc(proc: Proc, origins: bool = False) -> str:
    """Prints the whole program. With `origins`, comments name the tensor and source line of each nest."""
    out = [text for text, _ in header_lines(proc)]
    last: Origin | None = None
    for text, origin in _lines(proc.body, 1):
        if origins and origin is not None and origin != last and (origin.label or origin.where):
            text = f"{text:<60}  # {origin.label}{'  ' + origin.where if origin.where else ''}"
            last = origin
        out.append(text)
    return "\n".join(out) + "\n"


def header_lines(proc: Proc) -> Iterator[Line]:
    """Yields the lines above the statements of the printed program: a header, and a line for each array with the origin
    of its node, None without a node."""
    header = f"proc {proc.name}"
    if proc.syms:
        header += f"({', '.join(f'{s.name} in {s.lo}..{s.hi + 1}' for s in proc.syms)})"
    yield header, None
    name_width = max((len(buf.name) for buf in proc.bufs), default=0)
    types = [buf_type(buf) for buf in proc.bufs]
    type_width = max(map(len, types), default=0)
    for buf, type_text in zip(proc.bufs, types, strict=True):
        where = f" at {buf.offset}" if buf.offset is not None else ""
        placement = f"{buf.access.value}" if buf.space is MemorySpace.GLOBAL else f"{buf.space.value}{where}"
        origin = None if buf.node is None else Origin(buf.node.label, buf.node.where)
        yield f"  {buf.name:<{name_width}} : {type_text:<{type_width}}  {placement}", origin


def statement_lines(stmt: Stmt, loops: PrintedLoops | None = None) -> list[Line]:
    """The lines of a statement of the outermost level, as in the printed program, and their origins, None for lines
    without one."""
    return _lines((stmt,), 1, loops)


# --- Comp ------------------------------------------------------------------------------------------------------------


NodeNames = Callable[[TNode], str]


def node_names(code: comp.Comp) -> NodeNames:
    """Labels as unique identifiers: `w`, `w_2`; gradients are named after their values."""
    namer = Namer()
    names: dict[TNode, str] = {}

    def name(node: TNode) -> str:
        if node not in names:
            names[node] = f"{name(node.gradient_of)}.grad" if node.gradient_of is not None else namer(node.label)
        return names[node]

    for node in comp.nodes(code):
        name(node)
    return name


def format_value(value: comp.Value, named: NodeNames = lambda node: identifier(node.label), outer: int = 0) -> str:
    match value:
        case comp.Read(node, at, outside, merge):
            name = named(node) + (".merge" if merge else "")
            inner = ", ".join(map(str, at))
            guard = "" if outside is None else f" else {format_number(outside)}"
            return f"{name}[{inner}{guard}]" if at else name
        case comp.Number(number_):
            return format_number(number_) if number_ >= 0 or outer <= 7 else f"({format_number(number_)})"
        case comp.Index(index):
            return str(index) if _level(value) >= outer else f"({index})"
        case comp.Call(op, args):
            return format_infix(op.name, op.symbol, [(format_value(a, named), _level(a)) for a in args], outer)
        case comp.Convert(inner_value, precision):
            return f"{short_name(precision)}({format_value(inner_value, named)})"


def _accum(assign: comp.Assign) -> str:
    if assign.accum is None:
        return "=:"
    symbol = assign.accum.symbol or {"max": "@^", "min": "@-"}.get(assign.accum.name, assign.accum.name)
    return f"=:{symbol}" if assign.clear else f"={symbol}"


def _comp_lines(code: comp.Comp, depth: int, named: NodeNames) -> Iterator[str]:
    pad = "  " * depth
    match code:
        case comp.Seq(items):
            for item in items:
                yield from _comp_lines(item, depth, named)
        case comp.LabeledBlock(text, body):
            yield f"{pad}# {' '.join(text.split())}"
            yield from _comp_lines(body, depth + 1, named)
        case comp.Loop(sym, body):
            yield f"{pad}for {sym.name} in {sym.lo}..{sym.hi + 1}:"
            yield from _comp_lines(body, depth + 1, named)
        case comp.Conditional(condition, body):
            yield f"{pad}if {format_value(condition, named)}:"
            yield from _comp_lines(body, depth + 1, named)
        case HostCall():
            yield f"{pad}{_host_call(code, named)}"
        case comp.Assign():
            for piece in code.pieces:
                loops = " ".join(f"{s.name}<{s.hi + 1}" for s in piece.loops)
                when = "" if piece.when.is_true else f" when {piece.when}"
                when += "".join(f" where {p.sym.name} is {format_value(p.value, named)}" for p in piece.indirect)
                at = f"[{', '.join(map(str, piece.indices))}]" if piece.indices else ""
                left = f"{named(code.lhs)}{at} {_accum(code)} {format_value(piece.value, named)}{when}"
                yield f"{pad}{left}" + (f"    over {loops}" if loops else "")


def _host_call(call: HostCall, named: NodeNames) -> str:
    outputs = ", ".join("_" if node is None else named(node) for node in call.outputs)
    inputs = ", ".join(named(n) if isinstance(n, TNode) else format_number(n) for n in call.inputs)
    return f"{outputs} =: host {call.name}({inputs})"


def print_comp(code: comp.Comp) -> str:
    """Prints assignments, one per line, with their iteration domains."""
    return "".join(f"{line}\n" for line in _comp_lines(code, 0, node_names(code)))
