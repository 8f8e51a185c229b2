"""The vocabulary of `oc.defop`: inputs, settings, conditions and samples of declared operations.

from ocannl import declare as d

@oc.defop(inputs={"x": "float"}, where=[d.value("slope") >= 0], samples=[d.sample(d.Draw(avoid=(0,)))])
def leaky_relu(x, *, slope: float = 0.01): ...
"""

from ocannl.lang.declare.conditions import (
    Condition,
    Quantity,
    all_of,
    any_of,
    broadcastable,
    count,
    rank,
    same_shape,
    same_type,
    size,
    value,
)
from ocannl.lang.declare.hookspecs import hookimpl
from ocannl.lang.declare.inputs import Count, Input, at_least, at_most, between, exactly
from ocannl.lang.declare.samples import Draw, Sample, sample
from ocannl.lang.declare.settings import Setting, follows
from ocannl.lang.declare.shared_part import Part

__all__ = [
    "Condition",
    "Count",
    "Draw",
    "Input",
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
    "count",
    "exactly",
    "follows",
    "hookimpl",
    "rank",
    "same_shape",
    "same_type",
    "sample",
    "size",
    "value",
]
