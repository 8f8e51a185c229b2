"""Shape oracles for programs with leaves of unspecified rows; each returns a failure, or an empty text."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import prod
from random import Random

import ocannl as oc
from ones.build import ask, build, rows_of
from ones.closed_shape_oracles import differs
from ones.program import Program
from ones.rows import Refused, Rows, Unspecified, show, sizes


@dataclass(frozen=True)
class Outcome:
    """The shapes of all tensors, or the first error."""

    rows: dict[str, Rows]
    error: oc.OcannlError | None = None

    @property
    def sizes(self) -> object:
        """What is to be the same: all but units, which come from any use, and the words of an error."""
        return "refused" if self.error else {name: list(map(sizes, rows)) for name, rows in self.rows.items()}


@lru_cache(maxsize=4)
def outcome(program: Program) -> Outcome:
    """Shapes that are refused where the program asks early may be there at its end."""
    built = build(program, until_refused=True)
    error = next(iter(built.refused.values()), None)
    if error is None:
        built.asking.clear()
        error = next((built.asking[name] for name in built.tensors if ask(name, built) is None), None)
    return Outcome({} if error else {name: rows_of(t) for name, t in built.tensors.items()}, error)


def is_minimal(program: Program, random: Random) -> str:
    """Every result is what NumPy's rules make of the leaves' shapes that inference has chosen."""
    rows = outcome(program).rows
    return leastness(program, rows) if rows else ""


def leastness(program: Program, rows: dict[str, Rows]) -> str:
    leaves = {leaf.name: rows[leaf.name] for leaf in program.leaves}
    for leaf in program.leaves:
        for kind in {0, 1, 2} - leaf.hidden:
            if [a.size for a in leaves[leaf.name][kind]] != [a.size for a in leaf.rows[kind]]:
                return f"`{leaf.name}` is {show(leaves[leaf.name])}, though it is given as {leaf.text}"
    try:
        for line, expected in program.shapes(leaves):
            if list(map(sizes, rows[line.name])) != list(map(sizes, expected)):  # units come from any use
                operands = ", ".join(f"`{name}` of {show(rows[name])}" for name in line.operands)
                return f"`{line.name}` is {show(rows[line.name])}, and {operands} make it {show(expected)}"
    except Refused as refused:
        return f"inference takes {shown(rows)}, though {refused}"
    return ""


def leaves_fit(program: Program, random: Random) -> str:
    """No open row of a leaf could be as large as what it is stretched to, with all results as they are."""
    rows = outcome(program).rows
    leaves = {leaf.name: rows[leaf.name] for leaf in program.leaves} if rows else {}
    hidden = {leaf.name: leaf.hidden for leaf in program.leaves if leaf.name in leaves}
    for line in program.lines:
        for name in line.operands if line.operation.name == "pointwise" and leaves else ():
            for kind in hidden.get(name, ()):
                use = rows[line.name][kind]
                if prod(sizes(use)) > prod(sizes(leaves[name][kind])):
                    larger = list(leaves[name])
                    larger[kind] = use
                    if permits(program, {**leaves, name: (larger[0], larger[1], larger[2])}, rows):
                        return f"`{name}` is {show(leaves[name])}, and could be as large as its use in `{line.text}`"
    return ""


def permits(program: Program, leaves: dict[str, Rows], rows: dict[str, Rows]) -> bool:
    """Whether these leaves give the operations the shapes that they have."""
    try:
        return all(not differs(rows[line.name], expected) for line, expected in program.shapes(leaves))
    except (Refused, Unspecified):
        return False


def shown(rows: dict[str, Rows]) -> str:
    return ", ".join(f"{name}: {show(r)}" for name, r in rows.items())


def ignores_order_of_open(program: Program, random: Random) -> str:
    """Any topological order gives the same shapes, or an error."""
    first = outcome(program)
    shuffled = program.reordered(random)
    second = outcome(shuffled)
    if second.sizes != first.sizes:
        return f"{outcome_text(first)}\nbut {outcome_text(second)} in the order\n{shuffled}"
    return ""


def outcome_text(result: Outcome) -> str:
    return f"refused: {result.error}" if result.error else shown(result.rows)


def asking_commits(program: Program, random: Random) -> str:
    """A shape that was asked early stays what it was; what contradicts it later is an error that names it, or the leaf
    whose shape it fixed with the line that asked, and all results are still the least."""
    eager = program.asking(random, random.choice((0.1, 0.3)))
    built = build(eager, until_refused=True)
    error = next(iter(built.refused.values()), None)
    if error is None:
        built.asking.clear()
        error = next((built.asking[name] for name in built.tensors if ask(name, built) is None), None)
    if error is not None:
        named = any(f"`{name}`" in str(error) for name in built.answers) or "  asked  the shape of" in str(error)
        if named or outcome(program).error:
            return ""
        return f"refused: {error}\nnames none of {sorted(built.answers)} in\n{eager}"
    for name, dims in built.answers.items():
        if built.tensors[name].dims != dims:
            return f"`{name}` was {dims}, and is {built.tensors[name].dims} in\n{eager}"
    complaint = leastness(eager, {name: rows_of(tensor) for name, tensor in built.tensors.items()})
    return f"{complaint}\nin\n{eager}" if complaint else ""


def is_isolated_with_open(program: Program, random: Random) -> str:
    """Foreign statements change no shape of the others, where some leaves are open, too."""
    first, built = outcome(program.own), build(program)
    if first.error:
        return ""
    for name, rows in first.rows.items():
        if name in built.refused:
            return f"`{name}` is refused: {built.refused[name]}"
        if ask(name, built) is None:
            return f"`{name}` cannot be asked: {built.asking[name]}"
        beside = rows_of(built.tensors[name])
        if list(map(sizes, beside)) != list(map(sizes, rows)):
            return f"`{name}` is {show(beside)}, and alone {show(rows)}"
    return ""
