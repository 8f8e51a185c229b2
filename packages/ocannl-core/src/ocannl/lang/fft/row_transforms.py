"""Fourier transforms of many short rows as compiled loops: the sequential form of the host call.

Strips of rows are transformed at a time, one row in each lane:

    for chunk, strip:
      loaded[k, lane] = x[row, k]          transposed
      stages                               see `stockham`
      y[row, k] = spectrum[k, lane]        transposed

The transform of n real numbers is that of n / 2 complex numbers z[k] = x[2 k] + i x[2 k + 1], whose spectrum is
separated into those of the even and the odd cells. Temporaries of a strip stay in the caches; each chunk of strips has
its own, so that threads can share the chunks.

Source: Press et al. 2007, section 12.3.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from math import prod

from ocannl.ir.affine import Affine, Sym
from ocannl.ir.assign import (
    Assign,
    Call,
    Comp,
    Loop,
    Number,
    Origin,
    ParallelForm,
    Piece,
    Read,
    Seq,
    Value,
    call,
)
from ocannl.ir.host_call import HostCall
from ocannl.ir.ops import MUL
from ocannl.ir.precision import Precision, float32, float64
from ocannl.ir.tnode import TNode, temporary_of
from ocannl.lang.core.sequential_scans import iteration
from ocannl.lang.fft.stockham import (
    Complex,
    Spectrum,
    StockhamStages,
    TwiddleFactors,
    add,
    cases,
    conjugate,
    multiply,
    subtract,
)

LANES = 16  # rows of a strip, the float32 lanes of the widest vectors
CHUNKS = 8  # of strips, for as many threads, and at most twice as many
MIN_ROWS = 2 * LANES
MIN_CELLS = 1 << 12  # of all rows; the code of smaller calls is not worth its compilation, which takes up to 3 s in C
MIN_LENGTH, MAX_LENGTH = 16, 1024  # of rows; strips of longer ones leave the caches


class TransformKind(Enum):
    FFT = "fft"
    IFFT = "ifft"
    RFFT = "rfft"
    IRFFT = "irfft"

    @property
    def is_inverse(self) -> bool:
        return self in (TransformKind.IFFT, TransformKind.IRFFT)


@dataclass(frozen=True, slots=True)
class Frames:
    """The rows of a node that are frames of a signal, `hop` cells apart, times a window: `signal[f * hop + k] *
    window[k]`."""

    rows: TNode
    signal: TNode
    window: TNode
    hop: int

    def cell(self, *indices: Affine) -> Value:
        *leading, frame, k = indices
        return Call(MUL, (Read(self.signal, (*leading, frame * self.hop + k)), Read(self.window, (k,))))


@dataclass(frozen=True, slots=True)
class RowTransforms:
    """The transforms of the rows of an array times `scale`. Rows are along the last axis of real numbers, or the one
    before that of pairs. `frames` are the rows, if they are those of a signal."""

    kind: TransformKind
    length: int
    scale: float
    frames: Frames | None = None

    def parallel_form(self, call: HostCall, origin: Origin) -> ParallelForm | None:
        (source,), (target,) = call.inputs, call.outputs
        if not isinstance(source, TNode) or target is None or not self._are_compiled(source, target):
            return None
        strips = _Strips(self, source, target, origin)
        inputs = (source,) if strips.frames is not None else ()
        return ParallelForm((call,), sequential=strips.code(), parallel_inputs=inputs)

    def _are_compiled(self, source: TNode, target: TNode) -> bool:
        """Whether there are many rows, whose lengths are powers of two and such that strips stay in the caches."""
        n, precisions = self.length, {source.precision, target.precision}
        rows = _leading(self.kind, source)
        frequencies = n // 2 + 1
        lengths = {TransformKind.RFFT: (n, frequencies), TransformKind.IRFFT: (frequencies, n)}.get(self.kind, (n, n))
        if (source.dims[len(rows)], target.dims[len(rows)]) != lengths:
            return False  # the operand of a rewritten graph
        is_short = MIN_LENGTH <= n <= MAX_LENGTH and n & (n - 1) == 0
        is_large = max(rows, default=0) >= MIN_ROWS and prod(rows) * n >= MIN_CELLS
        return is_short and is_large and len(precisions) == 1 and precisions <= {float32, float64}


def _leading(kind: TransformKind, source: TNode) -> tuple[int, ...]:
    """The sizes of the axes before that of the rows."""
    return source.dims[: -1 if kind is TransformKind.RFFT else -2]


def _chunk_count(count: int) -> int:
    """The number of chunks of equal size that leave the fewest of `count` iterations."""
    return min(range(min(CHUNKS, count), min(2 * CHUNKS, count) + 1), key=lambda chunks: count % chunks)


class _Strips:
    """The loops of the sequential form. Strips are along the longest axis of rows."""

    def __init__(self, transforms: RowTransforms, source: TNode, target: TNode, origin: Origin) -> None:
        self.transforms, self.source, self.target, self.origin = transforms, source, target, origin
        self.precision, frames = target.precision, transforms.frames
        has_signal = (
            frames is not None
            and frames.rows is source
            and frames.signal.precision is frames.window.precision is self.precision
        )
        self.frames = frames if has_signal else None
        self.kind, self.length = transforms.kind, transforms.length
        leading = _leading(self.kind, source)
        self.axis = max(range(len(leading)), key=leading.__getitem__)
        self.rows = leading[self.axis]
        self.outer = [iteration(f"i{n}", size) for n, size in enumerate(leading) if n != self.axis]
        self.lane = Sym("lane", 0, LANES - 1)
        self.private: dict[str, TNode] = {}
        self.chunks = max(map(_chunk_count, (self.rows // LANES, *[loop.extent for loop in self.outer])))
        self.chunk = self.first_row = Affine()  # those of the current strip
        self.outer_at: list[Affine] = []
        twiddles = temporary_of(target, "twiddles", (2, self.length), self.precision)
        self.twiddles = TwiddleFactors(twiddles, self.length, self.kind.is_inverse)

    def code(self) -> Comp:
        """Returns the strips in chunks, then those from the last row backwards that cover the rows that are in no
        chunk: rows of the last chunk may be transformed again."""
        strips = self.rows // LANES
        strips -= strips % _chunk_count(strips)
        loops = [*self.outer, iteration("strip", strips)]
        code = [self.twiddles.code(self.origin), *self._shared(loops, loops[-1], lambda strip: strip * LANES)]
        if left := self.rows - strips * LANES:
            loops = [*self.outer, iteration("strip", -(-left // LANES))]
            longest = max(loops, key=lambda loop: loop.extent)
            code += self._shared(loops, longest, lambda strip: strip * -LANES + (self.rows - LANES))
        return Seq(tuple(code))

    def _shared(self, loops: list[Sym], shared: Sym, first_row: Callable[[Affine], Affine]) -> list[Comp]:
        """The strips of all iterations of the loops, of which the last is that over strips. One of the loops is divided
        into chunks of equal size; what they leave is one more."""
        count = _chunk_count(shared.extent)
        size = shared.extent // count
        code = []
        for chunks, start, extent in ((count, 0, size), (1, count * size, shared.extent - count * size)):
            if not extent:
                continue
            chunk, part = iteration("chunk", chunks), iteration(shared.name, extent)
            self.chunk = Affine.of(chunk)
            position = self.chunk * size + Affine.of(part) + start
            *self.outer_at, strip = [position if loop is shared else Affine.of(loop) for loop in loops]
            self.first_row = first_row(strip)
            body: list[Comp] = [*self._strip()]
            private = tuple(self.private.values())
            for loop in reversed([chunk, *[part if loop is shared else loop for loop in loops]]):
                body = [Loop(loop, Seq(tuple(body)), private, (self.target,))]
            code += body
        return code

    def _strip(self) -> list[Assign]:
        match self.kind:
            case TransformKind.FFT | TransformKind.IFFT:
                return self._complex_to_complex()
            case TransformKind.RFFT:
                return self._real_to_complex()
            case TransformKind.IRFFT:
                return self._complex_to_real()

    # --- kinds of transforms ---

    def _complex_to_complex(self) -> list[Assign]:
        load, loaded = self._loaded((self.length, 2), 1.0)
        stages, spectrum = self._stages(self.length).code(loaded.pair)
        j, q, c = _numbers(spectrum)
        indices = self._row(Affine.of(q) + Affine.of(j) * spectrum.size, Affine.of(c))
        return [load, *stages, self._store((j, q, c), indices, _cells_of(spectrum, j, q, c))]

    def _real_to_complex(self) -> list[Assign]:
        # x / 2, since the separation adds two of them
        load, loaded = self._loaded((self.length,), 0.5)
        stages, spectrum = self._stages(self.length // 2).code(lambda k: (loaded(k * 2), loaded(k * 2 + 1)))
        result, chunk = self._node("result", (self.length // 2 + 1, 2), self.precision)
        c, pieces = Sym("c", 0, 1), []
        for loops, (j, q), (mirrored_j, mirrored_q) in self._mirrored(spectrum):
            k = q + j * spectrum.size
            z, mirrored = spectrum.at(j, q), conjugate(spectrum.at(mirrored_j, mirrored_q))
            even, (a, b) = add(z, mirrored), subtract(z, mirrored)
            odd = multiply((b, call("neg", a)), self.twiddles.power(k))  # (a + i b) / i
            indices = (*chunk, k, Affine.of(c), Affine.of(self.lane))
            pieces.append(Piece((*loops, c, self.lane), indices, cases(c, add(even, odd))))
        a, b = spectrum.at(Affine(), Affine())
        for number, real in ((0, call("add", a, b)), (self.length // 2, call("sub", a, b))):
            indices = (*chunk, Affine.of(number), Affine.of(c), Affine.of(self.lane))
            pieces.append(Piece((c, self.lane), indices, cases(c, (call("add", real, real), Number(0.0)))))
        separation = Assign(result, None, False, tuple(pieces), self.origin)
        loop, cells = Sym("k", 0, self.length // 2), _Cells(result, chunk, self.lane)
        k = Affine.of(loop)
        store = self._store((loop, c), self._row(k, Affine.of(c)), cases(c, cells.pair(k)))
        return [load, *stages, separation, store]

    def _complex_to_real(self) -> list[Assign]:
        half = self.length // 2
        load, loaded = self._loaded((half + 1, 2), 1.0)
        packed, chunk = self._node("packed", (half, 2), self.precision)
        c, loop = Sym("c", 0, 1), Sym("k", 1, half - 1)
        k = Affine.of(loop)
        x, mirrored = loaded.pair(k), conjugate(loaded.pair(-k + half))
        a, b = multiply(subtract(x, mirrored), self.twiddles.power(k))
        z = add(add(x, mirrored), (call("neg", b), a))
        first, last = loaded(Affine(), Affine()), loaded(Affine.of(half), Affine())
        z_of_0 = call("add", first, last), call("sub", first, last)
        cell = Affine.of(c), Affine.of(self.lane)
        pieces = (
            Piece((loop, c, self.lane), (*chunk, k, *cell), cases(c, z)),
            Piece((c, self.lane), (*chunk, Affine(), *cell), cases(c, z_of_0)),
        )
        packing = Assign(packed, None, False, pieces, self.origin)
        stages, spectrum = self._stages(half).code(_Cells(packed, chunk, self.lane).pair)
        j, q, c = _numbers(spectrum)
        indices = self._row(Affine.of(q) * 2 + Affine.of(j) * (2 * spectrum.size) + Affine.of(c))
        return [load, packing, *stages, self._store((j, q, c), indices, _cells_of(spectrum, j, q, c))]

    def _mirrored(
        self, spectrum: Spectrum
    ) -> list[tuple[tuple[Sym, ...], tuple[Affine, Affine], tuple[Affine, Affine]]]:
        """Loops over all numbers k but the first, with the rows and positions of k and of -k."""
        count, size = spectrum.count, spectrum.size
        j, q, first_j = Sym("j", 0, count - 1), Sym("q", 1, size - 1), Sym("j", 1, count - 1)
        return [
            ((j, q), (Affine.of(j), Affine.of(q)), (-Affine.of(j) + (count - 1), -Affine.of(q) + size)),
            ((first_j,), (Affine.of(first_j), Affine()), (-Affine.of(first_j) + count, Affine())),
        ]

    # --- loads and stores ---

    def _loaded(self, sizes: tuple[int, ...], factor: float) -> tuple[Assign, _Cells]:
        """Copies rows, multiplied by a factor, to lanes."""
        node, chunk = self._node("loaded", sizes, self.precision)
        loops = tuple([Sym("k", 0, size - 1) for size in sizes])
        cell = tuple(map(Affine.of, loops))
        value = self._cell(*self._row(*cell))
        if len(sizes) > 1:
            value = cases(loops[1], [self._cell(*self._row(cell[0], Affine.of(c))) for c in (0, 1)])
        if (scale := self.transforms.scale * factor) != 1:
            value = Call(MUL, (value, Number(scale)))
        piece = Piece((*loops, self.lane), (*chunk, *cell, Affine.of(self.lane)), value)
        load = Assign(node, None, False, (piece,), self.origin)
        return load, _Cells(node, chunk, self.lane)

    def _cell(self, *indices: Affine) -> Value:
        """A cell of the source. That of frames is computed, so that they are not stored."""
        return Read(self.source, indices) if self.frames is None else self.frames.cell(*indices)

    def _store(self, loops: Sequence[Sym], indices: tuple[Affine, ...], value: Value) -> Assign:
        return Assign(self.target, None, False, (Piece((self.lane, *loops), indices, value),), self.origin)

    def _row(self, *indices: Affine) -> tuple[Affine, ...]:
        """The indices of a cell of a row of the source or the target."""
        leading = list(self.outer_at)
        leading.insert(self.axis, self.first_row + Affine.of(self.lane))
        return (*leading, *indices)

    def _stages(self, length: int) -> StockhamStages:
        return StockhamStages(length, self.twiddles, self.lane, self._node, self.precision, self.origin)

    def _node(self, name: str, sizes: tuple[int, ...], precision: Precision) -> tuple[TNode, tuple[Affine, ...]]:
        """A temporary with axes for the chunks, of some sizes, and for the lanes."""
        if name not in self.private:
            self.private[name] = temporary_of(self.target, name, (self.chunks, *sizes, LANES), precision)
        return self.private[name], (self.chunk,)


@dataclass(frozen=True, slots=True)
class _Cells:
    """The cells of a temporary in the lane of a row."""

    node: TNode
    chunk: tuple[Affine, ...]
    lane: Sym

    def __call__(self, *indices: Affine) -> Read:
        return Read(self.node, (*self.chunk, *indices, Affine.of(self.lane)))

    def pair(self, k: Affine) -> Complex:
        """The components of a complex number."""
        return self(k, Affine()), self(k, Affine.of(1))


def _numbers(spectrum: Spectrum) -> tuple[Sym, Sym, Sym]:
    """Loops over the rows, numbers and components of a spectrum."""
    return Sym("j", 0, spectrum.count - 1), Sym("q", 0, spectrum.size - 1), Sym("c", 0, 1)


def _cells_of(spectrum: Spectrum, j: Sym, q: Sym, c: Sym) -> Value:
    return cases(c, spectrum.at(Affine.of(j), Affine.of(q)))
