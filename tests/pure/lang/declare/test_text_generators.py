"""Files generated from the catalogue of operations are checked in and up to date."""

from __future__ import annotations

from pathlib import Path

import pytest

import ocannl as oc
from ocannl.lang.declare.namespaces import complete_catalogue
from ocannl.lang.declare.text_generators import GENERATORS

ROOT = Path(__file__).resolve().parents[4]
SOURCE = ROOT / "packages" / "ocannl-core" / "src" / "ocannl"
FILES = {
    "functions": SOURCE / "lang" / "ops" / "functions.pyi",
    "methods": SOURCE / "lang" / "ops" / "methods.pyi",
    "reference": ROOT / "docs" / "reference.md",
}


@pytest.mark.parametrize("name", FILES)
def test_generated_files_are_up_to_date(name: str) -> None:
    with oc.use_backend("numpy"):
        generated = GENERATORS[name](complete_catalogue())
    assert FILES[name].read_text(encoding="utf-8") == generated, f"run: ocannl ops --generate {name} > {FILES[name]}"
