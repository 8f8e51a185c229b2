"""The kit sees every lie in programs and code: the example backend, wrong in one way, fails the area that is for it."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable
from dataclasses import replace
from itertools import count

import numpy as np
import pytest

from ocannl.backend import Backend, Location
from ocannl.base.errors import BackendError
from ocannl.ir import loops as ir
from ocannl.ir.affine import Affine, Bound
from ocannl.ir.ops import ADD, MUL
from ocannl.ir.precision import int64
from ocannl.ir.walk import rewrite_body
from ocannl_backend_example.backend import DIGEST, ExampleBackend, ExampleCode, apply, cast
from ocannl_backend_example.emit import emit, symbol

LIES: list[tuple[str, str, Callable[[], Backend]]] = []


def lie(defect, area):
    """A backend, as a class, and the area of the kit that must see what is wrong with it."""

    def note(backend):
        LIES.append((defect, area, backend))
        return backend

    return note


class Mutant(ExampleBackend):
    name = "mutant"


# ------------------------------------------------------------------------------------------------------------ the text


def rewriting(defect, area):
    """A rule that changes statements and expressions before they are printed."""

    def note(rule):
        class Rewriting(Mutant):
            def compile(self, procs):
                return super().compile([replace(proc, body=rewrite_body(proc.body, rule)) for proc in procs])

        LIES.append((defect, area, Rewriting))
        return rule

    return note


def naming(defect, area, **names):
    """Other functions than those that the text means."""

    class Named(ExampleCode):
        def __init__(self, source):
            super().__init__(source)
            self.functions.update(names)

    class Naming(Mutant):
        def compile(self, procs):
            return Named(emit(procs))

    LIES.append((defect, area, Naming))


def saturating(low, high):
    return lambda value: min(max(int(value), low), high)


def truncated(value):
    bits = np.float64(value).view(np.uint64) & np.uint64(0xFFFFFFFFE0000000)
    return float(bits.view(np.float64)) if np.isfinite(value) else value


def applying(change):
    return lambda name, kind, *values: change(apply(name, kind, *values), name, kind, *values)


def casting(change):
    return lambda value, source, target: change(cast(value, source, target), value, source, target)


# fmt: off
naming("float32 is not rounded, but cut off", "Operations", as_float32=truncated)
naming("int32 saturates instead of wrapping", "Operations", as_int32=saturating(-(2**31), 2**31 - 1))
naming("NaN is lost in a maximum", "Operations",
       apply=applying(lambda r, name, kind, *v: max(v, key=lambda x: (x == x, x)) if name == "max" else r))
naming("the remainder has the sign of the first", "Operations",
       apply=applying(lambda r, name, kind, *v: float(np.fmod(*v)) if (name, kind) == ("mod", "float64") else r))
naming("the exponential is off by a millionth", "Operations",
       apply=applying(lambda r, name, *v: r * (1 + 1e-6) if name == "exp" else r))
naming("the sign of zero is lost in casts", "Casts", cast=casting(lambda r, *v: r + 0 if r == 0 else r))
naming("casts to integers round", "Casts",
       cast=casting(lambda r, v, s, t: round(v) if "float" in s and "int" in t and abs(v) < 1e9 else r))
naming("NaN is false", "Casts", cast=casting(lambda r, v, s, t: bool(v == v and v) if t == "bool" else r))
naming("int64 travels by way of float64", "Casts",
       cast=casting(lambda r, v, s, t: ctypes.c_int64(int(float(v))).value if (s, t) == ("uint64", "int64") else r))
# fmt: on


@rewriting("steps are ignored", "Loops")
def no_steps(node):
    return replace(node, step=1) if isinstance(node, ir.For) else node


@rewriting("quotients of lower bounds round down", "Loops")
def lower_quotients(node):
    if isinstance(node, ir.For) and any(d > 1 for _, d in node.lo.quotients):
        return replace(node, lo=Bound(tuple((a - d + 1, d) for a, d in node.lo.quotients)))
    return node


@rewriting("of several bounds only the first one counts", "Loops")
def one_bound(node):
    return replace(node, hi=Bound(node.hi.quotients[:1])) if isinstance(node, ir.For) else node


@rewriting("triangular loops end one too soon", "Loops")
def short_triangles(node):
    if isinstance(node, ir.For) and node.hi.constant is None:
        return replace(node, hi=Bound(tuple((a - d, d) for a, d in node.hi.quotients)))
    return node


@rewriting("loops begin with their second iteration", "Loops")
def late_loops(node):
    if isinstance(node, ir.For) and node.lo.constant is not None:
        return replace(node, lo=Bound.lower(node.lo.constant + 1))
    return node


@rewriting("the last iterations are claimed by nobody", "Loops")
def unclaimed(node):
    if isinstance(node, ir.For) and node.parallel_chunk:
        remainder = node.sym.extent % node.parallel_chunk
        return replace(node, hi=Bound(tuple((a - remainder * d, d) for a, d in node.hi.quotients)))
    return node


@rewriting("conditions that two indices are equal are forgotten", "Loops")
def no_equality(node):
    return replace(node, cond=replace(node.cond, eq0=())) if isinstance(node, ir.If | ir.When) else node


@rewriting("there is no `else`", "Loops")
def no_else(node):
    return replace(node, orelse=()) if isinstance(node, ir.If) else node


@rewriting("local arrays start as zero", "Loops")
def zero_locals(node):
    return replace(node, init=0) if isinstance(node, ir.Local) else node


@rewriting("named values are computed where they are used", "Loops")
def late_values(node):
    if isinstance(node, ir.For) and any(isinstance(s, ir.Let) for s in node.body):
        return replace(node, body=tuple(sorted(node.body, key=lambda s: isinstance(s, ir.Store | ir.Let))))
    return node


@rewriting("both sides of a choice are computed", "Loops")
def eager_choices(node):
    if not isinstance(node, ir.When):
        return node
    zero = ir.Const(0, node.precision)
    then, orelse = (
        ir.Apply(ADD, (left, ir.Apply(MUL, (right, zero))))
        for left, right in ((node.on_true, node.on_false), (node.on_false, node.on_true))
    )
    return ir.When(node.cond, then, orelse)


@rewriting("an update is a store", "Operations")
def no_updates(node):
    return ir.Store(node.ref, node.value) if isinstance(node, ir.Update) else node


@rewriting("constants are cut off", "Operations")
def whole_constants(node):
    if isinstance(node, ir.Const) and np.isfinite(node.value):
        return replace(node, value=type(node.value)(int(node.value)))
    return node


@rewriting("indices only count upwards", "Layouts")
def upwards(node):
    if isinstance(node, ir.Load) and any(c < 0 for a in node.ref.indices for c, _ in a.terms):
        indices = tuple(Affine(tuple((abs(c), s) for c, s in a.terms)) for a in node.ref.indices)
        return ir.Load(ir.Ref(node.ref.buf, indices))
    return node


@rewriting("constants in indices are ignored", "Layouts")
def no_constants(node):
    if isinstance(node, ir.Load):
        return ir.Load(ir.Ref(node.ref.buf, tuple(Affine(a.terms) for a in node.ref.indices)))
    return node


@lie("statements are done in another order", "Loops")
class Disorder(Mutant):
    def compile(self, procs):
        return super().compile([replace(proc, body=proc.body[::-1]) for proc in procs])


@lie("symbols are taken from the last one to the first", "Loops")
class Backwards(Mutant):
    def compile(self, procs):
        return super().compile([replace(proc, syms=proc.syms[::-1]) for proc in procs])


# -------------------------------------------------------------------------------------------------- capabilities, code


@lie("float16 is claimed", "Operations")
class Boastful(Mutant):
    capabilities = replace(Mutant.capabilities, precisions=Mutant.capabilities.precisions | {"float16"})


@lie("float64 is not claimed, and computed all the same", "Operations")
class Modest(Mutant):
    capabilities = replace(Mutant.capabilities, precisions=Mutant.capabilities.precisions - {"float64"})


@lie("a refusal does not name the capability", "Casts")
class Mute(Mutant):
    def compile(self, procs):
        try:
            return super().compile(procs)
        except BackendError as refusal:
            raise type(refusal)("no") from None


@lie("there are precisions that nobody knows", "Declaration")
class Inventive(Mutant):
    capabilities = replace(Mutant.capabilities, precisions=frozenset({"float32", "float31"}))


@lie("the version is another one every time", "Declaration")
class Fickle(Mutant):
    versions = count()

    @property
    def version(self):
        return str(next(self.versions))


@lie("timestamps are claimed", "Claims")
class Timeless(Mutant):
    capabilities = replace(Mutant.capabilities, timestamps=True)


@rewriting("timestamps are not claimed, and yet taken", "Claims")
def zero_times(node):
    return ir.Store(node.ref, ir.Const(0, int64)) if isinstance(node, ir.ReadClock) else node


@lie("the clock stands still", "Claims")
class Stopped(Mutant):
    capabilities = replace(Mutant.capabilities, timestamps=True)

    def compile(self, procs):
        return super().compile([replace(proc, body=rewrite_body(proc.body, zero_times)) for proc in procs])


@lie("an operation is not claimed, and computed all the same", "Operations")
class Able(Mutant):
    capabilities = replace(Mutant.capabilities, operations=Mutant.capabilities.operations - {"relu"})


@lie("an operation is missing that the core cannot compose", "Claims")
class Addless(Mutant):
    capabilities = replace(Mutant.capabilities, operations=Mutant.capabilities.operations - {"add"})


@lie("there are operations that nobody knows", "Claims")
class Original(Mutant):
    capabilities = replace(Mutant.capabilities, operations=Mutant.capabilities.operations | {"frobnicate"})


@lie("a claim has no effect", "Claims")
class Vain(Mutant):
    capabilities = replace(Mutant.capabilities, wants_online_softmax=True)


@lie("variants cannot be compiled", "Claims")
class HalfTunable(Mutant):
    def variants(self, nest):
        return [0]


@lie("all variants are the same", "Claims")
class Monotonous(Mutant):
    def variants(self, nest):
        return [0, 1]

    def compile_variants(self, procs, variants):
        return self.compile(procs)


@lie("of several programs the first one is run", "Linking")
class FirstOnly(Mutant):
    def compile(self, procs):
        code = super().compile(procs)
        for proc in procs[1:]:
            code.functions[symbol(proc.name)] = code.functions[symbol(procs[0].name)]
        return code


@lie("programs are known by their names alone", "Linking")
class ByName(Mutant):
    def __init__(self):
        self.known = {}

    def compile(self, procs):
        return self.known.setdefault(tuple(p.name for p in procs), super().compile(procs))


@lie("code is bound to the memory it was linked to first", "Linking")
class BoundOnce(Mutant):
    def __init__(self):
        self.entries = {}

    def link(self, code, name, queue, locations):
        _, entry = self.entries.setdefault((id(code), name), (code, super().link(code, name, queue, locations)))
        return entry


@lie("the text of code changes from time to time", "Linking")
class Dated(Mutant):
    dates = count()

    def compile(self, procs):
        return ExampleCode(f"# {next(self.dates)}\n{emit(procs)}")


@lie("bytes are not looked at before they are run", "Blobs")
class Trusting(Mutant):
    def restore(self, blob):
        return ExampleCode(blob[DIGEST:].decode("ascii", "replace"))


@lie("damaged bytes end in any error", "Blobs")
class Careless(Mutant):
    def restore(self, blob):
        return super().restore(blob) if len(blob) > DIGEST else blob[DIGEST]


@lie("code that comes back has lost its first program", "Blobs")
class Forgetful(Mutant):
    def restore(self, blob):
        code = super().restore(blob)
        code.functions.pop(next(n for n in code.functions if n.startswith("ocannl_")))
        return code


@lie("offsets of locations are ignored", "Layouts")
class NoOffsets(Mutant):
    def link(self, code, name, queue, locations):
        return super().link(code, name, queue, [Location(where.pool, 0) for where in locations])


@lie("offsets in the arena are ignored", "Layouts")
class NoArena(Mutant):
    def link(self, code, name, queue, locations):
        bind = code.functions[symbol(name)]
        copy = ExampleCode(code.source)
        copy.functions[symbol(name)] = lambda at: bind(lambda region, held, cells, offset=0: at(region, held, cells))
        return super().link(copy, name, queue, locations)


class Touching(Mutant):
    """Does something to the memory after each call."""

    def __init__(self):
        self.procs = {}

    def compile(self, procs):
        self.procs.update((proc.name, proc) for proc in procs)
        return super().compile(procs)

    def link(self, code, name, queue, locations):
        entry = super().link(code, name, queue, locations)
        proc = self.procs[name]

        def run(*values):
            entry(*values)
            for buf, where in zip((b for b in proc.bufs if b.space is ir.MemorySpace.GLOBAL), locations, strict=False):
                self.touch(queue.device, where, buf)

        return run


@lie("a byte behind each array is written", "Layouts")
class Beyond(Touching):
    def touch(self, device, where, buf):
        device.window(Location(where.pool, where.offset_bytes + buf.nbytes), 1)[:] = 0


@lie("what may only be read is written", "Layouts")
class Scribbling(Touching):
    def touch(self, device, where, buf):
        if buf.access is ir.AccessMode.IN and buf.nbytes:
            device.window(where, 1)[:] += 1


@lie("symbols are shared by everyone who calls", "Concurrency")
class Racing(Mutant):
    """As a backend that passes values by way of the code: the last one who calls is heard."""

    def __init__(self):
        self.values = {}

    def link(self, code, name, queue, locations):
        entry = super().link(code, name, queue, locations)

        def run(*values):
            self.values[name] = values
            time.sleep(0)
            entry(*self.values[name])

        return run


@pytest.mark.parametrize(("defect", "area", "make"), LIES, ids=[defect for defect, _, _ in LIES])
def test_a_lie_is_seen(judge, defect, area, make):
    verdict = judge(area, make())
    assert verdict.failed, f"{area} does not see that {defect}: {verdict.passed} tests passed"


@pytest.mark.slow
def test_no_lie_is_seen_where_there_is_none(judge):
    for area in sorted({area for _, area, _ in LIES}):
        verdict = judge(area, Mutant())
        assert verdict.passed and not verdict.failed
