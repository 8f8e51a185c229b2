"""The page that shows ocannl beside JAX and NumPy: both columns of each row of the table of functions are equal.

Names of `jax.numpy` are those of NumPy, which evaluates them where JAX is not installed.
"""

from __future__ import annotations

import importlib
import importlib.util
from pathlib import Path

import numpy as np
import pytest
from page_tables import ROW, arrays_of

import ocannl as oc

PAGE = (Path(__file__).parents[2] / "docs" / "from-jax.md").read_text(encoding="utf-8")
ROWS = [match.groups() for match in ROW.finditer(PAGE[: PAGE.index("## Programs")])]


def test_the_table_has_rows() -> None:
    assert len(ROWS) >= 30


@pytest.mark.parametrize(("in_jax", "in_ocannl"), ROWS, ids=[row for row, _ in ROWS])
def test_columns_are_equal(in_jax: str, in_ocannl: str) -> None:
    jnp = importlib.import_module("jax.numpy" if importlib.util.find_spec("jax") else "numpy")
    expected = np.asarray(eval(in_jax, {"jnp": jnp, **{name: jnp.asarray(a) for name, a in arrays_of(PAGE).items()}}))
    tensors = {name: oc.tensor(cells) for name, cells in arrays_of(PAGE).items()}
    result = eval(in_ocannl, {"oc": oc, **tensors}).numpy(oc.Context("numpy"))
    assert result.shape == expected.shape
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-6)
