"""Random specs around the shapes of operands: names, row variables, splits, windows, and results made of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from random import Random
from string import ascii_letters

from ones.rows import KINDS, Axis, Row, Rows
from ones.specs import Any, At, Merged, Name, RowSpec, Shape, Spec, Term, Window

WINDOWS = ((1, 1, 1), (2, 1, 1), (2, 2, 1), (3, 1, 1), (1, 2, 1), (2, 1, 2), (2, 2, 2))  # taps, stride, dilation


class RandomSpecs:
    """`bound` are the sizes of names, `sizes` those that are given by keyword; `taps` are names that only a kernel, or
    a keyword, sizes."""

    def __init__(self, random: Random) -> None:
        self.random = random
        letters = [letter for letter in ascii_letters if letter not in "crsZ"]  # these are row variables
        random.shuffle(letters)
        self.letters = iter(letters)
        self.bound: dict[str, int] = {}
        self.sizes: dict[str, int] = {}
        self.taps: list[str] = []
        self.variables: dict[str, Row] = {}
        self.keys = 0
        self.is_onto = True

    def chance(self, p: float) -> bool:
        return self.random.random() < p

    def name(self, size: int, keyword: float = 0.06) -> str:
        name = next(self.letters)
        self.bound[name] = size
        if self.chance(keyword):
            self.sizes[name] = size
        return name

    # --- operands ---

    def operand(self, rows: Rows) -> Shape:
        batch, input, output = (self.row(row, kind) for kind, row in enumerate(rows))
        return batch, input, output

    def row(self, axes: Row, kind: int) -> RowSpec:
        if self.chance(0.4):
            low = self.random.randint(0, len(axes))
            high = self.random.randint(low, len(axes))
            var = self.random.choice(("...", "...", "...", "..r..", "..s..", f"..{self.random.choice(KINDS)}.."))
            spec = RowSpec((), var, 0)
            covered = axes[low:high]
            if self.variables.setdefault(spec.key(kind), covered) == covered:
                return RowSpec(self.terms(axes[:low] + axes[high:]), var, low)
        return RowSpec(self.terms(axes))

    def terms(self, axes: Row) -> tuple[Term, ...]:
        return tuple(self.term(axis.size) for axis in axes)

    def term(self, size: int) -> Term:
        alike = [name for name, n in self.bound.items() if n == size]
        draw = self.random.random()
        if draw < 0.30 and alike:
            return Name(self.random.choice(alike))
        if draw < 0.38 and size:
            return At(self.random.choice((0, 0, size - 1)))
        if draw < 0.41:
            self.keys += 1
            return Any(self.keys)
        if draw < 0.53 and size:
            return self.split(size)
        if draw < 0.68:
            return self.window(size) or Name(self.name(size))
        return Name(self.name(size))

    def split(self, size: int) -> Term:
        """Two or three parts, all sizes given but for one, and sometimes for two where nothing is left to guess."""
        first = self.random.choice([n for n in range(1, size + 1) if size % n == 0])
        parts = [first, size // first]
        if self.chance(0.25):
            parts.insert(self.random.randint(0, 2), 1)
        names = [self.name(n, 0.0) for n in parts]
        if parts[0] == parts[-1] and self.chance(0.2):  # a square of one name
            names[-1] = names[0]
        open_ = self.random.randrange(len(names))
        self.sizes |= {name: self.bound[name] for n, name in enumerate(names) if n != open_ or self.chance(0.15)}
        return Merged(tuple(names))

    def window(self, size: int) -> Term | None:
        if self.chance(0.2):
            return self.strided(size)
        for _ in range(4):
            taps, stride, dilation = self.random.choice(WINDOWS)
            reach = (taps - 1) * dilation + 1
            if self.chance(0.35):
                if size % stride == 0:
                    over = self.name(size // stride)
                    return Window(over, self.kernel(taps), stride, "=", 0, dilation)
                continue
            offset = self.random.choice((0, 0, 0, 1))
            if size >= offset + reach and (size - offset - reach) % stride == 0:
                count = (size - offset - reach) // stride + 1
                mark = "<" if self.chance(0.85) else ""
                over = self.name(count, 0.1 if mark else 0.7)
                return Window(over, self.kernel(taps, mark), stride, mark, offset, dilation)
        return None

    def strided(self, size: int) -> Term | None:
        stride, offset = self.random.choice(((1, 0), (2, 0), (2, 1), (3, 2), (3, 0)))
        self.is_onto &= True
        return None if size % stride else Window(self.name(size // stride), None, stride, "", offset)

    def kernel(self, taps: int, mark: str = "<") -> str:
        """A name that something else has to size."""
        name = self.name(taps, 0.5 if mark else 0.8)
        if name not in self.sizes:
            self.taps.append(name)
        return name

    def operand_of_names(self) -> tuple[Shape, Rows]:
        """An operand that is made for the spec: kernels that nothing sizes yet, other names, and new ones."""
        names, self.taps = self.taps, []
        more = [name for name in self.bound if name not in names]
        names += self.random.sample(more, min(len(more), self.random.choice((0, 1, 1, 2))))
        names += [self.name(self.random.choice((1, 1, 2, 3)), 0) for _ in range(self.random.choice((0, 1, 1)))]
        self.random.shuffle(names)
        rows: list[list[str]] = [[], [], []]
        for name in names[:5]:
            rows[self.random.choice((0, 1, 2, 2, 2))].append(name)
        batch, input, output = (RowSpec(tuple(map(Name, row))) for row in rows)
        plain = [tuple(Axis(self.bound[name]) for name in row) for row in rows]
        return (batch, input, output), (plain[0], plain[1], plain[2])

    def size_kernels(self) -> None:
        """Kernels that no operand has get their sizes by keyword."""
        self.sizes |= {name: self.bound[name] for name in self.taps}
        self.taps = []

    # --- the result ---

    def result(self) -> Shape:
        kept = [name for name in self.bound if self.chance(0.7)]
        if self.chance(0.25):
            self.random.shuffle(kept)
        terms = self.combined(kept)
        if self.chance(0.07):
            size = self.random.choice((1, 2, 3))
            terms.insert(self.random.randint(0, len(terms)), Name(self.name(size, 0.85)))
        for _ in range(self.random.choice((0, 0, 0, 0, 1, 2))):
            terms.insert(self.random.randint(0, len(terms)), At(0 if self.chance(0.9) else 1))
        self.is_onto &= At(1) not in terms
        rows: list[list[Term]] = [[], [], []]
        for term in terms:
            rows[self.random.choice((0, 0, 1, 2, 2, 2))].append(term)
        vars_ = ["", "", ""]
        for key in self.variables:
            if self.chance(0.85):
                kind = KINDS.index(key) if key in KINDS and self.chance(0.8) else self.random.randrange(3)
                if not vars_[kind]:
                    vars_[kind] = "..." if key == KINDS[kind] and self.chance(0.8) else f"..{key}.."
        batch, input, output = (
            RowSpec(tuple(row), var, self.random.randint(0, len(row)) if var else 0)
            for row, var in zip(rows, vars_, strict=True)
        )
        return batch, input, output

    def combined(self, names: list[str]) -> list[Term]:
        """Names, some of them merged, summed, strided or repeated."""
        terms: list[Term] = []
        waiting = list(names)
        while waiting:
            name, draw = waiting.pop(0), self.random.random()
            if draw < 0.22 and waiting:
                count = min(len(waiting), self.random.choice((1, 1, 2)))
                terms.append(Merged((name, *waiting[:count])))
                del waiting[:count]
            elif draw < 0.27 and waiting:
                mark = self.random.choice(("", "<", "="))
                terms.append(Window(name, waiting.pop(0), self.random.choice((1, 1, 2)), mark))
                self.is_onto = False
            elif draw < 0.30:
                terms.append(Window(name, None, self.random.choice((1, 2)), "", self.random.choice((0, 0, 1))))
                self.is_onto = False
            elif draw < 0.33:
                terms += [Name(name), Name(name)]
                self.is_onto = False
            else:
                terms.append(Name(name))
        return terms

    def spec(self, operands: Sequence[Shape]) -> Spec:
        self.size_kernels()
        result = self.result()
        return Spec(tuple(operands), result, self.sizes)


def mutate(random: Random, spec: Spec) -> Spec:
    """Leave out a size, or add a name that nothing sizes to the result."""
    if spec.sizes and random.random() < 0.7:
        name = random.choice(list(spec.sizes))
        return replace(spec, sizes={key: size for key, size in spec.sizes.items() if key != name})
    batch, input, output = spec.result
    return replace(spec, result=(batch, input, replace(output, terms=(*output.terms, Name("Z")))))
