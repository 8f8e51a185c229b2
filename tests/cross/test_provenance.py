"""Statements lead to lines of Python, and lines of Python to statements, after every pass, in the workloads of the
benchmarks and in random programs, of which OCANNL_TEST_PROVENANCE is the number (default 20; 200 is the whole count).
"""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from random import Random

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))

from compare.models import model
from compare.workloads import WORKLOADS

import ocannl as oc
from ocannl import train
from ocannl.base.source_positions import line_of, path_of
from ocannl.ir.assign import Origin
from ocannl.ir.capabilities import Capabilities
from ocannl.ir.loops import Proc
from ocannl.ir.merged_origins import OriginReaders
from ocannl.ir.provenance import PrintCache, ProgramPart, program_parts
from ocannl.runtime.program import Program
from ocannl.testing.random_expressions import generate

RANDOM_PROGRAMS = int(os.environ.get("OCANNL_TEST_PROVENANCE", "20"))


@cache
def file_lines(path: str) -> list[str]:
    return Path(path).read_text(encoding="utf-8").splitlines()


@cache
def vectorizing() -> Capabilities:
    """Those of the backend with the longest pipeline."""
    usable = {row.name for row in oc.backends() if row.usable}
    return oc.Context("llvm" if "llvm" in usable else "numpy", threads=2).backend.capabilities


def is_written(origin: Origin, sources: Mapping[str, list[str]]) -> bool:
    """Whether the origin is a line of Python that is not blank."""
    path, number = path_of(origin.where), line_of(origin.where)
    lines = sources.get(path) or file_lines(path) if path else []
    return 0 < number <= len(lines) and bool(lines[number - 1].strip())


def count(program: Program, text: str = "") -> Counter[str]:
    """Counts lines, those that lead to no line of Python, and lines of Python that lead to no statement of a stage."""
    stages: list[Proc] = []
    replace(program, capabilities=vectorizing()).rebuild(lambda name, proc: stages.append(proc))
    lines_cache = PrintCache()
    readers = OriginReaders(stages[0])
    written = {origin for part in program_parts(stages[0], lines_cache)[1:] for origin in part.origins}
    counts: Counter[str] = Counter()
    sources = {"<program>": text.splitlines()}
    unplaced: dict[int, tuple[ProgramPart, int]] = {}  # of parts, which stages share
    for proc in stages:
        parts = program_parts(proc, lines_cache)
        for part in parts:
            if id(part) not in unplaced:
                unplaced[id(part)] = part, sum(not is_written(origin, sources) for origin in part.origins)
            counts["lines"] += len(part.texts)
            counts["without Python"] += unplaced[id(part)][1]
        statements = {origin for part in parts[1:] for origin in part.origins}
        merged = readers.merged(statements)
        counts["Python"] += len(written)
        assert statements <= written  # no pass invents an origin
        assert written - statements <= merged.keys()
        assert all(statements.issuperset(successors) for successors in merged.values())
        counts["without statements"] += sum(not successors for successors in merged.values())
    return counts


def test_workloads_of_the_benchmarks() -> None:
    ctx = oc.Context("numpy")
    total: Counter[str] = Counter()
    for workload in WORKLOADS.values():
        built = model(workload())
        total += count(ctx.compile(built.code, keep=built.results).program)
    assert total["lines"] > 100_000 and total["Python"] > 1000
    assert total["without Python"] == total["without statements"] == 0


def test_random_programs() -> None:
    ctx = oc.Context("numpy")
    total: Counter[str] = Counter()
    for seed in range(RANDOM_PROGRAMS):
        program = generate(Random(seed))
        built = program.build("float32")
        code = train.grad_update(built.loss)
        if built.update is not None:
            code = oc.seq(code, built.update)
        total += count(ctx.compile(code).program, program.text)
    assert total["lines"] > 1000 * RANDOM_PROGRAMS
    assert total["without Python"] == total["without statements"] == 0
