"""Statements lead to lines of Python, and lines of Python to statements, after every pass, in the workloads of the
benchmarks and in random programs, of which OCANNL_TEST_PROVENANCE is the number (default 20; 200 is the whole count).
"""

from __future__ import annotations

import os
import sys
from collections import Counter
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
from ocannl.ir.capabilities import Capabilities
from ocannl.ir.loops import Proc
from ocannl.ir.merged_origins import OriginReaders
from ocannl.ir.provenance import PrintCache, body_lines, program_lines
from ocannl.runtime.program import Program
from ocannl.testing.random_expressions import generate

RANDOM_PROGRAMS = int(os.environ.get("OCANNL_TEST_PROVENANCE", "20"))


@cache
def file_lines(path: str) -> list[str]:
    return Path(path).read_text(encoding="utf-8").splitlines()


def vectorizing() -> Capabilities:
    """Those of the backend with the longest pipeline."""
    usable = {row.name for row in oc.backends() if row.usable}
    return oc.Context("llvm" if "llvm" in usable else "numpy", threads=2).backend.capabilities


def count(program: Program, text: str = "") -> Counter[str]:
    """Counts lines, those that lead to no line of Python, and lines of Python that lead to no statement of a stage."""
    stages: list[Proc] = []
    replace(program, capabilities=vectorizing()).rebuild(lambda name, proc: stages.append(proc))
    lines_cache = PrintCache()
    readers = OriginReaders(stages[0])
    written = {line.origin for line in body_lines(stages[0], lines_cache)}
    counts: Counter[str] = Counter()
    for proc in stages:
        for line in program_lines(proc, lines_cache):
            path, number = path_of(line.origin.where), line_of(line.origin.where)
            source = text.splitlines() if path == "<program>" else file_lines(path) if path else []
            counts["lines"] += 1
            counts["without Python"] += not (0 < number <= len(source) and source[number - 1].strip())
        statements = {line.origin for line in body_lines(proc, lines_cache)}
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
