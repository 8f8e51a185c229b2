"""Schedules do not change results, which are bitwise reproducible with 1, 2 and 3 threads.

OCANNL_TEST_SCHEDULES is the number of random programs, starting with the seed OCANNL_TEST_FIRST.
"""

import os
from random import Random

import pytest
from loop_programs.program_runner import Runner
from loop_programs.random_chains import SHAPES
from loop_programs.random_procs import global_bufs, initial_arrays
from loop_programs.random_schedules import drawn, sample

from ocannl.ir.loops import AccessMode
from ocannl.ir.printer import print_proc
from ocannl.lower.lower import lower
from ocannl.testing.evaluate import evaluate
from ocannl.testing.random_programs import difference

BATCH = 20
FIRST, COUNT = int(os.environ.get("OCANNL_TEST_FIRST", "0")), int(os.environ.get("OCANNL_TEST_SCHEDULES", "120"))
LARGER = (*SHAPES, (40,), (17, 33), (64, 64), (5, 40), (130,), (3, 7, 19), (0,), (4, 0), (1, 50), (50, 1))


@pytest.fixture(scope="module")
def runners(native):
    return [Runner(native, threads) for threads in (1, 2, 3, 3)]


@pytest.mark.parametrize("first", range(FIRST, FIRST + COUNT, BATCH))
def test_any_schedule_computes_the_same(native, runners, first):
    cases = []
    for seed in range(first, min(first + BATCH, FIRST + COUNT)):
        random = Random(f"schedules {seed}")
        sample_program, kept_nodes = sample(random, LARGER)
        cases.append(
            (
                seed,
                sample_program,
                drawn(random, lower(sample_program.code, f"p{seed}"), kept_nodes, native.capabilities),
            )
        )
    code = native.compile([schedule.proc for _, _, schedule in cases])
    for seed, sample_program, schedule in cases:
        proc = schedule.proc
        pools, arrays = global_bufs(proc), initial_arrays(sample_program, proc)
        syms = [sample_program.symbols[sym] for sym in proc.syms]
        results = [run(proc, *arrays, syms=syms, code=code) for run in runners]
        got = {
            buf.node: array.reshape(buf.node.dims)
            for buf, array in zip(pools, results[0], strict=True)
            if buf.node is not None and buf.access is not AccessMode.MERGE
        }
        message = difference(
            evaluate(sample_program.code, sample_program.arrays, sample_program.symbols, sample_program.merged),
            got,
            sample_program.tolerance,
        )
        assert not message, f"seed {seed}: {schedule.words}\n{print_proc(proc)}\n{message}"
        for repeated in results[1:]:
            for buf, expected, actual in zip(pools, results[0], repeated, strict=True):
                assert expected.tobytes() == actual.tobytes(), (
                    f"seed {seed}: {schedule.words}\n{print_proc(proc)}\n{buf}"
                )
