"""Owner-computes scatter: each program owns a slice of the target's rows and performs all updates of these rows.

    for n in 0..8192:                    program p owns the rows 16 * p + (0, 1, ... 15); it searches blocks of 256 ids
      bind v in 0..50257 = ids[n]:       for its rows, and executes the matching iterations one by one
        table[v, j] += x[n, j]

Every cell is updated by one program in loop order, so results are bitwise reproducible for any number of programs.
"""

from __future__ import annotations

from ocannl.ir.ops import BY_NAME
from ocannl.ir.precision import int32
from ocannl_backend_triton.emitter_protocol import StatementEmitter
from ocannl_backend_triton.owned_rows import OwnedRows
from ocannl_backend_triton.scope import Guard, IndexText
from ocannl_backend_triton.values import BlockValue

MIN = BY_NAME["min"]


def emit_owned_iterations(emitter: StatementEmitter, owned: OwnedRows) -> None:
    """Emits a search for the iterations whose index the program owns, executed in loop order.

    v_first = tl.program_id(0) * 16
    v_last = tl.minimum(v_first + 15, 50256)
    for n_start in range(0, 8192, BLOCK_n):
        n = n_start + tl.arange(0, BLOCK_n)
        v = tl.load(ids + n)
        found = tl.where((v >= v_first) & (v <= v_last), n, 8192)
        n_2 = tl.reduce(found, 0, _combine_min_i32)
        while n_2 < 8192:
            v_2 = tl.load(ids + n_2)
            ...
            n_2 = tl.reduce(tl.where(found > n_2, found, 8192), 0, _combine_min_i32)
    """
    scope, memory, bind, loop = emitter.scope, emitter.memory, owned.bind, owned.loop
    low, high, end = bind.sym.lo, bind.sym.hi, loop.sym.hi + 1
    programs_per_slice = emitter.layout.num_programs // owned.num_programs
    program = f"tl.program_id(0) // {programs_per_slice}" if programs_per_slice > 1 else "tl.program_id(0)"
    first = scope.let(f"{bind.sym.name}_first", f"{program} * {owned.block_size}" + (f" + {low}" if low else ""))
    last = scope.let(f"{bind.sym.name}_last", f"tl.minimum({first} + {owned.block_size - 1}, {high})")
    size = scope.constant(f"BLOCK_{loop.sym.name}", owned.search_block)
    axis = max(scope.rank - 1, 0)
    along = frozenset((axis,))

    def next_of(candidates: str) -> str:
        with scope.along_axis(axis, size):
            return memory.reduce(MIN, BlockValue(candidates, int32, along), (), along).text

    emitter.hazards.before_loop(loop.body)
    start = scope.fresh_name(f"{loop.sym.name}_start")
    emitter.line(f"for {start} in range({loop.sym.lo}, {end}, {size}):")
    with scope.indented(), emitter.hazards.loop(loop.body):
        block = scope.let(loop.sym.name, f"{start} + {scope.arange(size, axis)}")
        scope.syms[loop.sym] = IndexText(block, along)
        edge = Guard(scope.let(f"{block}_mask", f"{block} < {end}"), along, frozenset((loop.sym,)), True)
        with scope.along_axis(axis, size), scope.guarded(edge):
            picked = scope.let(bind.sym.name, emitter.value(bind.value).text)
        is_owned = f"{edge.text} & ({picked} >= {first}) & ({picked} <= {last})"
        candidates = scope.let("found", f"tl.where({is_owned}, {block}, {end})")
        iteration = scope.let(loop.sym.name, next_of(candidates))
        emitter.line(f"while {iteration} < {end}:")
        with scope.indented():
            scope.syms[loop.sym] = IndexText(iteration)
            scope.syms[bind.sym] = IndexText(scope.let(bind.sym.name, emitter.value(bind.value).text))
            emitter.statements(bind.body)
            emitter.line(f"{iteration} = {next_of(f'tl.where({candidates} > {iteration}, {candidates}, {end})')}")
