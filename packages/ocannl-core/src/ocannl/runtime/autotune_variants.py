"""Autotuning of code variants: selects the fastest variant of each nest for a `Tunable` backend."""

from __future__ import annotations

from ocannl.backend.api import CompiledCode, Tunable
from ocannl.backend.returned_values import compile_variants
from ocannl.base.errors import CompileError
from ocannl.codegen.outlining import outline_nests
from ocannl.ir.loops import Proc
from ocannl.ir.work import work
from ocannl.opt import machine_model as machine
from ocannl.opt.autotune import index_of_fastest
from ocannl.runtime.benchmark import Benchmark
from ocannl.runtime.nest_programs import nest_program


def fastest_variants(proc: Proc, backend: Tunable, benchmark: Benchmark) -> tuple[int, ...]:
    """Returns a variant for each nest; nests are tuned in order of decreasing work until the time budget expires."""
    pieces = [nest_program(f"{proc.name}_{position}", proc, nest) for position, nest in enumerate(outline_nests(proc))]
    amounts = [work(piece.body) for piece in pieces]
    choices = [0] * len(pieces)
    for position in sorted(range(len(pieces)), key=lambda position: (-amounts[position], position)):
        piece, variants = pieces[position], backend.variants(pieces[position])
        choices[position] = variants[0]
        if amounts[position] < machine.MIN_AUTOTUNED_OPS or len(variants) == 1:
            continue
        cached = benchmark.lookup(piece)
        if cached is None or len(cached) != 1 or cached[0] not in variants:
            seconds = _measured(piece, backend, benchmark)
            if seconds is None:
                continue
            cached = (variants[index_of_fastest(seconds)],)
            benchmark.insert(piece, cached, (tuple(seconds),))
        (choices[position],) = cached
    return tuple(choices)


def _measured(piece: Proc, backend: Tunable, benchmark: Benchmark) -> list[float] | None:
    """Returns the seconds per call of each variant; None without time or memory."""
    if benchmark.check_deadline():
        return None
    variants = backend.variants(piece)
    codes = [_compiled(piece, backend, variant) for variant in variants]
    return benchmark.benchmark([piece] * len(variants), codes)


def _compiled(piece: Proc, backend: Tunable, variant: int) -> CompiledCode | None:
    try:
        return compile_variants(backend, [piece], [[variant]])
    except CompileError:
        return None
