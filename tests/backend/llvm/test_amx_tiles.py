"""Products of tiles by Intel AMX, on any x86-64 processor: the instructions are emulated where it has none."""

from __future__ import annotations

import json
import platform
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from llvmlite.binding.targets import FeatureMap
from tile_programs import EXACT

from ocannl.codegen import Document
from ocannl.ir.tile_products import MAX_ROWS
from ocannl_backend_llvm import jit, parallel_codegen, tile_permission
from ocannl_backend_llvm.amx_tiles import _configuration
from ocannl_backend_llvm.builder import Instructions, Module

SUPPORT = Path(__file__).parents[2] / "support"
EMULATOR, INTRINSICS = (SUPPORT / f"amx_{name}.c" for name in ("emulator", "intrinsics"))
SERVER = jit.Target("x86_64-unknown-linux-gnu", "sapphirerapids", "+amx-bf16,+amx-tile,+avx512bf16,+avx512f,+avx512vl")
GCC = shutil.which("gcc")

needs_emulator = pytest.mark.skipif(
    GCC is None or not sys.platform.startswith("linux") or platform.machine() != "x86_64",
    reason="the emulator needs GCC and Linux on x86-64",
)

def compiled(*arguments: object) -> None:
    assert GCC is not None
    command = [GCC, "-O2", "-ffp-contract=off", *map(str, arguments), "-lm"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def emulated(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Mapping[str, Any]]:
    """The results of all programs, by name."""
    library = tmp_path_factory.mktemp("emulator") / "emulator.so"
    compiled("-shared", "-fPIC", "-o", library, EMULATOR)
    command = [sys.executable, SUPPORT / "emulated_tiles.py", library]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr[-4000:]
    return {result["name"]: result for result in map(json.loads, done.stdout.splitlines())}


@needs_emulator
def test_the_emulator_executes_the_code_of_gcc(tmp_path: Path) -> None:
    program = tmp_path / "program"
    compiled("-mamx-tile", "-mamx-bf16", "-o", program, INTRINSICS, EMULATOR)
    done = subprocess.run([program], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


@needs_emulator
def test_products_are_exact_or_within_their_bounds(emulated: Mapping[str, Mapping[str, Any]]) -> None:
    assert len(emulated) > 30 and emulated.keys() > EXACT.keys()
    wrong = {name for name, result in emulated.items() if result["error"] > (0 if name in EXACT else 1)}
    assert not wrong


@needs_emulator
def test_results_do_not_depend_on_threads(emulated: Mapping[str, Mapping[str, Any]]) -> None:
    assert all(result["is_equal"] for result in emulated.values())


@needs_emulator
@pytest.mark.skipif(jit.host().instructions.bfloat16_tiles, reason="the processor executes the instructions itself")
def test_all_programs_use_tiles(emulated: Mapping[str, Mapping[str, Any]]) -> None:
    assert not {name for name, result in emulated.items() if not result["instructions"]}


def test_features_of_a_target() -> None:
    assert SERVER.instructions.bfloat16_tiles
    assert not jit.Target(SERVER.triple, SERVER.cpu, "+amx-tile,-amx-bf16").instructions.bfloat16_tiles


@pytest.mark.parametrize("rows", [1, 15, 16, 17, MAX_ROWS])
def test_configurations_are_compiled(rows: int) -> None:
    module, doc = Module(Instructions(bfloat16_tiles=True)), Document()
    name = _configuration(module, rows)
    doc.line("declare void @llvm.x86.ldtilecfg(ptr)")
    doc.line("define void @f() {")
    doc.line(f"  call void @llvm.x86.ldtilecfg(ptr @{name})")
    doc.line("  ret void")
    doc.line("}")
    module.add(doc)
    assert parallel_codegen.compile_text(module.text(), SERVER).startswith(b"\x7fELF")
    data = bytes.fromhex(module.text().partition('c"')[2].partition('"')[0].replace("\\", ""))
    sizes = list(zip(data[48:56], memoryview(data[16:32]).cast("H"), strict=True))
    halves = min(rows, 16), max(rows - 16, 0)
    assert len(data) == 64 and data[0] == 1
    assert [size for size, _ in sizes] == [halves[0], halves[0], halves[1], halves[1], *halves, 16, 16]
    assert all(width == (64 if size else 0) for size, width in sizes)


@pytest.mark.parametrize("is_permitted", [True, False])
def test_tiles_need_the_permission_of_the_system(is_permitted: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    features = FeatureMap.fromkeys(("amx-tile", "amx-bf16", "avx512f"), True)
    monkeypatch.setattr(jit.llvm, "get_host_cpu_features", lambda: features)
    monkeypatch.setattr(jit, "may_use_tiles", lambda: is_permitted)
    target = jit._initialize()
    assert target.instructions.bfloat16_tiles is is_permitted and "+avx512f" in target.features


def test_permission_is_granted_on_linux_only(monkeypatch: pytest.MonkeyPatch) -> None:
    assert isinstance(tile_permission.may_use_tiles(), bool)
    monkeypatch.setattr(sys, "platform", "win32")
    assert not tile_permission.may_use_tiles()
