"""Compiled code: serialization, rejected inputs, linking and lifetimes."""

import gc
import subprocess
import sys
import threading
import weakref
from dataclasses import replace
from random import Random

import numpy as np
import pytest

from ocannl.backend import Capabilities, CompileError, Location, Unsupported
from ocannl.backend.cpu.native_code import MAGIC
from ocannl.ir.affine import Affine, Sym, SymKind
from ocannl.ir.loops import AccessMode, Apply, Const, IndexValue, Load, Poll, Proc, ReadClock, Ref, Store, Update, loop
from ocannl.ir.ops import ADD, BY_NAME, MUL
from ocannl.ir.precision import float32

A = Affine.of


def scale(run, x, name="scale", by=2.0, syms=()):
    """`y[i] = tanh(x[i]) * by + sum of symbols`."""
    bufs = run.like("x", x, AccessMode.IN), run.like("y", x, AccessMode.OUT)
    i = Sym("i", 0, x.size - 1)
    value = Apply(MUL, (Apply(BY_NAME["tanh"], (Load(Ref(bufs[0], (A(i),))),)), Const(by, float32)))
    for sym in syms:
        value = Apply(ADD, (value, IndexValue(A(sym), float32)))
    return Proc(name, bufs, tuple(syms), (loop(i, (Store(Ref(bufs[1], (A(i),)), value),)),))


X = np.linspace(-2, 2, 9, dtype=np.float32)


def test_names_of_helpers_are_allowed(native, run):
    """The programs use all helpers: they have a parallel loop, a poll and a clock read."""
    x = np.linspace(-2, 2, 40_000, dtype=np.float32)
    names = ("poll", "parallel_for", "read_clock", "chunk", "direct", "thread_pool", "control", "main", "pause", "half")
    procs = []
    for name in names:
        proc = scale(run, x, name)
        (nest,) = proc.body
        times = run.like("times", np.zeros(1, np.int64), AccessMode.OUT)
        stamped = (replace(nest, body=(*nest.body, Poll()), parallel_chunk=1000), ReadClock(Ref(times, (A(0),))))
        procs.append(replace(proc, body=stamped, bufs=(*proc.bufs, times)))
    code = native.compile(procs)
    for proc in procs:
        _, got, _ = run(proc, x, np.empty_like(x), np.zeros(1, np.int64), code=code)
        np.testing.assert_allclose(got, np.tanh(x) * 2, rtol=1e-6)


def test_restored_code_is_the_same_code(native, run):
    n = Sym("n", 0, 9, SymKind.STATIC)
    procs = [scale(run, X), scale(run, X, "other", 3.0, [n])]
    code = native.compile(procs)
    restored = native.restore(code.blob)
    assert restored.blob == code.blob and restored.source == code.source
    for proc, syms in zip(procs, ((), (7,)), strict=True):
        original = run(proc, X, X * 0, syms=syms, code=code)[1]
        from_restored = run(proc, X, X * 0, syms=syms, code=restored)[1]
        np.testing.assert_array_equal(original, from_restored)
        np.testing.assert_allclose(original, np.tanh(X) * (3 if syms else 2) + sum(syms), rtol=1e-6)


def test_compiling_again_gives_the_same_bytes(native, run):
    assert native.compile([scale(run, X)]).blob == native.compile([scale(run, X)]).blob


@pytest.mark.parametrize(
    "damage",
    [
        lambda b: b"",
        lambda b: b"\n",
        lambda b: b"x" + b,
        lambda b: b[:10],
        lambda b: b[:-1],
        lambda b: b + b"\0",
        lambda b: b[: b.index(b"\n") + 1],
        lambda b: MAGIC + b"{}\n",
        lambda b: MAGIC + b"[]\n",
        lambda b: MAGIC + b'{"target": 3}\n',
        lambda b: MAGIC + b"{nonsense\n" + b.partition(b"\n")[2],
        lambda b: b.replace(b'"sizes": [', b'"sizes": [9'),
        lambda b: b.replace(b'"sizes": [', b'"sizes": [1, '),
        lambda b: b[:-9] + bytes([b[-9] ^ 1]) + b[-8:],
        lambda b: b.replace(b'"regions"', b'"reigons"'),
        lambda b: b.replace(b'"nbytes"', b'"mbytes"'),
        lambda b: b.replace(b"sha256", b"sha265"),
    ],
)
def test_a_damaged_header_is_refused(native, run, damage):
    blob = native.compile([scale(run, X)]).blob
    with pytest.raises(CompileError):
        native.restore(damage(blob))


def test_any_damage_is_refused(native, run):
    """Truncated or modified code is rejected before it is loaded."""
    random, blob = Random(0), native.compile([scale(run, X)]).blob
    start = blob.index(b"\n") + 1
    for _ in range(200):
        position, bit = random.randrange(start, len(blob)), 1 << random.randrange(8)
        for damaged in (blob[:position], blob[:position] + bytes([blob[position] ^ bit]) + blob[position + 1 :]):
            with pytest.raises(CompileError, match="damaged|truncated"):
                native.restore(damaged)


def test_a_missing_entry_is_refused(native, run):
    blob = native.compile([scale(run, X)]).blob
    with pytest.raises(CompileError, match="cannot link|has no such entry"):
        native.restore(blob.replace(b'"name": "scale"', b'"name": "skale"'))


@pytest.mark.parametrize("names", [["a", "a"], ["a b"], [""], ["\n"], ["1"]], ids=str)
def test_names_of_programs_are_distinct_identifiers(native, names):
    with pytest.raises(CompileError, match="names of programs must be distinct identifiers"):
        native.compile([Proc(name, (), (), ()) for name in names])


@pytest.mark.parametrize("name", ["exp", "tanhf", "memcpy", "main", "entry"])
def test_programs_may_be_called_like_functions_of_the_library(run, name):
    np.testing.assert_allclose(run(scale(run, X, name), X, X * 0)[1], np.tanh(X) * 2, rtol=1e-6)


def test_names_of_programs_and_nests_do_not_clash(native, run):
    names = ["a", "a_1", "a_2", "a_1_1", "ocannl_a", "ocannl_a_1", "x", "y"]
    procs = [scale(run, X, name, by=float(n)) for n, name in enumerate(names)]
    code = native.compile(procs)
    for n, proc in enumerate(procs):
        np.testing.assert_allclose(run(proc, X, X * 0, code=code)[1], np.tanh(X) * n, rtol=1e-6)


def test_code_can_be_linked_repeatedly(native, run):
    code = native.compile([proc := scale(run, X)])
    for n in range(3):
        np.testing.assert_allclose(run(proc, X * n, X * 0, code=code)[1], np.tanh(X * n) * 2, rtol=1e-6)


def test_linking_the_wrong_number_of_locations_is_refused(native, run):
    code = native.compile([scale(run, X)])
    location = Location(run.device.alloc_pool(64), 0)
    with pytest.raises(CompileError, match="`scale` takes 2 memory regions, but 1 are passed"):
        native.link(code, "scale", run.queue, [location])


@pytest.mark.parametrize("shift", [-36, -35, -4, 0, 4, 35, 36])
def test_memory_that_is_written_may_not_overlap(native, run, shift):
    pool = run.device.alloc_pool(256)
    locations = [Location(pool, 64), Location(pool, 64 + shift)]
    link = lambda: native.link(native.compile([scale(run, X)]), "scale", run.queue, locations)  # noqa: E731
    if abs(shift) < X.nbytes:
        with pytest.raises(CompileError, match="`y` overlaps another array of `scale`|`x` overlaps"):
            link()
    else:
        link()


def test_memory_that_is_only_read_may_overlap(native, run):
    x = [run.like(f"x{n}", X, AccessMode.IN) for n in range(3)]
    y = run.like("y", X[:1], AccessMode.INOUT)
    i = Sym("i", 0, 8)
    body = tuple(loop(i, (Update(Ref(y, (A(0),)), ADD, Load(Ref(b, (A(i),)))),)) for b in x)
    code = native.compile([Proc("sums", (*x, y), (), body)])
    pool = run.device.alloc_pool(256)
    location = Location(pool, 0)
    native.link(code, "sums", run.queue, [location, location, Location(pool, 4), Location(pool, 128)])
    for inside in (0, 20, 39):
        with pytest.raises(CompileError, match="overlaps another array"):
            native.link(code, "sums", run.queue, [location, location, Location(pool, 4), Location(pool, inside)])


@pytest.mark.parametrize("count", [1, 2, 3])
def test_symbols_are_counted(native, run, count):
    proc = scale(run, X, syms=[Sym(name, 0, 9, SymKind.STATIC) for name in "abc"[:count]])
    entry = native.link(native.compile([proc]), "scale", run.queue, run.locations(proc, [X, X]))
    entry(*range(count))
    for wrong in (range(count + 1), range(count - 1), [0.5] * count):
        with pytest.raises((TypeError, ValueError)):
            entry(*wrong)


@pytest.mark.slow
def test_an_entry_keeps_code_and_memory_alive(native, run):
    proc = scale(run, X)
    locations = run.locations(proc, [X, X * 0])
    code = native.compile([proc])
    entry = native.link(code, "scale", run.queue, locations)
    slab, library = weakref.ref(locations[1].pool.bytes), weakref.ref(code)
    freed = [run.device.free_pool(p.pool) for p in locations]
    del locations, code, freed
    gc.collect()
    entry()
    assert slab() is not None and library() is not None
    del entry
    gc.collect()
    assert slab() is None and library() is None


def test_threads_compile_and_run_side_by_side(native, run):
    failures = []

    def work(number):
        try:
            for n in range(5):
                by = float(number * 10 + n)
                got = run(scale(run, X, by=by), X, X * 0)[1]
                np.testing.assert_allclose(got, np.tanh(X) * by, rtol=1e-6, atol=1e-6)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


@pytest.mark.slow
def test_code_at_interpreter_shutdown(native):
    program = f"""
import numpy as np
from ocannl.backend import Location
from ocannl.ir.loops import *
from ocannl.ir.precision import float32
from ocannl_backend_{native.name} import ocannl_backend
backend = ocannl_backend().load()
y = Buf("y", float32, (), (), MemorySpace.GLOBAL, AccessMode.OUT)
code = backend.compile([Proc("p", (y,), (), (Store(Ref(y, ()), Const(1, float32)),))])
entry = backend.link(code, "p", backend.device(0).queue(False), [Location(backend.device(0).alloc_pool(4), 0)])
entry()
cycle = [entry]; cycle.append(cycle)
"""
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (result.returncode, result.stderr) == (0, "")


def test_unsupported_precisions_are_refused(native, run, monkeypatch):
    narrow = Capabilities(frozenset({"float64"}))
    monkeypatch.setattr(f"ocannl_backend_{native.name}.backend._capabilities", lambda: narrow)
    with pytest.raises(Unsupported, match=f"`x` is float32, not among the `precisions` of backend `{native.name}`"):
        native.compile([scale(run, X)])
