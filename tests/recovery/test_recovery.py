"""Recovery from defects: warnings, errors, reproducers, the cache, threads, and what is not a defect."""

from __future__ import annotations

import json
import logging
import os
import re
import subprocess
import sys
import threading
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ocannl as oc
from ocannl.base.config import settings
from ocannl.base.errors import CodeError, CompileError, OutOfMemory, Unsupported, VerifyError
from ocannl.cli.probe import probe_backend
from ocannl.cli.replay import failures_of
from ocannl.ir.capabilities import ALL_OPERATIONS
from ocannl.ir.loops import For, Mode, Proc
from ocannl.ir.walk import walk
from ocannl.opt import pipeline
from ocannl.opt.pipeline import passes
from ocannl.opt.schedule import schedule as schedule_module
from ocannl.runtime import compile_cache, reproducer

from .corruptions import CORRUPTIONS
from .programs import Step, reproducer_of, seed, training_step, usable

Patch = pytest.MonkeyPatch
pytestmark = pytest.mark.skipif(not usable("llvm"), reason="`llvm` is not usable here")
KEY_ERROR = CORRUPTIONS["it raises KeyError"]


def compile_with_warning(step: Step) -> tuple[oc.Routine, str]:
    with pytest.warns(oc.DefectWarning) as caught:
        routine = step.compile()
    (warning,) = caught
    return routine, str(warning.message)


def count_calls(patch: Patch, owner: Any, name: str) -> Counter[str]:
    calls: Counter[str] = Counter()
    original = getattr(owner, name)

    def counted(*args: Any, **more: Any) -> Any:
        calls[name] += 1
        return original(*args, **more)

    patch.setattr(owner, name, counted)
    return calls


# ------------------------------------------------------------------------------------------------- the normal path


def test_correct_compilation_runs_each_pass_once(monkeypatch: Patch, defects: Path) -> None:
    step = training_step()
    names = [row.name for row in passes({}, step.ctx.backend.capabilities) if row.when]
    calls = [count_calls(monkeypatch, pipeline, name) for name in names]
    lowerings = count_calls(monkeypatch, sys.modules["ocannl.runtime.compile"], "lower")
    step.check(step.compile())
    assert [sum(counter.values()) for counter in calls] == [1] * len(names)
    assert lowerings["lower"] == 1
    assert not defects.exists()


# ------------------------------------------------------------------------------------------- warnings and reproducers


def test_one_warning_per_process(monkeypatch: Patch, defects: Path, caplog: pytest.LogCaptureFixture) -> None:
    first, second, third = training_step(), training_step(), training_step()
    seed(monkeypatch, "fuse_epilogues", KEY_ERROR)
    compile_with_warning(first)
    compile_cache.clear()
    with warnings.catch_warnings(), caplog.at_level(logging.INFO, "ocannl.runtime.recovery"):
        warnings.simplefilter("error")
        second.check(second.compile())
        compile_cache.clear()
        seed(monkeypatch, "prefetch", KEY_ERROR)
        third.check(third.compile())
    assert "`fuse_epilogues` failed on `step`, which is compiled without `fuse_epilogues`, `prefetch`" in caplog.text
    assert len(list(defects.iterdir())) == 1


def test_each_failing_pass_has_a_reproducer(monkeypatch: Patch, defects: Path) -> None:
    first, second = training_step(), training_step()
    with monkeypatch.context() as patch:
        seed(patch, "fuse_epilogues", KEY_ERROR)
        compile_with_warning(first)
    compile_cache.clear()
    seed(monkeypatch, "simplify", KEY_ERROR)
    second.check(second.compile())
    cases = [reproducer.read(path) for path in defects.iterdir()]
    assert {case.failed for case in cases} == {"fuse_epilogues", "simplify"}


def test_number_of_reproducers_is_limited(monkeypatch: Patch, defects: Path) -> None:
    paths = [reproducer.write(f"text {number}") for number in range(reproducer.MAX_FILES + 5)]
    assert set(defects.iterdir()) == set(paths[5:])
    assert reproducer.write("text 20") == paths[20], "equal files are written once"


def test_reproducer_holds_names_and_constants_but_no_data(monkeypatch: Patch) -> None:
    secret = 0.73195
    x = oc.tensor(np.full((3, 4), secret, "float32"), batch_axes=1, label="hush")
    y = (x * 2.625).with_label("y")
    ctx = oc.Context("llvm")
    seed(monkeypatch, "simplify", KEY_ERROR)
    with pytest.warns(oc.DefectWarning) as caught:
        ctx.compile(y.forward)
    text = reproducer_of(str(caught[0].message)).read_text()
    assert "hush" in text and "2.625" in text
    assert "0.7319" not in text and __file__ not in text and "test_recovery.py" not in text
    assert "but no values of tensors" in str(caught[0].message)


def test_reproducer_is_a_temporary_file_if_the_cache_cannot_be_written(monkeypatch: Patch, tmp_path: Path) -> None:
    step, blocked = training_step(), tmp_path / "file"
    blocked.write_text("no folder")
    seed(monkeypatch, "simplify", KEY_ERROR)
    with settings(cache_dir=str(blocked)):
        routine, message = compile_with_warning(step)
    step.check(routine)
    assert reproducer_of(message).parent.parent == tmp_path / "tmp"


def test_reproducer_is_a_temporary_file_without_a_cache(monkeypatch: Patch, tmp_path: Path, defects: Path) -> None:
    step = training_step()
    seed(monkeypatch, "simplify", KEY_ERROR)
    with settings(cache=False):
        _, message = compile_with_warning(step)
    assert reproducer_of(message).parent.parent == tmp_path / "tmp"
    assert not defects.exists()


def test_warning_says_that_no_reproducer_could_be_written(monkeypatch: Patch, tmp_path: Path) -> None:
    step, blocked = training_step(), tmp_path / "file"
    blocked.write_text("no folder")
    monkeypatch.setattr("tempfile.tempdir", str(blocked))
    seed(monkeypatch, "simplify", KEY_ERROR)
    with settings(cache_dir=str(blocked)):
        routine, message = compile_with_warning(step)
    step.check(routine)
    assert "the file that reproduces it could not be written: NotADirectoryError" in message


@pytest.mark.parametrize("text", [
    "", "[]", '{"format": "another"}', '{"format": "ocannl reproducer 3"}',
    '{"format": ["ocannl reproducer 3"]}', "[" * 100_000, "\xff",
])  # fmt: skip
def test_damaged_reproducers_are_refused(text: str, tmp_path: Path) -> None:
    path = tmp_path / "file.json"
    path.write_text(text, encoding="latin-1")
    with pytest.raises(ValueError, match="file|Expecting|decode"):
        reproducer.read(path)


def test_reproducers_of_the_format_before_are_read(monkeypatch: Patch, tmp_path: Path) -> None:
    """The capabilities of a backend had no operations: it had all."""
    step = training_step()
    seed(monkeypatch, "simplify", KEY_ERROR)
    path = reproducer_of(compile_with_warning(step)[1])
    document = json.loads(path.read_text())
    assert document["format"] == reproducer.FORMAT == "ocannl reproducer 3"
    del document["capabilities"]["operations"]
    document["format"] = "ocannl reproducer 2"
    earlier = tmp_path / "earlier.json"
    earlier.write_text(json.dumps(document))
    case = reproducer.read(earlier)
    assert case.capabilities.operations == ALL_OPERATIONS
    assert case.choices == reproducer.read(path).choices


@pytest.mark.parametrize("constructor", ["eval", "Path", "TNode", "__import__", "Comp", "sym"])
def test_reproducer_calls_constructors_of_programs_only(constructor: str, monkeypatch: Patch) -> None:
    step = training_step()
    seed(monkeypatch, "simplify", KEY_ERROR)
    path = reproducer_of(compile_with_warning(step)[1])
    document = json.loads(path.read_text())
    document["program"]["proc"]["Proc"][0] = {constructor: ["1"]}
    path.write_text(json.dumps(document))
    with pytest.raises(ValueError, match="does not hold a lowered program"):
        reproducer.read(path)


# ------------------------------------------------------------------------------------------------------------- errors


@pytest.mark.parametrize("how", [{"on_defect": "raise"}, {"verify": "every"}])
@pytest.mark.parametrize("corruption", ["it raises KeyError", "an index is too large"])
def test_a_defect_can_raise_without_internal_frames(
    how: dict[str, str], corruption: str, monkeypatch: Patch, defects: Path
) -> None:
    step = training_step()
    seed(monkeypatch, "fuse_epilogues", CORRUPTIONS[corruption])
    with settings(**how), pytest.raises(VerifyError, match="the compiler pass `fuse_epilogues` of ocannl") as caught:
        step.compile()
    frames = [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)]
    assert frames == ["test_a_defect_can_raise_without_internal_frames", "compile"]
    assert caught.value.__cause__ is None and caught.value.__suppress_context__
    assert not defects.exists()


def test_full_tracebacks_hold_the_cause(monkeypatch: Patch) -> None:
    step = training_step()
    seed(monkeypatch, "fuse_epilogues", KEY_ERROR)
    with settings(on_defect="raise", traceback="full"), pytest.raises(VerifyError) as caught:
        step.compile()
    assert isinstance(caught.value.__cause__, KeyError)


@pytest.mark.parametrize("error", [MemoryError, OutOfMemory, KeyboardInterrupt, OSError, CodeError, Unsupported])
def test_other_errors_are_not_defects(error: type[BaseException], monkeypatch: Patch, defects: Path) -> None:
    step = training_step()

    def fail(proc: Proc) -> Proc:
        raise error("not a defect")

    seed(monkeypatch, "fuse_epilogues", fail)
    with pytest.raises(error, match="not a defect"):
        step.compile()
    assert not defects.exists()


def test_an_ill_formed_lowered_program_is_refused(monkeypatch: Patch) -> None:
    step = training_step()
    module = sys.modules["ocannl.runtime.compile"]
    original = module.lower  # type: ignore[attr-defined]
    monkeypatch.setattr(module, "lower", lambda *args: CORRUPTIONS["an index is too large"](original(*args)))
    with pytest.raises(VerifyError, match="lowered"):
        step.compile()


def test_without_verification_exceptions_are_recovered_from(monkeypatch: Patch) -> None:
    step = training_step()
    seed(monkeypatch, "schedule", KEY_ERROR)
    with settings(verify="off"):
        routine, _ = compile_with_warning(step)
    step.check(routine)


@pytest.mark.parametrize("name", ["allocate_memory", "decide_placement"])
def test_nothing_is_optimized_if_a_plain_form_fails_after_other_passes(name: str, monkeypatch: Patch) -> None:
    step = training_step()
    seed(monkeypatch, name, KEY_ERROR)
    plain = {"allocate_memory": "allocate_separately", "decide_placement": "keep_all_nodes"}[name]
    original, calls = getattr(pipeline, plain), iter([True])

    def fail_once(*args: Any) -> Proc:
        if next(calls, False):
            raise KeyError("the plain form fails as well")
        return original(*args)  # type: ignore[no-any-return]

    monkeypatch.setattr(pipeline, plain, fail_once)
    routine, message = compile_with_warning(step)
    assert "is compiled without optimization" in message
    step.check(routine)


def test_the_first_error_is_raised_if_no_program_can_be_compiled(monkeypatch: Patch) -> None:
    step = training_step()
    seed(monkeypatch, "allocate_memory", KEY_ERROR)
    seed(monkeypatch, "allocate_separately", CORRUPTIONS["it raises IndexError"])
    with pytest.raises(KeyError, match="seeded"):
        step.compile()


# -------------------------------------------------------------------------------------------------------------- cache


def test_code_without_a_pass_has_a_key_of_its_own(monkeypatch: Patch, defects: Path) -> None:
    steps = [training_step() for _ in range(4)]
    compiled = count_calls(monkeypatch, type(steps[0].ctx.backend), "compile")
    with monkeypatch.context() as patch:
        replays = count_calls(patch, sys.modules["ocannl.runtime.recovery"], "replay")
        seed(patch, "fuse_epilogues", KEY_ERROR)
        first, _ = compile_with_warning(steps[0])
        assert (replays["replay"], compiled["compile"]) == (1, 1)
        again = steps[1].compile()  # from memory: the process knows that the pass fails
        assert (replays["replay"], compiled["compile"]) == (1, 1)
        compile_cache.clear()  # as in a second process
        third = steps[2].compile()
        assert (replays["replay"], compiled["compile"]) == (2, 1)  # found on disk
        for step, routine in zip(steps, (first, again, third), strict=False):
            step.check(routine)
            assert routine.source() == first.source() and dict(routine.stages()) == dict(first.stages())
    compile_cache.clear()
    mended = steps[3].compile()  # the defect has left nothing under the key of the correct pipeline
    assert compiled["compile"] == 2
    steps[3].check(mended)
    assert mended.source() != first.source()


def test_code_of_a_plain_program_is_cached_after_a_failure_of_the_backend(monkeypatch: Patch) -> None:
    first, second = training_step(), training_step()
    calls = fail_on(monkeypatch, first.ctx.backend, RuntimeError("no"), is_vectorized)
    compile_with_warning(first)
    assert calls["compile"] == 3  # the program, one of a single store, and the replacement
    compile_cache.clear()  # as in a second process
    second.check(second.compile())
    assert calls["compile"] == 5  # two of them; the replacement was found on disk


def test_stages_and_profile_show_the_compiled_program(monkeypatch: Patch) -> None:
    step = training_step()
    with monkeypatch.context() as patch:
        seed(patch, "schedule", KEY_ERROR)
        seed(patch, "schedule_simply", KEY_ERROR)
        routine, message = compile_with_warning(step)
    assert "is compiled with the plain form of `schedule`" in message
    stages = routine.stages()
    assert stages["schedule"] == stages["split_reductions"]
    assert routine.profile(calls=2).rows


def test_products_stay_tiled_if_the_schedule_fails(monkeypatch: Patch) -> None:
    a, b = np.random.default_rng(4).normal(size=(2, 48, 48)).astype("float32")
    y = oc.einsum("ik;kj=>ij", oc.tensor(a), oc.tensor(b)).with_label("y")
    ctx = oc.Context("llvm")
    seed(monkeypatch, "schedule", KEY_ERROR)
    with pytest.warns(oc.DefectWarning, match="compiled with the simple form of `schedule`"):
        routine = ctx.compile(y.forward)
    assert "vectorized" in routine.stages()["allocate_memory"]
    routine()
    np.testing.assert_allclose(ctx[y], a.astype(float) @ b, rtol=1e-4, atol=1e-4)


# ------------------------------------------------------------------------------------------------ threads, autotuning


def test_threads_recover_with_one_warning(monkeypatch: Patch) -> None:
    steps = [training_step() for _ in range(4)]
    seed(monkeypatch, "fuse_outer_loops", CORRUPTIONS["an index is unbound"])
    failures: list[BaseException] = []

    def compile_and_check(step: Step) -> None:
        try:
            step.check(step.compile())
        except BaseException as error:
            failures.append(error)

    def compile_in_threads() -> None:
        threads = [threading.Thread(target=compile_and_check, args=(step,)) for step in steps]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    with pytest.warns(oc.DefectWarning) as caught:
        compile_in_threads()
    assert not failures and len(caught) == 1


def test_a_defect_of_autotuning_leaves_the_plans_of_the_cost_model(monkeypatch: Patch) -> None:
    step = training_step()

    def fail(*args: Any) -> Any:
        raise KeyError("no candidate")

    monkeypatch.setattr(sys.modules["ocannl.runtime.compile"], "autotune", fail)
    with settings(autotune=5):
        routine, message = compile_with_warning(step)
    assert "autotuning failed on routine `step`: KeyError" in message and "plans of the cost model" in message
    step.check(routine)


def test_a_defect_of_a_tuned_plan_is_reproduced(monkeypatch: Patch) -> None:
    step = training_step()
    chosen: dict[int, tuple[int, ...]] = {}

    def choose(proc: Proc, *args: Any) -> Any:
        chosen.update(dict.fromkeys(range(len(proc.body)), (1,)))
        return chosen

    def fail(*args: Any) -> Any:
        raise KeyError("a plan that does not exist")

    monkeypatch.setattr(sys.modules["ocannl.runtime.compile"], "autotune", choose)
    monkeypatch.setattr(schedule_module, "candidate_plans", fail)
    with settings(autotune=5):
        routine, message = compile_with_warning(step)
    step.check(routine)
    case = reproducer.read(reproducer_of(message))
    assert case.failed == "autotuning" and dict(case.choices) == chosen
    assert [failure.pass_name for failure in failures_of(case)] == ["schedule"]


# ------------------------------------------------------------------------------------------------------------ backends


def is_vectorized(proc: Proc) -> bool:
    return any(isinstance(node, For) and node.mode is Mode.VECTORIZED for node in walk(proc.body))


def fail_on(patch: Patch, backend: object, error: Exception, is_refused: Callable[[Proc], bool]) -> Counter[str]:
    """Makes a backend fail on some programs."""
    original = type(backend).compile  # type: ignore[attr-defined]
    calls: Counter[str] = Counter()

    def compile_(self: object, procs: list[Proc]) -> object:
        calls["compile"] += 1
        if any(map(is_refused, procs)):
            raise error
        return original(self, procs)

    patch.setattr(type(backend), "compile", compile_)
    return calls


@pytest.mark.parametrize("backend", ["llvm", "c"])
@pytest.mark.parametrize("error", [CompileError("rejected"), AssertionError("rejected"), VerifyError("rejected")])
def test_simple_schedule_if_a_backend_fails(backend: str, error: Exception, monkeypatch: Patch) -> None:
    if not usable(backend):
        pytest.skip(f"`{backend}` is not usable here")
    step = training_step(backend)
    with monkeypatch.context() as patch:
        fail_on(patch, step.ctx.backend, error, is_vectorized)
        routine, message = compile_with_warning(step)
        step.check(routine)
        assert f"the backend `{backend}` failed on routine `step`: {type(error).__name__}: rejected" in message
        assert "compiled with a simple schedule" in message
        case = reproducer.read(reproducer_of(message))
        assert [failure.pass_name for failure in failures_of(case)] == ["backend"]
    assert failures_of(case) == ()
    assert routine.stages()["fuse_epilogues"] != routine.stages()["decide_placement"]


def test_plain_schedule_if_a_backend_fails_on_vectors(monkeypatch: Patch) -> None:
    x = oc.tensor(np.ones((3, 80), "float32"), batch_axes=1, label="x")
    y = (x * 2).with_label("y")
    ctx = oc.Context("llvm")
    fail_on(monkeypatch, ctx.backend, RuntimeError("no"), is_vectorized)
    with pytest.warns(oc.DefectWarning, match="compiled with the plain schedule"):
        routine = ctx.compile(y.forward)
    routine()
    assert (ctx[y] == 2).all()


def test_no_optimization_if_a_backend_fails_on_fused_programs(monkeypatch: Patch) -> None:
    step = training_step()
    fail_on(monkeypatch, step.ctx.backend, RuntimeError("fused"), lambda proc: 1 < len(proc.body) < 30)
    routine, message = compile_with_warning(step)
    assert "compiled without optimization" in message
    step.check(routine)


def test_generated_code_that_a_compiler_rejects(monkeypatch: Patch) -> None:
    """The C compiler runs in a process of its own."""
    if not usable("c"):
        pytest.skip("`c` is not usable here")
    from ocannl_backend_c import backend as c_backend

    step, emit_units = training_step("c"), c_backend.emit_units

    def broken(procs: list[Proc]) -> Iterator[str]:
        ending = "\nthis is no C\n" if any(map(is_vectorized, procs)) else ""
        return (text + ending for text in emit_units(procs))

    monkeypatch.setattr(c_backend, "emit_units", broken)
    routine, message = compile_with_warning(step)
    step.check(routine)
    assert "CompileError: the C compiler" in message and "with a simple schedule" in message


def test_only_the_failing_program_of_several_is_replaced(monkeypatch: Patch) -> None:
    x = oc.tensor(np.ones((8, 8), "float32"), batch_axes=1, label="x")
    y, z = (x * 2).with_label("y"), (x + 1).with_label("z")
    ctx = oc.Context("llvm")
    fail_on(monkeypatch, ctx.backend, RuntimeError("no"), lambda proc: is_vectorized(proc) and "y" in proc.name)
    with pytest.warns(oc.DefectWarning) as caught:
        first, second = ctx.compile_all([y.forward, z.forward])
    (message,) = [str(warning.message) for warning in caught]
    # The width of vectors decides which schedule has none: eight cells fill one of AVX, and half of one of AVX-512.
    assert "y_forward" in message and re.search(r"compiled with (a simple|the plain) schedule", message)
    first(), second()
    assert (ctx[y] == 2).all() and (ctx[z] == 2).all()
    assert "vectorized" in second.stages()["allocate_memory"]
    assert "vectorized" not in first.stages()["allocate_memory"]


@pytest.mark.parametrize("error", [RuntimeError("never"), CompileError("never")])
def test_a_backend_that_always_fails_raises_its_error(error: Exception, monkeypatch: Patch, defects: Path) -> None:
    step = training_step()
    calls = fail_on(monkeypatch, step.ctx.backend, error, lambda proc: True)
    with pytest.raises(type(error), match="never"):
        step.compile()
    assert calls["compile"] == 2 and not defects.exists()  # the second program is a single store


@pytest.mark.parametrize("error", [Unsupported("no"), OutOfMemory("no"), OSError("no")])
def test_other_errors_of_a_backend_are_raised_at_once(error: Exception, monkeypatch: Patch) -> None:
    step = training_step()
    calls = fail_on(monkeypatch, step.ctx.backend, error, lambda proc: True)
    with pytest.raises(type(error), match="no"):
        step.compile()
    assert calls["compile"] == 1


def test_a_failing_backend_can_raise(monkeypatch: Patch) -> None:
    step = training_step()
    fail_on(monkeypatch, step.ctx.backend, AssertionError("rejected"), is_vectorized)
    pattern = r"the backend `llvm` of ocannl .* failed on `step`.*: AssertionError: rejected"
    with settings(on_defect="raise"), pytest.raises(CompileError, match=pattern) as caught:
        step.compile()
    assert caught.value.__cause__ is None


def test_doctor_sees_a_backend_that_fails(monkeypatch: Patch) -> None:
    fail_on(monkeypatch, training_step().ctx.backend, CompileError("rejected"), is_vectorized)
    with pytest.raises(CompileError, match="rejected"):
        probe_backend("llvm")


# ------------------------------------------------------------------------------------------------------ other processes

PROCESS = """
import warnings
import numpy as np
import ocannl as oc
from ocannl.opt import pipeline
from ocannl_backend_llvm.backend import LlvmBackend

def fail(proc):
    raise KeyError("seeded")

compiled = []
original = LlvmBackend.compile
LlvmBackend.compile = lambda self, procs: compiled.append(procs) or original(self, procs)
pipeline.merge_initialization = fail
y = (oc.tensor(np.ones((2, 3), "float32"), batch_axes=1, label="x") * 2.0).with_label("y")
ctx = oc.Context("llvm")
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    for _ in range(2):
        ctx.compile(y.forward)()
assert (ctx[y] == 2).all()
print(len(compiled), *[w.category.__name__ for w in caught])
"""


@pytest.mark.slow
def test_each_process_warns_once_and_shares_the_code(tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("OCANNL_")}
    environment |= {"OCANNL_CACHE_DIR": str(tmp_path), "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    command = [sys.executable, "-c", PROCESS]
    lines = [
        subprocess.run(command, env=environment, check=True, capture_output=True, text=True, timeout=120).stdout.strip()
        for _ in range(2)
    ]
    assert lines == ["1 DefectWarning", "0 DefectWarning"]
    assert len(list((tmp_path / "defects").iterdir())) == 1


# ------------------------------------------------------------------------------------------------ precomputed weights


@pytest.mark.parametrize("name", ["precompute_weight_arrays", "precompute_packed_weights", "schedule", "parallelize"])
def test_defects_in_programs_with_precomputed_weights(monkeypatch: Patch, name: str) -> None:
    monkeypatch.setenv("OCANNL_PRECOMPUTE_WEIGHTS", "on")
    step = training_step()
    seed(monkeypatch, name, KEY_ERROR)
    routine, message = compile_with_warning(step)
    assert f"`{name}` failed on routine `step`" in message
    step.check(routine)
