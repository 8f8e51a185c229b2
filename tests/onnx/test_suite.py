"""A sample of the official node cases of ONNX: none is wrong, and all pass but those of `refused.txt`."""

from __future__ import annotations

import importlib.util
from functools import cache
from pathlib import Path
from types import ModuleType
from zlib import crc32

import numpy as np
import pytest
from usable_backends import usable_backends

import ocannl as oc

pytest.importorskip("onnx")
SCRIPT = Path(__file__).parents[2] / "benchmarks" / "onnx_suite.py"
REFUSED = Path(__file__).with_name("refused.txt").read_text(encoding="utf-8").split()
PARTS = 72  # of 26 cases each; `--complete` runs all of them


@cache
def suite() -> ModuleType:
    spec = importlib.util.spec_from_file_location("onnx_suite", SCRIPT)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@cache
def cases() -> list:
    return sorted(suite().node_cases(), key=lambda case: crc32(case.name.encode()))


@pytest.mark.sample(8)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("part", range(PARTS))
def test_node_cases(part: int) -> None:
    names = usable_backends()
    backend = names[part % len(names)] if part % len(names) else names[-1]  # native ones: the reference is slow
    results = {}
    with oc.use_backend(backend), np.errstate(all="ignore"):
        for case in cases()[part::PARTS]:
            results[case.name] = suite().judged(case, suite().run_ocannl, (oc.OcannlError,))
    assert not {name: reason for name, (result, reason) in results.items() if result == "wrong"}
    malformed = {name: reason for name, (_, reason) in results.items() if "malformed" in reason}
    assert not malformed, "errors of Python in the functions of rows, which valid models never cause"
    failed = {name: result for name, result in results.items() if result[0] != "passed"}
    assert not {name: result for name, result in failed.items() if name not in REFUSED}
    assert not [name for name in results if name in REFUSED and name not in failed], "remove these from refused.txt"
