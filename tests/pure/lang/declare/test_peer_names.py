"""The table of names in other libraries: complete, and naming functions that exist."""

from __future__ import annotations

import importlib
from functools import reduce
from pathlib import Path
from typing import Any

import pytest

from ocannl.lang.declare.namespaces import complete_catalogue
from ocannl.lang.declare.peer_names import peer_names
from ocannl.lang.declare.text_generators import GENERATORS

PAGE = Path(__file__).resolve().parents[4] / "docs" / "operations.md"
BEGIN, END = "<!-- names: begin -->\n", "<!-- names: end -->\n"
SUBMODULES = (
    "fft", "image", "lax", "linalg", "nn", "nn.functional", "numpy", "ops", "random", "scipy.linalg", "scipy.signal",
    "scipy.special",
)  # fmt: skip
OPERATIONS = {row.title for row in complete_catalogue()}


def test_every_operation_has_a_row() -> None:
    missing, surplus = sorted(OPERATIONS - peer_names().keys()), sorted(peer_names().keys() - OPERATIONS)
    assert not missing, f"add rows to ocannl/lang/declare/peer_names_table.py for: {', '.join(missing)}"
    assert not surplus, f"rows of ocannl/lang/declare/peer_names_table.py without an operation: {', '.join(surplus)}"


@pytest.mark.parametrize("library", ["numpy", "torch", "jax"])
def test_named_functions_exist(library: str) -> None:
    package = pytest.importorskip(library)
    for name in SUBMODULES:
        try:
            importlib.import_module(f"{library}.{name}")
        except ModuleNotFoundError:
            continue
    named = {name: getattr(peers, library) for name, peers in peer_names().items()}
    unknown = {name: path for name, path in named.items() if path and not _exists(package, path)}
    assert not unknown


def _exists(package: Any, path: str) -> bool:
    try:
        return callable(reduce(getattr, path.split("."), package))
    except AttributeError:
        return False


def test_named_onnx_operators_exist() -> None:
    onnx = pytest.importorskip("onnx")
    operators = {schema.name for schema in onnx.defs.get_all_schemas()}
    assert {peers.onnx for peers in peer_names().values()} - {""} <= operators


def test_the_page_has_the_table() -> None:
    text = PAGE.read_text(encoding="utf-8")
    table = text.partition(BEGIN)[2].partition(END)[0].strip()
    generated = GENERATORS["peers"](complete_catalogue()).strip()
    assert table == generated, f"run `ocannl ops --generate peers`, and put its output between the marks in {PAGE}"
