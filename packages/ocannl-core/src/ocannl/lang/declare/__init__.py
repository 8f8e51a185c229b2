"""The vocabulary of `oc.defop`: inputs, settings, conditions and samples of declared operations.

from ocannl import declare as d

@oc.defop(inputs={"x": "float"}, where=[d.value("slope") >= 0], samples=[d.sample(d.Draw(avoid=(0,)))])
def leaky_relu(x, *, slope: float = 0.01): ...
"""

from inspect import isfunction as _isfunction
from typing import TYPE_CHECKING
from typing import Any as _Any

from ocannl.base.spelling import rows as _rows
from ocannl.base.spelling import unknown_name as _unknown_name
from ocannl.base.traceback_filtering import checked as _checked
from ocannl.base.traceback_filtering import public as _public
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

_WITH_OWN_CHECKS = ("all_of", "any_of", "configuration", "field", "follows")
_FUNCTIONS = [name for name in __all__ if _isfunction(globals()[name])]
globals().update({
    name: (_public if name in _WITH_OWN_CHECKS else _checked)(globals()[name]) for name in _FUNCTIONS
})  # fmt: skip

_SAMEDIFF = {
    "Op": "write @oc.defop", "Namespace": "write @oc.defop(namespace=...)", "Arg": "write declare.Setting",
    "Config": "write declare.configuration", **_rows("Mixin useMixin", "write declare.Part, and parts=[...]"),
    "Constraint": "write @oc.defop(where=[...])", "BackendConstraint": "write @oc.defop(backend_where=[...])",
    "Signature": "write @oc.defop(signatures=[...])", "Doc": "write @oc.defop(doc=...), or a docstring",
    "Exactly": "write declare.exactly", "AtLeast": "write declare.at_least", "AtMost": "write declare.at_most",
    "Range": "write declare.between", "sizeAt": "write declare.size", "some": "write declare.any_of",
    "all": "write declare.all_of", "sameType": "write declare.same_type", "sameShape": "write declare.same_shape",
    "broadcastableShapes": "write declare.broadcastable", "isScalar": 'write declare.rank("x") == 0',
}
"""What stands here for the names of SameDiff's generator."""

if not TYPE_CHECKING:

    @_public
    def __getattr__(name: str) -> _Any:
        if name.startswith("__"):
            raise AttributeError(f"module 'ocannl.declare' has no attribute {name!r}")
        raise _unknown_name("declare", name, lambda: __all__, _SAMEDIFF)
