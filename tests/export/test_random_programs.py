"""Random programs with gradients, many in one library: shared libraries have the values of the C backend to the bit,
WebAssembly those of the oracle."""

from __future__ import annotations

import json
import re
from importlib.util import find_spec
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from exported_library import Library

import ocannl as oc
from ocannl.base.config import SEED
from ocannl.testing.oracles import OracleCase, differs, oracle_case
from ocannl.testing.random_expressions import generate
from ocannl_export import library
from ocannl_export.forms.native import native_target
from ocannl_export.library import Field
from ocannl_export.targets import TARGETS, InstructionSet

PROGRAMS = 10  # in one library
IMPORTS = {"atan": np.arctan, "atan2": np.arctan2, "pow": np.power}
"""Functions of NumPy with other names than those of JavaScript."""


def compiled(ctx: oc.Context, first: int) -> tuple[list[oc.Routine], list[OracleCase]]:
    routines, cases = [], []
    for seed in range(first, first + PROGRAMS):
        case = oracle_case(generate(Random(seed)), "float32")
        for node, array in case.built.arrays.items():
            ctx.set(node, array)
        routines.append(ctx.compile_comp(case.code.comp, case.code.keep_reasons, f"program_{seed}"))
        cases.append(case)
    return routines, cases


def fields(routines: list[oc.Routine], target: InstructionSet) -> dict[object, Field]:
    return {field.node: field for field in library.describe(routines, "programs", [target], inputs=True).fields}


@pytest.mark.slow
@pytest.mark.sample(5)
@pytest.mark.parametrize("first", range(0, 50 * PROGRAMS, PROGRAMS))
@pytest.mark.skipif(
    not any(row.name == "c" and row.usable for row in oc.backends()), reason="the C backend is not usable"
)
def test_shared_libraries(first: int, tmp_path: Path) -> None:
    ctx = oc.Context("c")
    routines, cases = compiled(ctx, first)
    oc.export(routines, tmp_path / "programs.so", target="native", inputs=True)
    programs = Library(tmp_path / "programs.so", "programs")
    assert programs.init(SEED.get()) == 0
    described = fields(routines, native_target())
    for routine, case in zip(routines, cases, strict=True):
        for call in case.calls:
            values = case.symbols(call)
            routine(**values)
            assert programs.call(routine.name, *(values[sym.name] for sym in routine.program.syms)) == 0
        for node in routine.outputs:
            expected, kind = ctx.get(node), node.precision.numpy.str
            actual = programs.get(described[node].name, node.dims, kind)
            assert expected.tobytes() == actual.tobytes(), f"{routine.name}: {node.label}"


def imported(store: Any, function: Any) -> Any:
    """A function that the module imports, such as `sin`."""
    import wasmtime

    name = function.name.removesuffix("f")  # of float32
    compute = IMPORTS[name] if name in IMPORTS else getattr(np, name)

    def call(*numbers: float) -> float:
        with np.errstate(all="ignore"):
            return float(compute(*numbers))

    return wasmtime.Func(store, function.type, call)


@pytest.mark.slow
@pytest.mark.sample(1)
@pytest.mark.parametrize("first", range(1000, 1000 + 10 * PROGRAMS, PROGRAMS))
@pytest.mark.skipif(find_spec("ziglang") is None, reason="the wheel ziglang is not installed")
def test_webassembly(first: int, tmp_path: Path) -> None:
    wasmtime = pytest.importorskip("wasmtime")
    ctx = oc.Context("numpy")
    routines, cases = compiled(ctx, first)
    oc.export(routines, tmp_path / "programs.wasm", inputs=True)
    store = wasmtime.Store()
    module = wasmtime.Module(store.engine, (tmp_path / "programs.wasm").read_bytes())
    imports = [imported(store, function) for function in module.imports]
    exports = wasmtime.Instance(store, module, imports).exports(store)
    net, memory = exports["programs_instance"](store), exports["memory"]
    assert exports["programs_init"](store, net, SEED.get()) == 0
    script = (tmp_path / "programs.js").read_text()
    members = {name: json.loads(text) for name, text in re.findall(r"^  (\w+): (\[.*\]),$", script, re.MULTILINE)}
    described = fields(routines, TARGETS["wasm32"])
    for routine, case in zip(routines, cases, strict=True):
        for call, wants in zip(case.calls, case.wants, strict=True):
            values = case.symbols(call)
            symbols = [values[sym.name] for sym in routine.program.syms]
            assert exports[f"programs_{routine.name}"](store, net, *symbols) == 0
            for node in routine.outputs:
                start = net + members[described[node].name][3]
                data = memory.read(store, start, start + described[node].nbytes)
                actual = np.frombuffer(data, node.precision.numpy).reshape(node.dims)
                assert not differs(actual, wants[node], node, "float32"), f"{routine.name}: {node.label}"
