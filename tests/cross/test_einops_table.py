"""The page that shows einsum beside einops, NumPy and PyTorch: every row of its tables says the same in both languages.

`torch.einsum` is run by NumPy, whose notation its examples share.
"""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from page_tables import ROW, arrays_of

import ocannl as oc

PAGE = (Path(__file__).parents[2] / "docs" / "einsum.md").read_text(encoding="utf-8")
HEAD = ("| there | here |", "|---|---|")
ROWS = [found.groups() for found in ROW.finditer(PAGE)]
FUNCTIONS = ("rearrange", "reduce", "repeat", "einsum", "pack", "unpack")
OF_EINOPS = re.compile(rf"(?<![\w.])({'|'.join(FUNCTIONS)})\(")


def theirs(code: str) -> np.ndarray:
    names: dict[str, Any] = {"np": np, "torch": SimpleNamespace(einsum=np.einsum), **arrays_of(PAGE)}
    if OF_EINOPS.search(code):
        einops = pytest.importorskip("einops")
        names |= {word: getattr(einops, word) for word in FUNCTIONS}
    return np.asarray(eval(code, names))


def ours(code: str, backend: str) -> np.ndarray:
    tensors = {name: oc.tensor(cells) for name, cells in arrays_of(PAGE).items()}
    images = [oc.tensor(im) for im in arrays_of(PAGE)["ims"]]
    return eval(code, {"oc": oc, "list_of_ims": images, **tensors}).numpy(oc.Context(backend))


@pytest.mark.sample(covering=("in_einops",))
@pytest.mark.parametrize(("in_einops", "in_ocannl"), ROWS, ids=[row for row, _ in ROWS])
def test_a_row_says_the_same_twice(backend, in_einops, in_ocannl):
    want, got = theirs(in_einops), ours(in_ocannl, backend)
    assert got.shape == want.shape
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)


def test_every_line_of_a_table_is_read():
    lines = [line for line in PAGE.splitlines() if line.startswith("|") and line not in HEAD]
    assert len(ROWS) == len(lines) > 100
    used = {name for name in FUNCTIONS if any(re.search(rf"(?<![\w.]){name}\(", code) for code, _ in ROWS)}
    assert used == set(FUNCTIONS)
