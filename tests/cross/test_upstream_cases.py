"""The cases that upstream's tests and documents give: each is run here, or listed with what overrides it.

A case is called as upstream's list calls it. `R(shape)` holds 0, 1, 2, ... in memory order: batch, output, input.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import chain
from typing import Any

import numpy as np
import pytest

import ocannl as oc
from ocannl import train
from ocannl.base.errors import CodeError, DataError
from ocannl.infer.broadcast import order_rows
from ocannl.infer.mismatch import Mismatch
from ocannl.infer.parse import parse_shape
from ocannl.infer.solve import propagate
from ocannl.infer.spec import Fixed, RowSpec
from ocannl.infer.terms import DimVar, Row, RowVar, Trail, resolve
from ocannl.infer.unify import bind
from ocannl.ir.affine import Affine, Sym
from ocannl.ir.projections import is_injective, is_surjective

AREAS = {
    "SI": "01 03 05 07 09 11 13 15 17 19 21 23 25 27 29 31 33 35 37 39 41 43 45 47 49 51 53 55 57 59 61",
    "CC": "01 02 03 04 05 06 07 08 09 10 11 12",
    "CV": "01 03 05 07 09 11 13 15 17 19 21",
    "PJ": "01 03 05 07 09 11 13 15",
    "EI": "01 03 05 07 09 11 13 15 17 19 21 23 25 27 29 31 33 35 37",
    "CO": "01 03 05 07 09 11 13 15 17 19",
    "VR": "01 03 05 07 09 11 13 15 17 19 21",
}
PRINTED = [f"{area}-{number}" for area, numbers in AREAS.items() for number in numbers.split()]

NO_GUESS = (
    "how much two concatenations are together says little about their parts: upstream pairs "
    "the oldest parts, here the error asks for a size (every claim has a witness; nothing is guessed)"
)

OVERRIDDEN = {
    "SI-13": "satisfiable: the variable is the axis in front; upstream's guard on the trailing flank is incomplete",
    "SI-17": "an axis without a unit takes its partner's; only two units clash",
    "SI-21": "there are no reserved units: an axis without one is a wildcard, and one of size 1 stretches",
    "SI-27": "what made a tensor tells where axes are inserted, whatever the order: here, in front of the 7",
    "SI-35": "an axis of size 1 without a unit stretches, however it came about; one with a unit does not",
    "SI-43": "parameters start centered uniform in [-0.25, 0.25), keyed by seed and path, not by the number of a node",
    "CC-02": NO_GUESS,
    "CC-03": NO_GUESS,
    "CC-04": NO_GUESS,
    "CC-09": NO_GUESS,
    "CC-10": NO_GUESS,
    "CC-11": NO_GUESS,
    "PJ-05": "decided exactly, without the radix rule: 3a+4b with ranges 3 and 2 is injective",
    "EI-25": "an axis that a result writes as `0` has size 1; unit vectors say which coordinate a grid gives",
}

# --- the words of the tables ------------------------------------------------------------------------------------------


def leaf(label: str, shape: str = "?") -> oc.Tensor:
    """A placeholder of rows `batch|input->output`; `?` is a row of which nothing is said."""
    match = re.fullmatch(r"(?:(.*)\|)?(?:(.*)->)?(.*)", shape)
    assert match is not None
    rows = [None if row == "?" else [size(a) for a in (row or "").split(",") if a] for row in match.groups()]
    return oc.placeholder(label, batch=rows[0], input=rows[1], output=rows[2])


def size(text: str) -> Any:
    """`3`, or `3 rgb` with its unit."""
    number, _, unit = text.strip().partition(" ")
    return (unit, int(number)) if unit else int(number)


def R(shape: str) -> oc.Tensor:
    match = re.fullmatch(r"(?:(.*)\|)?(?:(.*)->)?(.*)", shape)
    assert match is not None
    batch, input, output = ([int(a) for a in (row or "").split(",") if a] for row in match.groups())
    dims = (*batch, *output, *input)
    cells = np.arange(np.prod(dims, dtype=int), dtype="float32").reshape(dims)
    return oc.tensor(cells, batch_axes=len(batch), input_axes=len(input))


def ones(*dims: int) -> oc.Tensor:
    return oc.tensor(np.ones(dims, "float32"))


def vector(*cells: float) -> oc.Tensor:
    return oc.tensor(np.array(cells, "float32"))


E = oc.einsum


def named(rows: tuple[tuple[Any, ...], ...]) -> list[Any]:
    """Rows of a table as parameters: the second case of an id is called `-2`."""
    seen: dict[str, int] = {}
    params = []
    for row in rows:
        seen[row[0]] = n = seen.get(row[0], 0) + 1
        params.append(pytest.param(*row[1:], id=row[0] if n == 1 else f"{row[0]}-{n}"))
    return params


def tensors(result: Any) -> tuple[Any, ...]:
    return result if isinstance(result, tuple) else (result,)


# --- shapes -----------------------------------------------------------------------------------------------------------


def with_units(t: oc.Tensor) -> str:
    """The shape, with units: `5 x`."""
    shape = t.shape
    rows = [",".join(f"{a.size} {a.unit or ''}".strip() for a in r) for r in (shape.batch, shape.input, shape.output)]
    return (f"{rows[0]}|" if rows[0] else "") + (f"{rows[1]}->" if rows[1] else "") + rows[2]


def added_to(t: oc.Tensor, *partners: oc.Tensor) -> oc.Tensor:
    """The tensor, after it has met others cell by cell."""
    for partner in partners:
        t + partner
    return t


def orders(first: int) -> tuple[oc.Tensor, ...]:
    """alpha is used with 3, beta receives alpha: in either order."""
    alpha, beta = leaf("alpha", "?"), leaf("beta", "?")

    def use() -> None:
        alpha + leaf("k", "3")

    def receive() -> None:
        with oc.cd("copy"):
            beta[...] = alpha

    for act in (use, receive) if first == 0 else (receive, use):
        act()
    return alpha, beta


def periodic(a: int, b: int) -> tuple[oc.Tensor, ...]:
    """[..r.., a] = [..r.., b] of one tensor."""
    x = leaf("x", "?")
    return x, E("..r.., p; ..r.., q => ..r..", x, x, p=a, q=b)


def grown() -> tuple[oc.Tensor, ...]:
    """[7] and a row of which nothing is said: it ends behind the 7, and broadcasting goes on in front of it."""
    x = leaf("x", "?")
    E("a, ... => ...", x, a=7)
    assert str(x.shape) == "7"
    return x, x + leaf("k", "3,7")


def bounds(*parts: int) -> oc.Tensor:
    """A vector that meets concatenations of pairs of sizes."""
    x = leaf("x", "?")
    for n in range(0, len(parts), 2):
        a, b = leaf(f"a{n}", f"{parts[n]}"), leaf(f"b{n}", f"{parts[n + 1]}")
        x + oc.concat("a; b => a^b", a, b)
    return x


def twice_itself() -> tuple[oc.Tensor, ...]:
    """Two uses of a vector as `v^v`."""
    x = leaf("x", "?")
    v = leaf("v", "4")
    x + oc.concat("v; v => v^v", v, v)
    x + oc.concat("v; v => v^v", v, v)
    return x, oc.concat("v^v => v", x)


def nested() -> tuple[oc.Tensor, ...]:
    """(a^b)^c = d^e^f, of which two are said."""
    joint = oc.concat("p; c => p^c", oc.concat("a; b => a^b", leaf("a", "2"), leaf("b", "3")), leaf("c", "4"))
    return joint, oc.concat("d^e^f => f", joint, d=2, e=3), oc.concat("d^e^f => d", joint, e=3, f=4)


def affine(first: int) -> tuple[oc.Tensor, ...]:
    """a^b against a concatenation with a strided axis; then a is 5 and b is 7."""
    a, b, o, p = leaf("a", "?"), leaf("b", "?"), leaf("o", "?"), leaf("p", "?")
    joint = oc.concat("a; b => a^b", a, b)
    partner = oc.concat("s; p => s^p", E("i => 2*i", o), p)
    joint + partner
    acts = [
        lambda: a + leaf("k", "5"),
        lambda: b + leaf("l", "7"),
        lambda: o + leaf("m", "3"),
        lambda: p + leaf("n", "6"),
    ]
    for act in acts if first == 0 else reversed(acts):
        act()
    return a, b, o, p, joint, partner


def total_of_seven() -> tuple[oc.Tensor, ...]:
    c = oc.param("c")
    joint = oc.concat("a; b; c => a^b^c", leaf("a", "2"), leaf("b", "3"), c)
    return c, joint + leaf("k", "7")


def captured(spec: str, *xs: oc.Tensor, **sizes: int) -> tuple[oc.Tensor, ...]:
    """The operands and the result, with sizes that captures are set to."""
    dims = {name: oc.Dim(name) for name in sizes}
    y = E(spec, *xs, **dims)
    for name, dim in dims.items():
        dim.set(sizes[name])
    return (*xs, y)


def set_equal() -> tuple[oc.Tensor, ...]:
    v, w, x, y = oc.Dim("v"), oc.Dim("w"), leaf("x", "?"), leaf("y", "?")
    E("v => v", x, v=v)
    E("w => w", y, w=w)
    v.set(42)
    v.equal(w)
    return x, y


def row_equals_axis() -> tuple[oc.Tensor, ...]:
    s, test_dim, y = oc.Dim("s"), oc.Dim("test_dim"), leaf("y", "?")
    E("..s.. => ..s..", leaf("x", "2,3"), s=s)
    E("d => d", y, d=test_dim)
    s.equal(test_dim)
    return (y,)


def mixed() -> tuple[oc.Tensor, ...]:
    mix, n = oc.Dim("mix"), oc.Dim("n")
    y = E("..mix.., n => n, ..mix..", leaf("m1", "2,4,8"), mix=mix, n=n)
    mix.equal(n)
    return (y,)


def scaled() -> tuple[oc.Tensor, ...]:
    i, k, x, y = oc.Dim("i"), oc.Dim("k"), leaf("x", "?"), leaf("y", "?")
    E("i => i", x, i=i)
    E("k => k", y, k=k)
    k.scale(i, 2)
    i.set(4)
    return x, y


SHAPES = (
    ("SI-07", lambda: periodic(3, 3), ("3", "")),
    ("SI-15", lambda: orders(0), ("3", "3")),
    ("SI-15", lambda: orders(1), ("3", "3")),
    ("SI-19", lambda: leaf("a", "5 rgb") + leaf("b", "1"), ("5 rgb",)),
    ("SI-19", lambda: leaf("a", "5") + leaf("b", "1"), ("5",)),
    ("SI-19", lambda: leaf("a", "7 xyz") + leaf("b", "1"), ("7 xyz",)),
    ("SI-29", lambda: added_to(leaf("x", "?"), leaf("k", "3,7"), leaf("l", "5,7")), ("1,7",)),
    ("SI-29", lambda: added_to(leaf("x", "?"), leaf("k", "3,7"), leaf("l", "3,11")), ("3,1",)),
    ("SI-31", lambda: (x := leaf("x", "3,5,3")) + E("a, b, ..r.. => ..r.., b, a", x), ("3,5,3",)),
    ("SI-33", lambda: leaf("a", "4 batch|") + leaf("b", "4 batch|"), ("4 batch|",)),
    ("SI-37", lambda: oc.concat("a; b => a^b", leaf("a", "2 x"), leaf("b", "3")), ("5 x",)),
    ("SI-39", lambda: E("i => 2*i", leaf("a", "4 x")), ("8 x",)),
    ("SI-39", lambda: E("2*i => i", leaf("a", "8 x")), ("4 x",)),
    ("SI-49", lambda: oc.tensor(np.ones((2, 3)), batch_axes=1, units=("examples", None)), ("2 examples|3",)),
    ("SI-49", lambda: oc.tensor([1.0]) + leaf("k", "3"), ("3",)),
    ("SI-49", lambda: oc.tensor(np.ones((3, 2)), units=("rows", None)), ("3 rows,2",)),
    ("SI-53", lambda: oc.tensor([((1, 2, 3), (4, 5, 6))] * 4), ("2,3->4",)),
    ("SI-53", lambda: oc.tensor(oc.batch(*[[[1, 2, 3], [4, 5, 6]]] * 4)), ("4|2,3",)),
    ("SI-55", lambda: E("i, f; j, f => i, j, f", leaf("a", "3,4"), leaf("b", "3,4")), ("3,3,4",)),
    (
        "SI-57",
        lambda: E("..g.. | v, u; ..g.. | u, f => ..g.. | v, f", leaf("a", "2|3,5"), leaf("b", "2|5,4")),
        ("2|3,4",),
    ),
    ("SI-59", lambda: leaf("a", "2|3") + leaf("b", "3"), ("2|3",)),
    ("CC-01", twice_itself, ("8", "4")),
    ("CC-06", lambda: bounds(2, 3, 1, 4), ("5",)),
    ("CC-07", lambda: bounds(2, 3, 2, 4), ("1",)),
    ("CC-12", lambda: affine(0), ("5", "7", "3", "6", "12", "12")),
    ("CC-12", lambda: affine(1), ("5", "7", "3", "6", "12", "12")),
    ("CV-01", lambda: E("2*o<+k; k => o", leaf("x", "4"), leaf("k", "2")), ("2",)),
    (
        "CV-03",
        lambda: E("i=+a, j=+b, c; a, b, c->d => i, j, d", leaf("x", "5,5,1"), leaf("k", "3,3,1->4")),
        ("5,5,4",),
    ),
    ("CV-07", lambda: E("2*i<+a, 2*j<+b; a, b => i, j", leaf("x", "9,9"), leaf("k", "3,3")), ("4,4",)),
    ("CV-19", lambda: E("o<+k; k => o", leaf("x", "5"), leaf("k", "2")), ("4",)),
    ("CV-21", lambda: E("i => 2*i", leaf("x", "3")), ("6",)),
    ("EI-01", lambda: E("b|i->o => o|b->i", R("2|3->4")), ("4|2->3",)),
    ("EI-13", lambda: E("...b|...i->...o => ...i|...o->...b", R("2,3|4,5->6,7")), ("2,5|4,7->6,3",)),
    ("EI-19", lambda: E("i->...; j->... => ...ij", R("2->3"), R("4->3")), ("3,2,4",)),
    ("EI-21", lambda: E("...|...->... => ...|...->0", R("2|3->4")), ("2|3->1",)),
    ("CO-07", total_of_seven, ("2", "7")),
    ("CO-11", lambda: oc.block(oc.batch(leaf("x", "2"), leaf("y", "2"))), ("2|2",)),
    ("CO-13", lambda: oc.block([leaf(f"x{n}", "3") for n in range(3)]), ("3,3",)),
    ("CO-13", lambda: oc.block([[leaf("a", "3"), leaf("b", "3")], [leaf("c", "3"), leaf("d", "3")]]), ("2,2,3",)),
    ("CO-13", lambda: oc.block([[[leaf(f"x{i}{j}{k}", "3") for k in "ab"] for j in "ab"] for i in "ab"]), ("2,2,2,3",)),
    (
        "CO-15",
        lambda: oc.block(oc.batch(*[[(leaf(f"x{i}{j}", "3"), leaf(f"y{i}{j}", "3")) for j in "ab"] for i in "ab"])),
        ("2|2->2,3",),
    ),
    ("CO-17", lambda: oc.block([leaf("m1", "2->2"), leaf("m2", "2->2")]), ("2->2,2",)),
    ("VR-03", set_equal, ("42", "42")),
    ("VR-05", row_equals_axis, ("6",)),
    ("VR-07", lambda: E("abc; bcd => ad", leaf("x", "3,5,7"), leaf("y", "5,7,3")), ("3,3",)),
    ("VR-09", mixed, ("8,2,4",)),
    (
        "VR-11",
        lambda: captured("ij; jk => ik", oc.param("a", i=[]), oc.param("b", i=[]), i=3, j=4, k=5),
        ("3,4", "4,5", "3,5"),
    ),
    (
        "VR-13",
        lambda: captured("pqr; rst => pqst", oc.param("a", i=[]), oc.param("b", i=[]), p=4, q=5, r=6, s=5, t=4),
        ("4,5,6", "6,5,4", "4,5,5,4"),
    ),
    ("VR-19", scaled, ("4", "8")),
)


@pytest.mark.parametrize(("program", "want"), named(SHAPES))
def test_shape(program, want):
    assert tuple(map(with_units, tensors(program()))) == want


# --- refusals ---------------------------------------------------------------------------------------------------------


def periodic_in_front() -> Any:
    """[3]·r = r·[5]"""
    x = leaf("x", "?")
    return E("p, ..r..; ..r.., q => ..r..", x, x, p=3, q=5).dims


def scaled_wrongly() -> None:
    large, small = oc.Dim("large"), oc.Dim("small")
    large.set(17)
    small.set(8)
    large.scale(small, 2)


def scaled_later() -> None:
    i, k, x, y = oc.Dim("i"), oc.Dim("k"), leaf("x", "?"), leaf("y", "?")
    E("i => i", x, i=i)
    E("k => k", y, k=k)
    k.scale(i, 2)
    i.set(8)
    k.set(15)


REFUSED = (
    ("SI-05", periodic_in_front, oc.ShapeError, "3|5"),
    ("SI-07", lambda: periodic(3, 5), oc.ShapeError, "3.*5|5.*3"),
    ("SI-41", lambda: E("o<+k; k => o", leaf("x", "6 x"), leaf("k", "3 y")), oc.ShapeError, "units|x.*y|y.*x"),
    ("SI-45", lambda: (oc.param("w", oc.uniform()) @ vector(3, 4, 5)).dims, oc.ShapeError, "output row of `w`"),
    (
        "SI-47",
        lambda: (vector(1, 2) + oc.param("w", oc.uniform()) @ oc.param("x", oc.uniform())).dims,
        oc.ShapeError,
        "forgot a hidden dimension.*`x`",
    ),
    ("SI-61", lambda: E("i => i", leaf("x", "2|3")).dims, oc.ShapeError, "batch row"),
    ("CV-01", lambda: E("2*o<+k; k => o", leaf("x", "5"), leaf("k", "2")).dims, oc.ShapeError, "stride"),
    ("CO-19", lambda: oc.stack([]), DataError, "at least one tensor"),
    ("CO-19", lambda: oc.block([]), DataError, "empty block"),
    ("VR-15", scaled_wrongly, oc.ShapeError, "large.*17|17.*large"),
    ("VR-17", lambda: oc.Dim("large").scale(oc.Dim("small"), 0), oc.ShapeError, "factor"),
    ("VR-19", scaled_later, oc.ShapeError, "15"),
)


@pytest.mark.parametrize(("program", "error", "message"), named(REFUSED))
def test_refusal(program, error, message):
    with pytest.raises(error, match=f"(?s){message}"):
        program()


# --- rows, as the solver has them -------------------------------------------------------------------------------------


def row(lead: tuple[int, ...], var: RowVar | None, trail: tuple[int, ...]) -> Row:
    return Row(tuple(map(DimVar, lead)), var, tuple(map(DimVar, trail)))


def under(*pairs: tuple[Row, Row]) -> bool:
    """Whether each first row fits under the second, for all that is said at once."""
    trail = Trail()
    try:
        for res, opnd in pairs:
            order_rows(trail, res, opnd, 0, False)
        propagate(trail)
    except Mismatch:
        return False
    return True


def sizes(row: Row) -> tuple[list[int | None], list[int | None]]:
    return [d.size for d in row.lead], [d.size for d in row.trail]


def substituted() -> tuple[list[int | None], list[int | None]]:
    trail, var = Trail(), RowVar()
    open_row = row((3,), var, (7,))
    bind(trail, var, row((), None, (4,)))
    return sizes(resolve(open_row))


def chased(ahead: bool) -> bool:
    """Two rows, each longer than the other."""
    first, second = RowVar(), RowVar()
    plain = [row((), var, ()) for var in (first, second)]
    longer = [row((size,), var, ()) if ahead else row((), var, (size,)) for var, size in ((first, 3), (second, 2))]
    return under((plain[0], longer[1]), (plain[1], longer[0]))


def shifted() -> bool:
    var = RowVar()
    return under((row((3,), var, ()), row((), var, (3,))))


FACTS = (
    ("SI-01", lambda: chased(ahead=False), False),
    ("SI-03", lambda: chased(ahead=True), False),
    ("SI-09", lambda: under((row((3,), None, ()), row((), None, (3,)))), True),
    ("SI-09", lambda: under((row((3,), None, (5,)), row((), None, (5,)))), True),
    ("SI-11", shifted, True),
    (
        "SI-23",
        lambda: parse_shape("3, ..rho.., 7").output,
        RowSpec((Fixed(3),), "rho", (Fixed(7),)),
    ),
    ("SI-25", substituted, ([3], [4, 7])),
    ("CC-05", lambda: "?" in str(open_sum("a^b^c => a, b, c", "d^e => d, e")), True),
    ("CC-08", lambda: "." in str(bounds(2, 3, 2, 4).known_shape), True),
    ("PJ-01", lambda: injective({"oh": 3, "wh": 2}, oh=2, wh=1), True),
    ("PJ-03", lambda: injective({"i": 4, "j": 3}, i=3, j=1), True),
    ("PJ-07", lambda: injective({"oh": 3, "wh": 2}, oh=2, wh=1), True),
    ("PJ-07", lambda: surjective({"oh": 3, "wh": 2}, 6, oh=2, wh=1), True),
)


def open_sum(*specs: str) -> Any:
    x = leaf("x", "?")
    for spec in specs:
        oc.concat(spec, x)
    return x.known_shape


def index(ranges: dict[str, int], coefs: dict[str, int]) -> tuple[Affine, list[Sym]]:
    loops = {name: Sym(name, 0, count - 1) for name, count in ranges.items()}
    return Affine.sum([(coef, loops[name]) for name, coef in coefs.items()]), list(loops.values())


def injective(ranges: dict[str, int], **coefs: int) -> bool:
    at, loops = index(ranges, coefs)
    return is_injective([at], loops)


def surjective(ranges: dict[str, int], cells: int, **coefs: int) -> bool:
    at, loops = index(ranges, coefs)
    return is_surjective([at], loops, [cells])


@pytest.mark.parametrize(("program", "want"), named(FACTS))
def test_fact(program, want):
    assert program() == want


# --- loops ------------------------------------------------------------------------------------------------------------

LOOPS = (
    (
        "PJ-07",
        lambda: E("o, k => 2*o<+k", R("3,2")),
        ["for o in 0..3:", "for k in 0..2:", "y[k+2*o] = x[o, k]"],
    ),
    ("PJ-13", lambda: E("ij => ji", R("3,4")), ["for j in 0..4:", "for i in 0..3:", "y[j, i] = x[i, j]"]),
    ("PJ-15", lambda: E("ij => ji", R("1,3")), ["for j in 0..3:", "y[j, 0] = x[0, j]"]),
)


@pytest.mark.parametrize(("program", "want"), named(LOOPS))
def test_loops(program, want):
    """No cell is cleared, none is added to, and an axis of size 1 has no loop."""
    y = program().with_label("y")
    printed = oc.Context("numpy").compile(y.forward).stages()["lower"].replace("data", "x")
    lines = [line.strip() for line in printed.splitlines()]
    assert [line for line in lines if line.startswith("for ") or " = " in line or "+=" in line] == want


# --- values -----------------------------------------------------------------------------------------------------------


def windows(spec: str, x: oc.Tensor, **names: Any) -> oc.Tensor:
    return E(spec, x, reduce="max", **names)


def lhs(spelling: str, logic: str, root: Callable[[], oc.Tensor]) -> Callable[[], Any]:
    """Code that assigns under explicit logic, and the node it writes."""

    def program() -> Any:
        c = oc.node("c")
        with oc.cd("code") as code:
            c[spelling, logic] = root()
        return code, c

    return program


def grid() -> oc.Tensor:
    """The positions (i, j, k) of a 4 x 5 x 6 grid."""
    il, jl, kl = (E("n; l => nl", R(str(n)), oc.tensor(row)) for n, row in zip((4, 5, 6), np.eye(3), strict=True))
    return E("ijl; kl => ijkl", E("il; jl => ijl", il, jl, combine="add"), kl, combine="add")


def interleaved() -> tuple[oc.Tensor, ...]:
    y = E("i => 2*i", vector(1, 2, 3)) + E("i => 2*i+1", vector(4, 5, 6))
    return y, E("2*i => i", y), E("2*i+1 => i", y)


def split() -> tuple[oc.Tensor, ...]:
    five = vector(1, 2, 3, 4, 5)
    a, b = oc.concat("a^b => a", five, b=3), oc.concat("a^b => b", five, a=2)
    return a, b, oc.concat("a; b => a^b", a, b)


def swapped(x: oc.Tensor) -> oc.Tensor:
    swap = oc.tensor(np.array([[[0, 1], [1, 0]]] * 2, "float32"))
    eye = oc.tensor(np.array([[[1, 0], [0, 1]]] * 2, "float32"))
    return E("bij; bjk; bkm => bim", x, swap, eye)


def captures() -> tuple[Any, ...]:
    names = {name: oc.Dim(name) for name in ("a", "b", "c", "i", "j", "r")}
    x, y = leaf("x", "2,3,4"), leaf("y", "5,7,3,4")
    E("a, b, c; i, j, ..r.. => a, i", x, y, **names)
    return tuple(names[n] * oc.tensor(1.0) for n in ("a", "b", "c", "i", "j", "r"))


A, B = np.arange(24.0).reshape(2, 4, 3), np.arange(40.0).reshape(2, 5, 4)


def products() -> oc.Tensor:
    return E("a|i->h; b|h->o => ab|i->o", R("2|3->4"), R("2|4->5"))


def scaled_by_root() -> oc.Tensor:
    """The size is set after it was used as a number."""
    d = oc.Dim("d")
    total = E("...|i; i->h => ...|h", R("2|3"), oc.param("w", 1.0), h=d) / oc.sqrt(d)
    d.set(4)
    return total


EYE, SWAP = np.eye(2, dtype="float32"), np.eye(2, dtype="float32")[::-1].copy()

VALUES = (
    ("SI-51", lambda: 2 * oc.param("hey", 7.0), (14.0,)),
    (
        "CV-05",
        lambda: E("i<+a, j<+b; a, b => i, j", R("5,5"), ones(3, 3)),
        ([[54, 63, 72], [99, 108, 117], [144, 153, 162]],),
    ),
    ("CV-09", lambda: E("o=+k; k => o", vector(1, 2, 3, 4), ones(2)), ([1, 3, 5, 7],)),
    (
        "CV-11",
        lambda: windows("2*i<+a, 2*j<+b, c => i, j, c", R("7,7,2"), a=3, b=3),
        ([[[32, 33], [36, 37], [40, 41]], [[60, 61], [64, 65], [68, 69]], [[88, 89], [92, 93], [96, 97]]],),
    ),
    (
        "CV-13",
        lambda: windows("2*i<+a, 2*j<+b, c => i, j, c", R("4,4,3"), a=2, b=2),
        ([[[15, 16, 17], [21, 22, 23]], [[39, 40, 41], [45, 46, 47]]],),
    ),
    (
        "CV-15",
        lambda: E("2*i<+a, 2*j<+b; a, b => i, j", R("4,4"), R("2,2"), reduce="max", combine="add"),
        ([[8, 10], [16, 18]],),
    ),
    ("CV-19", lambda: E("o<+k; k => o", vector(1, 2, 3, 4, 5), ones(2)), ([3, 5, 7, 9],)),
    ("CV-21", lambda: E("i => 2*i", vector(1, 2, 3)), ([1, 0, 2, 0, 3, 0],)),
    ("PJ-09", lambda: E("o, k => 2*o<+k", oc.tensor(np.arange(10.0, 16).reshape(3, 2))), ([10, 11, 12, 13, 14, 15],)),
    (
        "PJ-09",
        lambda: oc.keep(E("o, k => 2*o<+k", oc.tensor(np.arange(10.0, 16).reshape(3, 2)))) + 0,
        ([10, 11, 12, 13, 14, 15],),
    ),
    ("PJ-11", lambda: E("i => ii", R("5")), (np.diag(np.arange(5.0)),)),
    ("EI-01", lambda: E("b|i->o => o|b->i", R("2|3->4")), (np.arange(24.0).reshape(2, 4, 3).transpose(1, 2, 0),)),
    ("EI-03", lambda: E("b|i->o => b|i", R("2|3->4")), ([[18, 22, 26], [66, 70, 74]],)),
    ("EI-05", lambda: E("i; j => i->j", R("2") + 1, R("3")), ([[0, 0], [1, 2], [2, 4]],)),
    (
        "EI-07",
        lambda: E("b|i->o; b|i->o => b|i->o", a := R("2|3->4"), a),
        (np.arange(24.0).reshape(2, 4, 3) ** 2,),
    ),
    (
        "EI-09",
        lambda: (y := products(), E("0,1|i->o => o,i", y), E("1,0|i->o => o,i", y)),
        (
            np.einsum("ahi,boh->aboi", A, B),
            [[402, 488, 574], [474, 576, 678], [546, 664, 782], [618, 752, 886], [690, 840, 990]],
            [[114, 120, 126], [378, 400, 422], [642, 680, 718], [906, 960, 1014], [1170, 1240, 1310]],
        ),
    ),
    (
        "EI-11",
        lambda: E("a|i->h; b|h->o => i->o", R("2|3->4"), R("2|4->5")),
        (
            [
                [1992, 2176, 2360],
                [2664, 2912, 3160],
                [3336, 3648, 3960],
                [4008, 4384, 4760],
                [4680, 5120, 5560],
            ],
        ),
    ),
    (
        "EI-13",
        lambda: E("...b|...i->...o => ...i|...o->...b", R("2,3|4,5->6,7")),
        (np.arange(5040.0).reshape(2, 3, 6, 7, 4, 5).transpose(0, 5, 2, 1, 4, 3),),
    ),
    ("EI-15", lambda: E("...|...->...o => o", R("3,4")), ([12, 15, 18, 21],)),
    (
        "EI-17",
        lambda: E("...|i->...; ...|...->i => ...|i", R("3|4->2"), R("3|1->4")),
        ([[0, 6, 16, 30], [80, 110, 144, 182], [288, 342, 400, 462]],),
    ),
    (
        "EI-19",
        lambda: E("i->...; j->... => ...ij", R("2->3"), R("4->3")),
        (
            [
                [[0, 0, 0, 0], [0, 1, 2, 3]],
                [[8, 10, 12, 14], [12, 15, 18, 21]],
                [[32, 36, 40, 44], [40, 45, 50, 55]],
            ],
        ),
    ),
    ("EI-21", lambda: E("...|...->... => ...|...->0", R("2|3->4")), ([[[18, 22, 26]], [[66, 70, 74]]],)),
    (
        "EI-23",
        lambda: E("...|i->1; ...|j...->i => ...|ij", R("3|4->2"), R("3|2,3->4")),
        (
            [
                [[12, 48], [105, 150], [234, 288], [399, 462]],
                [[900, 1008], [1209, 1326], [1554, 1680], [1935, 2070]],
                [[2940, 3120], [3465, 3654], [4026, 4224], [4623, 4830]],
            ],
        ),
    ),
    ("EI-27", interleaved, ([1, 4, 2, 5, 3, 6], [1, 2, 3], [4, 5, 6])),
    ("EI-29", lambda: swapped(R("2,2,2") + 1), ([[[2, 1], [4, 3]], [[6, 5], [8, 7]]],)),
    ("EI-35", lambda: oc.tensor([(3.0, 1.0), (0.0, 2.0)]) @ vector(2, 1) + vector(10, 20), ([17, 22],)),
    ("CO-01", lambda: oc.concat("i; j => i^j", vector(1, 2, 3), vector(0, 0)), ([1, 2, 3, 0, 0],)),
    ("CO-05", split, ([1, 2], [3, 4, 5], [1, 2, 3, 4, 5])),
    ("CO-11", lambda: oc.block(oc.batch(vector(1, 2), vector(3, 4))), ([[1, 2], [3, 4]],)),
    (
        "CO-17",
        lambda: oc.block([R("2->2"), R("2->2") + 4]),
        (np.arange(8.0).reshape(2, 2, 2),),
    ),
    ("VR-01", captures, (2, 3, 4, 5, 7, 12)),
    ("VR-21", scaled_by_root, ([[1.5] * 4, [6] * 4],)),
)


@pytest.mark.parametrize(("program", "want"), named(VALUES))
def test_value(backend, program, want):
    ctx = oc.Context(backend)
    result = tensors(program())
    ctx.init(result[0])
    ctx.run(oc.forward(*result))
    assert len(result) == len(want)
    for t, cells in zip(result, want, strict=True):
        got = ctx[t]
        assert got.shape == np.shape(cells)
        np.testing.assert_allclose(got, cells, rtol=1e-6)


CODE = (
    (
        "EI-33",
        lhs("=:+", "ij; jk; kl => il", lambda: E("ij; jk; kl => il", oc.tensor(EYE), oc.tensor(SWAP), oc.tensor(EYE))),
        [[0, 1], [1, 0]],
    ),
    ("EI-35", lhs("=:+", "@", lambda: oc.fma(oc.tensor([(3.0,)]), vector(2), vector(10))), [16]),
    ("EI-37", lhs("=:+", "@", lambda: oc.tensor([(3.0, 4.0)]) + vector(2, 5)), [14]),
)


@pytest.mark.parametrize(("program", "want"), named(CODE))
def test_code(backend, program, want):
    ctx = oc.Context(backend)
    code, node = program()
    ctx.run(code)
    np.testing.assert_array_equal(ctx[node], want)


@pytest.mark.parametrize("function", [oc.div, oc.pow], ids=["EI-37-div", "EI-37-pow"])
def test_code_is_refused(function):
    with pytest.raises(CodeError):
        lhs("=:+", "@", lambda: function(oc.tensor([(3.0, 4.0)]), vector(2, 5)))()


# --- gradients --------------------------------------------------------------------------------------------------------


def tropical() -> Any:
    x, k = oc.param("x", np.ones((4, 4), "float32")), oc.param("k", np.array([[0, 0], [0, 10]], "float32"))
    y = E("2*i<+a, 2*j<+b; a, b => i, j", x, k, reduce="max", combine="add")
    at = np.zeros((4, 4))
    at[1::2, 1::2] = 1
    return y.sum(), 44, (x, at), (k, [[0, 0], [0, 4]])


def chosen() -> Any:
    a, b = oc.param("a", np.arange(10.0, 50, 10)), oc.param("b", np.arange(1.0, 5))
    pred = vector(1, 0, 1, 0)
    y = E("i; i; i => i", pred, a, b, combine="where")
    assert pred.grad is None
    return y.sum(), 44 + 2, (a, [1, 0, 1, 0]), (b, [0, 1, 0, 1])


def joined(*parts: int, nest: bool = False) -> Any:
    """The cells of a concatenation, each times its place: what arrives at a part are the places."""
    cells = [np.arange(float(n)) + 10 * m for m, n in enumerate(parts)]
    xs = [oc.param(f"x{n}", c) for n, c in enumerate(cells)]
    if nest:
        joint = oc.concat("p; c => p^c", oc.concat("a; b => a^b", *xs[:2]), xs[2])
    else:
        joint = oc.concat("a; b; c => a^b^c", *xs)
    positions = np.arange(1.0, sum(parts) + 1)
    ends = np.cumsum((0, *parts))
    wants = [(x, positions[ends[n] : ends[n + 1]]) for n, x in enumerate(xs)]
    return (joint * oc.tensor(positions)).sum(), float(np.concatenate(cells) @ positions), *wants


def unit_gradient() -> Any:
    a, b = oc.param("a", np.arange(3.0)), oc.param("b", np.arange(2.0))
    return oc.concat("a; b => a^b", a, b).sum(), 4, (a, [1, 1, 1]), (b, [1, 1])


GRADIENTS = (
    ("CV-17", tropical),
    ("EI-31", chosen),
    ("CO-03", lambda: joined(1, 2, 3)),
    ("CO-03", lambda: joined(2, 1, 3)),
    ("CO-03", lambda: joined(2, 3, 1)),
    ("CO-03", lambda: joined(2, 1, 3, nest=True)),
    ("CO-09", unit_gradient),
)


@pytest.mark.parametrize("program", named(GRADIENTS))
def test_gradient(backend, program):
    ctx = oc.Context(backend)
    loss, value, *wants = program()
    ctx.init(loss)
    ctx.run(train.grad_update(loss))
    np.testing.assert_allclose(ctx[loss], value, rtol=1e-6)
    for t, want in wants:
        np.testing.assert_allclose(ctx[t.grad], want, rtol=1e-6)


# --- what is overridden, and what happens instead ---------------------------------------------------------------------


def paired(first: str, second: str, **sizes: int) -> Any:
    x = leaf("x", "?")
    a, b = oc.concat(first, x), oc.concat(second, x, **sizes)
    return (x.dims, a.dims, b.dims)


def shared_of_leaves() -> Any:
    s, a, b, c = (leaf(name, rows) for name, rows in zip("sabc", ("?", "?", "?", "3"), strict=True))
    return (oc.concat("s; a; b => s^a^b", s, a, b) - oc.concat("s; c => s^c", s, c)).dims


def shared_part() -> Any:
    s = leaf("s", "2")
    joint = oc.concat("s; c => s^c", s, leaf("c", "3"))
    return oc.concat("s^a^b; s => a, b", joint, s).dims


INSTEAD_REFUSED = (
    ("SI-17", lambda: (leaf("a", "3 xyz") + leaf("b", "3 rgb")).dims, "xyz.*rgb|rgb.*xyz"),
    ("SI-35", lambda: (leaf("a", "1 one") + leaf("b", "5 rgb")).dims, "one"),
    ("CC-02", lambda: paired("a^b^c => a, b, c", "d^e => d, e"), "fix +give"),
    ("CC-03", shared_part, "how `.*fix +give"),
    ("CC-04", shared_of_leaves, "fix +give"),
    ("CC-09", lambda: paired("a^b^c => a, b, c", "d^e => d, e"), "fix +give"),
    ("CC-10", lambda: paired("a^b => a, b", "d^e => d, e", d=4), "fix +give"),
)


@pytest.mark.parametrize(("program", "message"), named(INSTEAD_REFUSED))
def test_refused_instead(program, message):
    """Never by a size that nobody gave: the way out is to give one."""
    with pytest.raises(oc.ShapeError, match=f"(?s){message}"):
        program()


INSTEAD = (
    ("SI-13", lambda: with_units(E("..r.., b; ..r.. => b, ..r..", leaf("x", "3,5"), leaf("r", "?"))), "5,3"),
    ("SI-17", lambda: with_units(leaf("a", "3") + leaf("b", "3 rgb")), "3 rgb"),
    ("SI-21", lambda: with_units(leaf("a", "5 rgb") + leaf("b", "5")), "5 rgb"),
    ("SI-27", lambda: tuple(map(with_units, grown())), ("7", "3,7")),
    ("SI-35", lambda: with_units(leaf("a", "1") + leaf("b", "5 rgb")), "5 rgb"),
    ("SI-43", lambda: with_units(oc.param("w")), ""),
    (
        "EI-25",
        lambda: np.array_equal(grid().numpy(oc.Context("numpy")), np.moveaxis(np.indices((4, 5, 6)), 0, -1)),
        True,
    ),
    ("CC-11", lambda: tuple(map(with_units, nested())), ("9", "4", "2")),
    ("PJ-05", lambda: injective({"a": 3, "b": 2}, a=3, b=4), True),
    ("PJ-05", lambda: injective({"i": 2, "j": 2}, i=1, j=1), False),
    ("PJ-05", lambda: injective({"o": 2, "k": 3}, o=2, k=1), False),
)


@pytest.mark.parametrize(("program", "want"), named(INSTEAD))
def test_instead(program, want):
    assert program() == want


def test_every_case_is_run_or_overridden():
    run = {case[0] for case in chain(SHAPES, REFUSED, FACTS, LOOPS, VALUES, CODE, GRADIENTS)}
    assert run | OVERRIDDEN.keys() == set(PRINTED)
    assert not run & OVERRIDDEN.keys()
    assert {case[0] for case in chain(INSTEAD, INSTEAD_REFUSED)} <= OVERRIDDEN.keys()
    assert all(OVERRIDDEN.values())
