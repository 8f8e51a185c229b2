"""The float32 operations that have a formula. `benchmarks/coefficients.py` computes the coefficients."""

from __future__ import annotations

from collections.abc import Mapping

from ocannl.codegen.formula_ir import Formula
from ocannl.codegen.formulas.error_function import ERF, ERFC
from ocannl.codegen.formulas.exponential import EXP, EXP2
from ocannl.codegen.formulas.hyperbolic import TANH
from ocannl.codegen.formulas.inverse_tangent import ATAN, ATAN2
from ocannl.codegen.formulas.log_gamma import LGAMMA
from ocannl.codegen.formulas.logarithm import LOG, LOG2
from ocannl.codegen.formulas.power import POW
from ocannl.codegen.formulas.remainder import MOD
from ocannl.codegen.formulas.trigonometric import COS, SIN

FORMULAS: Mapping[str, Formula] = {
    formula.name: formula
    for formula in (EXP, EXP2, LOG, LOG2, SIN, COS, ATAN, ATAN2, TANH, ERF, ERFC, LGAMMA, POW, MOD)
}

__all__ = ["FORMULAS"]
