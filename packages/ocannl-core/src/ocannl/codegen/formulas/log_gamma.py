"""lgamma: polynomials on intervals below 8, and the series of Stirling above."""

from __future__ import annotations

from ocannl.codegen.formula_ir import Formula, TracedValue, fma, formula, polynomial, where
from ocannl.codegen.formulas.logarithm import log

HALF_LOG_2_PI = 0.9189385332046727


def lgamma(x: TracedValue) -> tuple[TracedValue, TracedValue]:
    """Within 7 ulp; within 3 for positive numbers.

    On [0, 0.7) lgamma(x + 1) - log(x), where lgamma(x + 1) = x p(x), and p has degree 7, with error 2**-28 of the
    result. On [0.7, 1.5) and [1.5, 3) it is (x - n) p(x - n) for the zeros n = 1 and 2, with error 2**-26; on [3, 8) a
    polynomial of degree 10, with error 2**-25. Above, (x - 1/2) (log(x) - 1) + log(2 pi) / 2 - 1/2 + p(1 / x), with
    error 2**-33. Negative numbers take the slow path.
    """
    logarithm = log(x)
    near_zero = x * polynomial(
        x, -0.5772144794464111, 0.8224217891693115, -0.40005046129226685, 0.266011118888855, -0.18807099759578705,
        0.11800196021795273, -0.0527382530272007, 0.011679546907544136,
    ) - logarithm  # fmt: skip
    one = x - 1.0
    near_one = fma(one, polynomial(
        one, -0.5772156715393066, 0.822467029094696, -0.400683730840683, 0.2705795168876648, -0.20747417211532593,
        0.1696418821811676, -0.14251084625720978, 0.12362579256296158, -0.1232011541724205, 0.12025994062423706,
        -0.06218111515045166,
    ), 0.0)  # fmt: skip
    two = x - 2.0
    near_two = two * polynomial(
        two, 0.42278432846069336, 0.32246702909469604, -0.0673520416021347, 0.020581096410751343,
        -0.0073867905884981155, 0.0028867986984550953, -0.0011931504122912884, 0.0005318187759257853,
        -0.00022843611077405512, 5.653860353049822e-05,
    )  # fmt: skip
    central = polynomial(
        x - 3.0, 0.6931471824645996, 0.9227848052978516, 0.1974603235721588, -0.025654831901192665,
        0.004887520335614681, -0.0010483072837814689, 0.00021504981850739568, -3.641346484073438e-05,
        4.440270913619315e-06, -3.333385052428639e-07, 1.1357749407636675e-08,
    )  # fmt: skip
    inverse = 1.0 / x
    series = inverse * fma(inverse * inverse, -0.0027598044835031033, 0.08333323895931244)
    stirling = fma(x - 0.5, logarithm - 1.0, series + (HALF_LOG_2_PI - 0.5))
    value = where(x < 8.0, central, stirling)
    for limit, below in ((3.0, near_two), (1.5, near_one), (0.7, near_zero)):
        value = where(x < limit, below, value)
    return value, x < 0.0


LGAMMA: Formula = formula(lgamma)
