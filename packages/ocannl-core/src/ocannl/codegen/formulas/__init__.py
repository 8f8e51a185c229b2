"""The operations that have a formula. `benchmarks/coefficients.py` computes the coefficients."""

from __future__ import annotations

from collections.abc import Mapping

from ocannl.codegen.formula_ir import Formula
from ocannl.codegen.formulas.double_precision import DOUBLE_FORMULAS
from ocannl.codegen.formulas.error_function import ERF, ERFC
from ocannl.codegen.formulas.exponential import EXP, EXP2
from ocannl.codegen.formulas.hyperbolic import TANH
from ocannl.codegen.formulas.inverse_tangent import ATAN, ATAN2
from ocannl.codegen.formulas.log_gamma import LGAMMA
from ocannl.codegen.formulas.logarithm import LOG, LOG2
from ocannl.codegen.formulas.power import POW
from ocannl.codegen.formulas.remainder import MOD
from ocannl.codegen.formulas.trigonometric import COS, SIN
from ocannl.ir.precision import Precision

FORMULAS: Mapping[str, Formula] = {
    formula.name: formula
    for formula in (EXP, EXP2, LOG, LOG2, SIN, COS, ATAN, ATAN2, TANH, ERF, ERFC, LGAMMA, POW, MOD)
}

"""Those of float32."""
ALL_FORMULAS = (*FORMULAS.values(), *DOUBLE_FORMULAS)
_BY_OPERATION = {(formula.name, formula.precision): formula for formula in ALL_FORMULAS}


def formula_of(name: str, precision: Precision) -> Formula | None:
    """The formula of an operation, if there is one."""
    return _BY_OPERATION.get((name, precision))


__all__ = ["ALL_FORMULAS", "FORMULAS", "formula_of"]
