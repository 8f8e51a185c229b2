"""Compiling through the cache: a hit does what compiling does."""

import gc
import os
import sys
import threading
import time

import pytest

from ocannl.base.config import settings
from ocannl.base.errors import CodeError, CompileError, VerifyError
from ocannl.ir.capabilities import Capabilities
from ocannl.runtime import compile_cache
from ocannl.runtime.compile import Job, compile_programs


def compile_program(code, keep_reasons, name, backend):
    (program,) = compile_programs([Job(code, keep_reasons, name)], backend)
    return program


def decisions(nodes):
    return {name: str(node.last_decision) for name, node in nodes.items()}


def compiled(build, backend, keep_reasons=(), name="step"):
    nodes, code = build.layer()
    program = compile_program(code, {nodes[n]: "keep=" for n in keep_reasons}, name, backend)
    return program, nodes


def labels(links):
    return [(link.node.label, link.access) for link in links]


@pytest.mark.parametrize("warm", ["memory", "disk"])
@pytest.mark.parametrize("keep_reasons", [(), ("h",)])
def test_hit_returns_equal_program_and_decisions(build, fake, warm, keep_reasons):
    cold, first = compiled(build, fake, keep_reasons)
    if warm == "disk":
        compile_cache.clear()
    hit, second = compiled(build, fake, keep_reasons)
    assert (fake.compiled, fake.restored) == (1, 1 if warm == "disk" else 0)
    assert labels(hit.links) == labels(cold.links)
    assert [link.node for link in hit.links] == [second[link.node.label] for link in cold.links]
    assert hit.stages == cold.stages and list(hit.stages) == list(cold.stages)
    assert hit.code.source == cold.code.source
    assert hit.arena_bytes == cold.arena_bytes
    assert [(f.node.label, f.placement, f.pass_name) for f in hit.facts] == [
        (f.node.label, f.placement, f.pass_name) for f in cold.facts
    ]
    assert decisions(first) == decisions(second)
    assert ("temporary" in decisions(second)["h"]) == (not keep_reasons)


def test_hit_uses_symbols_of_the_new_code(build, fake):
    def code():
        from ocannl.ir.affine import Affine
        from ocannl.ir.assign import Assign, Piece, Read

        x, y, n = build.node("x", 5, 3), build.result("y", 3), build.static("n", 0, 5)
        (i,) = build.over(3)
        at = Affine.of
        return n, Assign(y, None, True, (Piece((i,), (at(i),), Read(x, (at(n), at(i)))),))

    for _ in range(2):
        n, assign = code()
        assert compile_program(assign, {}, "step", fake).syms == (n,)
    assert fake.compiled == 1


@pytest.mark.parametrize("determinant", ["name", "version", "capabilities", "keep_reasons", "backend"])
def test_key_covers_all_determinants(build, fake, determinant):
    compiled(build, fake)
    match determinant:
        case "name":
            compiled(build, fake, name="other")
        case "version":
            fake.version = "2"
            compiled(build, fake)
        case "capabilities":
            fake.capabilities = Capabilities(wants_schedule=False, alignment_bytes=128)
            compiled(build, fake)
        case "keep_reasons":
            compiled(build, fake, ["h"])
        case "backend":
            fake.name = "another"
            compiled(build, fake)
    assert fake.compiled == 2


def test_changed_package_source_is_a_miss(build, fake, monkeypatch):
    compiled(build, fake)
    monkeypatch.setattr("ocannl.runtime.source_fingerprint.package_fingerprint", lambda name: "changed")
    compiled(build, fake)
    assert fake.compiled == 2


def test_code_for_another_target_is_recompiled(build, fake, warnings):
    compiled(build, fake)
    compile_cache.clear()
    fake.refuses = True
    compiled(build, fake)
    assert fake.compiled == 2
    assert "does not fit this machine: another machine" in warnings.text


@pytest.mark.parametrize(
    "change",
    [{"links": [[99, "in"]]}, {"links": [[0, "sideways"]]}, {"facts": [[0]]}, {"arena": None}, {"syms": ["x"]}, None],
)
def test_a_record_of_another_form_is_a_miss(build, fake, warnings, monkeypatch, change):
    compiled(build, fake)
    compile_cache.clear()
    load = compile_cache.Record

    def twisted(self, key):
        return load({} if change is None else {**header, **change}, b"proc")

    header = {"links": [], "syms": [], "arena": 0, "facts": [], "stages": []}
    monkeypatch.setattr("ocannl.base.disk_cache.Cache.load", twisted)
    compiled(build, fake)
    assert fake.compiled == 2
    assert "has another form" in warnings.text


def test_disabled_disk_cache(build, fake, private_cache):
    with settings(cache=False):
        compiled(build, fake)
        compile_cache.clear()
        compiled(build, fake)
    assert fake.compiled == 2
    assert not private_cache.exists()


def test_code_without_blob_is_reused_while_a_program_has_it(build, fake, private_cache):
    """Such code may refer to nodes, whose memory would never be freed if the cache kept it."""
    compile_ = fake.compile

    def without(procs):
        code = compile_(procs)
        code.blob = None
        return code

    fake.compile = without
    programs = [compiled(build, fake), compiled(build, fake)]
    assert fake.compiled == 1
    compile_cache.clear()
    programs.append(compiled(build, fake))
    assert fake.compiled == 2
    programs.clear()
    gc.collect()
    compiled(build, fake)
    assert fake.compiled == 3
    assert not private_cache.exists() or not any(private_cache.iterdir())


def test_concurrent_compilations_are_deduplicated(build, fake):
    compile_, entered = fake.compile, threading.Barrier(4, timeout=20)

    def slow(procs):
        threading.Event().wait(0.2)
        return compile_(procs)

    fake.compile = slow
    failures = []

    def work():
        try:
            entered.wait()
            compiled(build, fake)
        except Exception as wrong:
            failures.append(wrong)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert fake.compiled == 1


def test_a_failed_compilation_leaves_no_lock(build, fake):
    good = fake.compile

    def bad(procs):
        raise ZeroDivisionError

    fake.compile = bad
    with pytest.raises(CompileError, match="the backend `fake` of ocannl .* failed on `step`.*: ZeroDivisionError"):
        compiled(build, fake)
    fake.compile = good
    compiled(build, fake)
    assert fake.compiled == 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_child_of_a_fork_can_compile():
    with (lock := threading.Lock()):
        compile_cache.wait_for_compilations(["key"], lock)
        child = os.fork()
        if child == 0:
            compile_cache.wait_for_compilations(["key"], threading.Lock())
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_only_one_thread_at_a_time_compiles_a_key():
    active, collisions, started = set(), [], threading.Barrier(6, timeout=20)

    def compile_keys(keys) -> None:
        started.wait()
        for _ in range(20):
            with (lock := threading.Lock()):
                compile_cache.wait_for_compilations(keys, lock)
                collisions.append(active & set(keys))
                active.update(keys)
                time.sleep(0.0005)
                active.difference_update(keys)

    orders = ["abc", "cba", "bd", "db", "a", "e"]
    threads = [threading.Thread(target=compile_keys, args=(list(keys),)) for keys in orders]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
        assert not thread.is_alive()
    assert len(collisions) == 120 and not any(collisions)
    assert not compile_cache._in_flight


def test_interrupts_at_every_call_leave_no_lock_and_collection_enabled(build, fake):
    """Python raises KeyboardInterrupt when it enters a function, among others."""
    files = ("compile.py", "compile_cache.py", "gc_pause.py", "contextlib.py")
    calls = 0

    def trace(frame, event, arg):
        nonlocal calls
        if frame.f_code.co_filename.endswith(files):
            calls += 1
            if calls == last:
                raise KeyboardInterrupt
        return None

    kept = []  # as by a debugger, with the frames of their tracebacks
    with settings(cache=False):
        for last in range(1, 1000):
            calls = 0
            compile_cache.clear()
            sys.settrace(trace)
            try:
                compiled(build, fake)
            except KeyboardInterrupt as interrupt:
                kept.append(interrupt)
            finally:
                sys.settrace(None)
            assert gc.isenabled()
            thread = threading.Thread(target=compiled, args=(build, fake), daemon=True)
            thread.start()
            thread.join(20)
            assert not thread.is_alive(), "a lock is held"
            if calls < last:
                break
    assert len(kept) == last - 1 > 100


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_child_of_a_fork_has_a_default_context(fake):
    from ocannl.runtime import context

    with context._defaults_lock:
        child = os.fork()
        if child == 0:
            context.default_context()
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_inputs_and_outputs(build, fake):
    program, nodes = compiled(build, fake)
    assert set(program.inputs) == {nodes["w"], nodes["x"]}
    assert program.outputs == (nodes["y"],)
    assert [fact.node for fact in program.temporaries] == [nodes["h"]]
    assert program.arena_bytes > 0
    kept, nodes = compiled(build, fake, ["h"])
    assert set(kept.outputs) == {nodes["h"], nodes["y"]}
    assert kept.arena_bytes == 0


def test_the_stages_are_in_order(build, fake):
    program, _ = compiled(build, fake)
    stages = list(program.stages)
    assert stages[0] == "lower" and stages[-1] == "allocate_memory"
    assert program.code.source == program.stages["allocate_memory"]
    assert "arena at 0" in program.stages["allocate_memory"]


def test_verify_every_pass(build, fake, monkeypatch):
    seen = []
    monkeypatch.setattr("ocannl.runtime.compile.verify", lambda proc, stage, **_: seen.append(stage))
    with settings(verify="every"):
        program, _ = compiled(build, fake, name="a")
    assert len(seen) == len(program.stages)
    assert seen[0] == "lowered" and seen[-1] == "placed"
    seen.clear()
    with settings(verify="ends"):
        compiled(build, fake, name="b")
    assert seen == ["lowered", "placed"]
    seen.clear()
    with settings(verify="off"):
        compiled(build, fake, name="c")
    assert seen == []


def test_an_ill_formed_program_is_not_compiled(build, fake, monkeypatch):
    def wrong(proc, stage, **_):
        raise VerifyError("this is wrong")

    monkeypatch.setattr("ocannl.runtime.compile.verify", wrong)
    with pytest.raises(VerifyError, match="this is wrong"):
        compiled(build, fake)
    assert fake.compiled == 0


def test_duplicate_symbol_names_raise(build, fake):
    from ocannl.ir.affine import Affine
    from ocannl.ir.assign import Assign, Call, Index, Piece
    from ocannl.ir.ops import ADD

    y = build.result("y")
    n, m = build.static("n", 0, 5), build.static("n", 0, 5)
    value = Call(ADD, (Index(Affine.of(n)), Index(Affine.of(m))))
    with pytest.raises(CodeError, match="two different symbols of this code are called `n`"):
        compile_program(Assign(y, None, True, (Piece((), (), value),)), {}, "step", fake)
