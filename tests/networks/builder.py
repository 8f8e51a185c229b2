"""A network in the making: its statements so far, and what they have cost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from math import prod

from .choices import Choices
from .program import Dims, Leaf, Line, Value

SIZES = (
    1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 15, 16, 17, 19, 23, 24, 25, 28, 31, 32, 33, 37, 40, 47, 48, 49, 56, 63,
    64, 65, 72, 79, 80, 96, 97, 100, 112, 127, 128, 129, 144, 160, 191, 192, 193, 224, 255, 256, 257, 288, 320, 384,
    400, 509, 511, 512, 513, 576, 640, 768, 784, 1000, 1021, 1023, 1024, 1025, 1280, 1536, 2000, 2047, 2048, 2049,
    3072, 4093, 4095, 4096,
)  # fmt: skip
MAX_LEARNED_CELLS = 1_500_000


class TooLarge(Exception):
    """A layer would cost more than the budget has left."""


class Builder:
    """Leaves and statements, with names that are free; `work` and `lines` bound what may be added."""

    def __init__(self, choices: Choices, batch: int, work: int, lines: int, cells: int) -> None:
        self.value_cells = cells  # of one value
        self.choices = choices
        self.batch = batch
        self.work_left, self.work = work, 0
        self.lines_left = lines
        self.cells_left = 30 * cells
        self.leaves: list[Leaf] = []
        self.lines: list[Line] = []
        self.values: list[Value] = []
        self.roles: dict[tuple[str, Dims], str] = {}  # parameters that may be used again, by role and sizes
        self.names: Counter[str] = Counter()
        self.fed: list[str] = []
        self.depth = 0

    # --- sizes and costs ---

    def size(self, maximum: int, minimum: int = 1) -> int:
        fitting = [n for n in SIZES if minimum <= n <= maximum]
        return self.choices.pick(fitting) if fitting else max(1, min(minimum, maximum))

    def divisor(self, n: int, maximum: int = 64) -> int:
        return self.choices.pick([d for d in range(1, min(n, maximum) + 1) if n % d == 0])

    def width(self, x: Value, maximum: int = 512) -> int:
        """How many channels a layer of `x` may have: as many as before, half or twice as many, or any number."""
        affordable = max(1, min(maximum, self.work_left // max(1, 4 * x.cells)))
        near = [n for n in (x.channels, 2 * x.channels, -(-x.channels // 2)) if n <= affordable]
        if near and self.choices.chance(60):
            return self.choices.pick(near)
        return self.size(affordable)

    def spend(self, work: int, cells: int = 0) -> None:
        if work > self.work_left or cells > min(self.value_cells, self.cells_left):
            raise TooLarge
        self.work_left -= work
        self.work += work
        self.cells_left -= cells

    def snapshot(self) -> tuple[object, ...]:
        counts = len(self.leaves), len(self.lines), len(self.values), len(self.fed)
        budget = self.work, self.work_left, self.lines_left, self.cells_left
        return counts, dict(self.roles), Counter(self.names), *budget

    def restore(self, snapshot: tuple[object, ...]) -> None:
        counts, self.roles, self.names, self.work, self.work_left, self.lines_left, self.cells_left = snapshot  # type: ignore
        for items, count in zip((self.leaves, self.lines, self.values, self.fed), counts, strict=True):  # type: ignore
            del items[count:]

    # --- statements ---

    def name(self, stem: str) -> str:
        self.names[stem] += 1
        return f"{stem}{self.names[stem]}"

    def add(self, line: Line) -> None:
        if self.lines_left <= 0:
            raise TooLarge
        self.lines_left -= 1
        self.lines.append(line)

    def let(
        self, stem: str, ocannl: str, torch: str, form: str, dims: Dims, *, work: int = 0, batch: Dims | None = None,
        like: Value | None = None,
    ) -> Value:  # fmt: skip
        """One more statement; the batch axes are those of `like`, or the one of the network."""
        axes = batch if batch is not None else like.batch if like is not None else (self.batch,)
        value = Value(self.name(stem), form, axes, dims)
        self.spend(work + value.cells, value.cells)
        self.add(Line(value.name, f"{value.name} = {ocannl}", f"{value.name} = {torch}"))
        self.values.append(value)
        return value

    def parameter(
        self, stem: str, output: Sequence[int], input: Sequence[int] = (), *, scale: float | None = None,
        mean: float = 0.0, is_inferred: bool = False, is_vector: bool = False, role: str = "",
    ) -> str:  # fmt: skip
        """A parameter, its output axes first; one that has its `role` and sizes may be used once more.

        With `is_inferred`, the use decides the input axes, or without such the output axes; with `is_vector`, there are
        no input axes, be it multiplied as it may.
        """
        dims = (*output, *input)
        if role and (role, dims) in self.roles and self.choices.chance(20):
            return self.roles[role, dims]
        if prod(dims) > MAX_LEARNED_CELLS:
            raise TooLarge
        self.spend(0, prod(dims))
        name = self.name(stem)
        rows = f", o={list(output)}" if input or not is_inferred else ""
        rows += f", i={list(input)}" if (input and not is_inferred) or is_vector else ""
        spread = scale if scale is not None else 1 / max(1, prod(input)) ** 0.5
        self.leaves.append(Leaf(name, dims, len(self.leaves), round(spread, 4), mean, learned=True))
        self.add(Line(name, f'{name} = oc.param("{name}"{rows})'))
        if role:
            self.roles[role, dims] = name
        return name

    def data(self, stem: str, dims: Dims, batch_axes: int, *, classes: int = 0, scale: float = 1.0) -> str:
        """Constant data, data that is set before each step, or the slice of data that the step is for."""
        name = self.name(stem)
        self.spend(0, 3 * prod(dims))
        choice = self.choices.weighted((("constant", 6), ("fed", 2), ("sliced", 2)))
        array_dims = dims if choice == "constant" else (3, *dims)
        leaf = Leaf(name, array_dims, len(self.leaves), scale, 0.0, classes, steps=choice != "constant")
        self.leaves.append(leaf)
        if choice == "constant":
            text = f'oc.tensor(arrays["{name}"], batch_axes={batch_axes})'
        elif choice == "sliced":
            text = f'oc.tensor(arrays["{name}"], batch_axes={batch_axes + 1})[n]'
        else:
            kind = '"int32"' if classes else "kind"
            rows = f"b={list(dims[:batch_axes])}, o={list(dims[batch_axes:])}, i=[]"
            text = f'oc.placeholder("{name}", {rows}, dtype={kind})'
            self.fed.append(name)
        self.add(Line(name, f"{name} = {text}"))
        return name

    def constant(self, name: str, ocannl: str, torch: str) -> None:
        self.add(Line(name, f"{name} = {ocannl}", f"{name} = {torch}"))

    # --- specs ---

    def rows(self, x: Value) -> str:
        """The batch axes of a spec."""
        return "..." if not x.batch or self.choices.chance(50) else axes(x)


def axes(x: Value) -> str:
    """Names of the batch axes."""
    return ", ".join("bsu"[: len(x.batch)])
