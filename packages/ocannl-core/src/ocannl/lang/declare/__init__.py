"""The vocabulary of `oc.defop`: inputs, settings, conditions and samples of declared operations.

from ocannl import declare as d

@oc.defop(inputs={"x": "float"}, where=[d.value("slope") >= 0], samples=[d.sample(d.Draw(avoid=(0,)))])
def leaky_relu(x, *, slope: float = 0.01): ...
"""

from ocannl.lang.declare.conditions import (
    Condition,
    all_of,
    any_of,
    broadcastable,
    given,
    same_shape,
    same_type,
)
from ocannl.lang.declare.configurations import Configuration, configuration, field
from ocannl.lang.declare.hookspecs import hookimpl
from ocannl.lang.declare.inputs import Count, Input, at_least, at_most, between, exactly
from ocannl.lang.declare.outputs import Output
from ocannl.lang.declare.quantities import Quantity, count, each, rank, size, value
from ocannl.lang.declare.samples import Draw, Sample, sample
from ocannl.lang.declare.settings import Setting, follows
from ocannl.lang.declare.shared_part import Part

__all__ = [
    "Condition",
    "Configuration",
    "Count",
    "Draw",
    "Input",
    "Output",
    "Part",
    "Quantity",
    "Sample",
    "Setting",
    "all_of",
    "any_of",
    "at_least",
    "at_most",
    "between",
    "broadcastable",
    "configuration",
    "count",
    "each",
    "exactly",
    "field",
    "follows",
    "given",
    "hookimpl",
    "rank",
    "same_shape",
    "same_type",
    "sample",
    "size",
    "value",
]
