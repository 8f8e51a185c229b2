"""Static indices: integers chosen when a routine is called."""

from __future__ import annotations

import keyword
import operator
from typing import TYPE_CHECKING

from ocannl.base.errors import CodeError
from ocannl.base.traceback_filtering import public_class
from ocannl.ir.affine import Sym, SymKind
from ocannl.ir.name_mangling import identifier
from ocannl.lang.core.operators import Operators

if TYPE_CHECKING:
    from ocannl.lang.core.tensor import Tensor  # noqa: F401  (named in a base class)


@public_class()
class Symbol(Sym, Operators["Tensor"]):
    """A static index; in an expression it is a number. Equality is identity, since the compiler compares indices."""

    __slots__ = ()
    __eq__ = object.__eq__
    __ne__ = object.__ne__
    __hash__ = object.__hash__

    def __init__(self, name: str, lo: int, hi: int, kind: SymKind = SymKind.LOOP) -> None:
        super().__init__(name, lo, hi, kind)

    def __repr__(self) -> str:
        return f"<symbol {self.name} in {self.lo}..{self.hi + 1}>"


def symbol(name: str, low: int, high: int) -> Symbol:
    """A static index `low <= name < high`, passed to each call of a routine: `step(n=3)`."""
    if not isinstance(name, str) or identifier(name) != name or keyword.iskeyword(name):
        raise CodeError(f"the name of a symbol must be a plain identifier, which calls use as a keyword; not {name!r}")
    try:
        if isinstance(low, bool) or isinstance(high, bool):
            raise TypeError
        low, high = operator.index(low), operator.index(high)
    except TypeError:
        raise CodeError(f"the bounds of symbol `{name}` are integers, not {low!r} and {high!r}") from None
    if not -(2**62) <= low <= high <= 2**62:
        raise CodeError(f"the bounds of symbol `{name}` fit 63 bits; {low} and {high} do not")
    if high <= low:
        raise CodeError(f"symbol `{name}` has an empty range: {low} <= {name} < {high}")
    return Symbol(name, low, high - 1, SymKind.STATIC)
