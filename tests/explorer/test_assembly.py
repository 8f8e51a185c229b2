"""Assembly of object files, beside that of objdump."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("ocannl_explorer")

import ocannl as oc
from ocannl_explorer.assembly import functions_of

OBJDUMP = shutil.which("objdump")
NATIVE = [row.name for row in oc.backends() if row.usable and row.name in ("llvm", "c")]


def object_files(backend: str) -> tuple[bytes, ...]:
    x = oc.tensor(np.ones((4, 30), "float32"), batch_axes=1, label="x")
    w = oc.param("w", o=[20])
    ctx = oc.Context(backend)
    loss = oc.tanh(w @ x).sum()
    ctx.init(loss)
    return ctx.compile(loss.forward, name="step").program.code.object_files


@pytest.mark.skipif(OBJDUMP is None, reason="objdump is not installed")
@pytest.mark.parametrize("backend", NATIVE)
def test_instructions_are_those_of_objdump(backend: str, tmp_path: Path) -> None:
    names = []
    for content in object_files(backend):
        path = tmp_path / "code.o"
        path.write_bytes(content)
        command = [OBJDUMP, "-d", "--no-show-raw-insn", "-M", "intel", path]
        printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        listed: dict[str, list[int]] = {}
        for line in printed.splitlines():
            if head := re.fullmatch(r"[0-9a-f]+ <(.+)>:", line):
                addresses = listed.setdefault(head[1], [])
            elif instruction := re.match(r" *([0-9a-f]+):\t\S", line):
                addresses.append(int(instruction[1], 16))
        functions = list(functions_of([content]))
        names += [function.name for function in functions]
        for function in functions:
            assert [int(line.split()[0], 16) for line in function.lines] == listed[function.name][: len(function.lines)]
            assert len(function.lines) > 1
    assert any("step" in name for name in names)


def test_calls_name_their_functions() -> None:
    if "llvm" not in NATIVE:
        pytest.skip("relocatable files are those of the LLVM backend, which is not usable here")
    lines = [line for function in functions_of(object_files("llvm")) for line in function.lines]
    calls = [line for line in lines if line.split()[1] in ("call", "bl") and ";" in line]
    assert calls and all(re.search(r"; [\w.-]+$", call) for call in calls)


@pytest.mark.parametrize("content", [b"", b"\x7fELF", b"MZ" + bytes(100), b"\x7fELF\x02\x01\x01" + bytes(200)])
def test_files_in_other_formats_have_no_functions(content: bytes) -> None:
    assert list(functions_of([content])) == []
