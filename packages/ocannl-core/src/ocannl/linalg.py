"""Linear algebra by LAPACK, with gradients: `oc.linalg.solve(a, b)`.

A matrix is a linear map `..b..|columns->rows`, or two output axes `..b..|rows,columns`; results have the form of the
first operand. The axes of the batch row are those of a stack of matrices, and broadcast.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from typing import Any as _Any

from ocannl.base import spelling as _spelling
from ocannl.base.traceback_filtering import public as _public
from ocannl.lang.declare.builtin_declarations import attach_to_namespace as _attach
from ocannl.lang.linalg import decompositions as _decompositions
from ocannl.lang.linalg import norms as _norms
from ocannl.lang.linalg import systems as _systems

cholesky = _public(_decompositions.cholesky)
det = _public(_systems.det)
eigh = _public(_decompositions.eigh)
eigvalsh = _public(_decompositions.eigvalsh)
inv = _public(_systems.inv)
lstsq = _public(_systems.lstsq)
lu = _public(_decompositions.lu)
matrix_power = _public(_systems.matrix_power)
norm = _public(_norms.norm)
pinv = _public(_systems.pinv)
qr = _public(_decompositions.qr)
slogdet = _public(_systems.slogdet)
solve = _public(_systems.solve)
solve_triangular = _public(_systems.solve_triangular)
svd = _public(_decompositions.svd)
svdvals = _public(_decompositions.svdvals)

__all__ = [
    "cholesky", "det", "eigh", "eigvalsh", "inv", "lstsq", "lu", "matrix_power", "norm", "pinv", "qr", "slogdet",
    "solve", "solve_triangular", "svd", "svdvals",
]  # fmt: skip

_attach("linalg", {name: globals()[name] for name in __all__})

if not TYPE_CHECKING:

    @_public
    def __getattr__(name: str) -> _Any:
        if name.startswith("__"):
            raise AttributeError(f"module 'ocannl.linalg' has no attribute {name!r}")
        raise _spelling.unknown_name("oc.linalg", name, lambda: __all__, _spelling.LINALG)
