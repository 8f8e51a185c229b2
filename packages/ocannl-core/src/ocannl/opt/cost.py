"""What scalar expressions cost, in additions."""

from __future__ import annotations

from dataclasses import dataclass

from ocannl.ir.loops import Apply, Cast, Expr, Load, When

HEAVY = {
    "div": 3, "recip": 3, "sqrt": 3, "recip_sqrt": 5, "mod": 8,
    "exp": 18, "exp2": 16, "log": 28, "log2": 27, "sin": 26, "cos": 28, "tanh": 34, "pow": 80,
    "threefry4x32_20": 170, "threefry4x32_12": 110,
}  # fmt: skip
FREE = ("id", "fst", "snd")


@dataclass(frozen=True, slots=True)
class Cost:
    """`work`: operations, and loads after the first; `nodes`: the size of the tree."""

    work: int
    nodes: int


def cost(expr: Expr, shares: bool = False) -> Cost:
    """With `shares`, of a target that computes once what the expression has twice."""
    work = nodes = loads = 0
    stack, met = [expr], set[Expr]()
    while stack:
        nodes += 1
        node = stack.pop()
        if shares:
            if node in met:
                continue
            met.add(node)
        match node:
            case Apply(op, args):
                work += 0 if op.name in FREE else HEAVY.get(op.name, 1)
                stack.extend(args)
            case Cast(value, precision):
                for kind in (precision, value.precision):
                    work += 1 if kind.is_float and kind.nbytes < 4 else 0  # steps or tables on many targets
                stack.append(value)
            case When(_, then, orelse):
                stack += (then, orelse)
            case Load():
                loads += 1
            case _:
                pass
    return Cost(work + max(0, loads - 1), nodes)
