"""Lowered random programs: compiled code and the interpreter agree to the tolerance that the generator states."""

from random import Random

import numpy as np
import pytest

from ocannl.ir.loops import Access, Home
from ocannl.lower.lower import lower
from ocannl.opt.memory import memory
from ocannl.testing.generate import difference, generate
from ocannl.testing.interpret import interpret

BATCH = 12


@pytest.mark.parametrize("seed", range(40))
def test_compiled_programs_agree_with_the_interpreter(llvm, run, seed):
    programs = [generate(Random(f"llvm {seed} {n}")) for n in range(BATCH)]
    procs = [memory(lower(program.code, f"p{n}"), 64) for n, program in enumerate(programs)]
    code = llvm.compile(procs)  # of all at once: they share what helps them
    for program, proc in zip(programs, procs, strict=True):
        want = interpret(proc, program.arrays, program.symbols, program.merged)
        pools = [buf for buf in proc.bufs if buf.home is Home.POOL]
        given = [(program.merged if buf.access is Access.MERGE else program.arrays).get(buf.node) for buf in pools]
        arrays = [
            np.full(buf.nbytes, 0xFF, np.uint8).view(buf.precision.numpy) if array is None else array
            for array, buf in zip(given, pools, strict=True)
        ]
        after = run(proc, *arrays, syms=[program.symbols[s] for s in proc.syms], code=code)
        got = {
            buf.node: array.reshape(buf.node.dims)
            for buf, array in zip(pools, after, strict=True)
            if buf.access is not Access.MERGE
        }
        assert want.keys() == got.keys()
        assert not (words := difference(want, got, program.tolerance)), f"seed {seed}, {proc.name}: {words}"
