"""Arrays of each thread: results do not depend on threads, and cancelled loops end."""

from __future__ import annotations

import re
import threading
import time
from dataclasses import replace
from random import Random
from unittest import mock

import numpy as np
import pytest
from loop_programs.program_runner import Runner

import ocannl as oc
from ocannl import train
from ocannl.ir.affine import TRUE, Affine, Sym, SymKind
from ocannl.ir.loops import (
    AccessMode,
    Apply,
    Buf,
    If,
    Load,
    Local,
    MemorySpace,
    Mode,
    Proc,
    Ref,
    Stmt,
    Store,
    Update,
    loop,
    row_major,
)
from ocannl.ir.ops import ADD, MUL
from ocannl.ir.precision import float32
from ocannl.opt import machine_model as machine
from ocannl.opt.analysis.substitution import with_buffers

A = Affine.of
SMALL = {"MIN_PARALLEL_OPS": 1, "MIN_CHUNK_OPS": 1, "MIN_TERMS_PER_COPIED_CELL": 1}


def array(name: str, *shape: int, access: AccessMode) -> Buf:
    return Buf(name, float32, shape, row_major(shape), MemorySpace.GLOBAL, access)


def nest(rows: int = 64, columns: int = 33, terms: int = 50, repetitions: int = 1) -> tuple[Stmt, tuple[Buf, ...]]:
    """`y += x @ w`, by way of a transposed private copy of `w`, several times."""
    x, w = array("x", rows, terms, access=AccessMode.IN), array("w", terms, columns, access=AccessMode.IN)
    y = array("y", rows, columns, access=AccessMode.INOUT)
    t = Buf("w_2", float32, (columns, terms), (terms, 1), MemorySpace.PRIVATE, AccessMode.TEMP)
    sizes = columns, terms, rows, columns, terms, repetitions
    i, j, b, o, k, r = (Sym(name, 0, size - 1) for name, size in zip("ijbokr", sizes, strict=True))
    copy = loop(i, (loop(j, (Store(Ref(t, (A(i), A(j))), Load(Ref(w, (A(j), A(i))))),)),))
    term = Apply(MUL, (Load(Ref(x, (A(b), A(k)))), Load(Ref(t, (A(o), A(k))))))
    product = loop(r, (loop(o, (loop(k, (Update(Ref(y, (A(b), A(o))), ADD, term),)),)),))
    return If(TRUE, (Local(t), copy, replace(loop(b, (product,)), parallel_chunk=3))), (x, w, y)


def numbers(bufs: tuple[Buf, ...]) -> list[np.ndarray]:
    random = np.random.default_rng(0)
    return [random.standard_normal(buf.shape).astype(np.float32) for buf in bufs]


@pytest.mark.parametrize("threads", [1, 2, 3, 8])
def test_every_iteration_is_executed_once(native, threads):
    stmt, bufs = nest()
    proc, arrays, runner = Proc("product", bufs, (), (stmt,)), numbers(bufs), Runner(native, threads)
    wanted, locations = arrays[2].astype(np.float64), runner.locations(proc, arrays)
    entry = native.compile([proc]).link("product", runner.queue, locations)
    for _ in range(20):
        entry()
        wanted += arrays[0].astype(np.float64) @ arrays[1]
    *_, out = runner.read(locations, arrays)
    np.testing.assert_allclose(out, wanted, rtol=1e-4, atol=1e-4)


def test_scopes_in_sequential_loops(run):
    """The frame of the loop is that of the function of the region."""
    stmt, bufs = nest(7, 5, 3)
    s, n = Sym("s", 0, 3, SymKind.ITERATION), Sym("n", 0, 6)
    steps = array("steps", 7, access=AccessMode.INOUT)
    count = loop(n, (Update(Ref(steps, (A(n),)), ADD, Load(Ref(bufs[0], (A(n), A(0))))),))
    proc = Proc("repeated", (*bufs, steps), (), (loop(s, (stmt, count), mode=Mode.SEQUENTIAL),))
    x, w, y = numbers(bufs)
    *_, got, sums = run(proc, x, w, y, np.zeros(7, np.float32))
    np.testing.assert_allclose(got, y + 4 * (x @ w), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(sums, 4 * x[:, 0], rtol=1e-6)


def test_equal_scopes_share_their_functions(native):
    (first, bufs), (second, second_bufs) = nest(), nest()
    renamed = {buf: replace(buf, name=f"{buf.name}_again") for buf in second_bufs}
    (second,) = with_buffers((second,), renamed)
    text = native.compile([Proc("twice", (*bufs, *renamed.values()), (), (first, second))]).source
    chunk_functions = re.findall(r"^(?:define i32|static .*int) \S+chunk\(.*[{)]$", text, re.MULTILINE)
    assert len(chunk_functions) == 1


def test_a_cancelled_loop_ends(native):
    """The loop takes many seconds; a poll returns from it, and no thread begins another chunk."""
    stmt, bufs = nest(rows=4000, columns=200, terms=300, repetitions=200)
    proc, runner = Proc("long", bufs, (), (stmt,)), Runner(native)
    queue = runner.queue = runner.device.queue(threaded=True, threads=2)
    queue.submit(native.compile([proc]).link("long", queue, runner.locations(proc, numbers(bufs))))
    start = time.perf_counter()
    timer = threading.Timer(0.1, queue.cancel)
    timer.start()
    queue.synchronize()
    timer.join()
    assert time.perf_counter() - start < 2


@pytest.mark.parametrize("seed", range(12))
def test_training_steps_do_not_depend_on_threads(native, seed):
    """Layers of random sizes, with thresholds so low that most operands are copied."""
    random = Random(seed)
    batch, *sizes = (random.randint(1, 70) for _ in range(4))
    generator = np.random.default_rng(seed)
    values = generator.standard_normal((batch, sizes[0])).astype(np.float32)

    def losses(name: str, threads: int) -> tuple[list[float], str]:
        with oc.Context(name, threads=threads) as context:
            x = oc.placeholder("x", batch=[batch], input=[], output=[sizes[0]])
            hidden = oc.tanh(oc.param("w1", o=[sizes[1]]) @ x)
            loss = ((oc.param("w2", o=[sizes[2]]) @ hidden) ** 2).sum() * (1 / batch)
            context.init(loss, seed=1)
            context[x] = values
            step = context.compile(oc.seq(train.grad_update(loss), train.sgd(loss, 1e-3)))
            result = []
            for _ in range(3):
                step()
                result.append(float(context[loss]))
            return result, "" if name == "numpy" else str(step.stages())

    with mock.patch.multiple(machine, **SMALL):
        wanted, _ = losses("numpy", 1)
        alone, text = losses(native.name, 1)
        assert losses(native.name, 2)[0] == losses(native.name, 5)[0] == alone
    np.testing.assert_allclose(alone, wanted, rtol=1e-4)
    assert "private " in text or min(batch, *sizes) < 16
