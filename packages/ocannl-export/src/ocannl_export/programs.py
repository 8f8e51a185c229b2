"""Programs for a target: the optimizer runs once for each instruction set, on the code of the routine."""

from __future__ import annotations

from dataclasses import replace

from ocannl.codegen import pool_bufs
from ocannl.ir.assign import host_calls
from ocannl.ir.capabilities import Capabilities
from ocannl.ir.cpu import COMMON_CPU, Cpu
from ocannl.ir.loops import AccessMode, Proc
from ocannl.ir.tnode import TNode
from ocannl.ir.verify import verify
from ocannl.lower.lower import lower
from ocannl.opt.pipeline import optimize
from ocannl.runtime.program import Program
from ocannl_backend_c.dialect import TYPES
from ocannl_export.errors import ExportError
from ocannl_export.targets import InstructionSet

WITHOUT_SIGNALS = frozenset({"insert_polls"})
"""Passes that a program needs in a process with signals only."""

WITHOUT_THREADS = frozenset({"parallelize"})

VECTOR_HINTS = frozenset({"prefetch", "prefetch_streams", "use_nontemporal_stores"})
"""Passes whose results ISO C cannot express."""

PRECISIONS = frozenset(precision.name for precision in TYPES)


def capabilities(target: InstructionSet, cpu: Cpu = COMMON_CPU) -> Capabilities:
    """The capabilities of C for a target. The description of the processor decides about speed, never about results."""
    return Capabilities(
        PRECISIONS, vector_bytes=target.vector_bytes, vector_registers=target.vector_registers, cpu=cpu
    )


def program_for(
    program: Program, name: str, target: InstructionSet, cpu: Cpu = COMMON_CPU, *, threads: bool = False
) -> Proc:
    """The loops of a routine for a target, under a name that is an identifier; with `threads`, long loops are parallel.

    Raises: ExportError for routines with host calls or merge buffers, and for types that C lacks.
    """
    _refuse(program)
    described = capabilities(target, cpu)
    without = WITHOUT_SIGNALS
    without |= frozenset() if threads else WITHOUT_THREADS
    without |= frozenset() if target.vector_bytes else VECTOR_HINTS
    proc = optimize(lower(program.comp, name), program.keep_reasons, described, without=without)
    verify(proc, "placed", alignment_bytes=described.alignment_bytes)
    return replace(proc, name=name)


def arguments(proc: Proc) -> list[tuple[TNode, bool]]:
    """The arrays outside the arena in the order of their addresses, each with whether the program writes it."""
    pairs = []
    for buf in pool_bufs(proc):
        assert buf.node is not None, f"the global array `{buf.name}` of `{proc.name}` belongs to no node"
        pairs.append((buf.node, buf.access in (AccessMode.OUT, AccessMode.INOUT)))
    return pairs


def _refuse(program: Program) -> None:
    calls = sorted({str(call) for call in host_calls(program.comp)})
    if calls:
        raise ExportError(
            f"routine `{program.name}` calls libraries of Python, which exported code has not: {', '.join(calls)}"
        )
    if program.merged:
        names = ", ".join(f"`{node.label}`" for node in program.merged)
        raise ExportError(f"routine `{program.name}` reads merge buffers, which only contexts have: {names}")
