"""Assignments to tensors, which recorders receive: `t += e`, `t[...] = e`."""

from __future__ import annotations

from typing import Any, NoReturn, Self, TypeVar

from ocannl.base.errors import CodeError
from ocannl.base.traceback_filtering import public_class
from ocannl.ir.affine import Affine
from ocannl.lang.record.code import Recorder, recorder, state_recorder

T = TypeVar("T")


@public_class()
class AssignmentOperators:
    """The operators of assignments. Outside of recorders they are refused, except for states of blocks."""

    __slots__ = ()

    def __iadd__(self, value: object) -> Self:
        return augmented_assign(self, "=+", value)

    def __isub__(self, value: object) -> Self:
        return augmented_assign(self, "=-", value)

    def __imul__(self, value: object) -> Self:
        return augmented_assign(self, "=*", value)

    def __itruediv__(self, value: object) -> Self:
        return augmented_assign(self, "=/", value)

    def __ipow__(self, value: object) -> Self:
        return augmented_assign(self, "=**", value)

    def __ior__(self, value: object) -> Self:
        return augmented_assign(self, "=||", value)

    def __iand__(self, value: object) -> Self:
        return augmented_assign(self, "=&&", value)

    def __imatmul__(self, value: object) -> NoReturn:
        raise _unsupported_assignment("@=")

    def __imod__(self, value: object) -> NoReturn:
        raise _unsupported_assignment("%=")

    def __ixor__(self, value: object) -> NoReturn:
        raise _unsupported_assignment("^=")

    def __ifloordiv__(self, value: object) -> NoReturn:
        raise _unsupported_assignment("//=")

    def __ilshift__(self, value: object) -> NoReturn:
        raise _unsupported_assignment("<<=")

    def __irshift__(self, value: object) -> NoReturn:
        raise _unsupported_assignment(">>=")

    def __setitem__(self, key: object, value: object) -> None:
        _active_recorder(self, "[...] = ...").assign_item(self, key, value)


def augmented_assign(lhs: T, spelling: str, value: object) -> T:
    """Records an augmented assignment, such as `lhs += value`."""
    sign = {"=||": "|", "=&&": "&"}.get(spelling, spelling[1:])
    _active_recorder(lhs, f" {sign}= ...", sign).assign_augmented(lhs, spelling, value)
    return lhs


def slice_base(lhs: Any) -> tuple[Any, tuple[Affine, ...]]:
    """The tensor that `lhs` is a (nested) slice of, a state for a read of it, and the leading indices."""
    leading: tuple[Affine, ...] = ()
    while lhs.application is not None and lhs.application.operation.name == "slice":
        fixed = lhs.application.operation.logic.spec.operands[0].batch.lead[0].index
        leading = (Affine.of(fixed), *leading)
        lhs = lhs.application.operands[0]
    return lhs if lhs.state_access is None else lhs.state_access.state, leading


def _unsupported_assignment(sign: str) -> CodeError:
    assignments = "+= -= *= /= **= |= &= and `lhs[...] = e`"
    return CodeError(f"`{sign}` is not an assignment of tensors; the assignments are {assignments}")


def _active_recorder(lhs: Any, statement: str, sign: str = "") -> Recorder[Any]:
    """The recorder that receives an assignment. Raises: CodeError if there is none."""
    active = recorder.get()
    if active is None and slice_base(lhs)[0].state_access is not None:
        active = state_recorder.get()
    if active is None:
        name = lhs.label
        is_result = sign and lhs.application is not None and lhs.application.operation.name != "slice"
        instead = f"for a new tensor write `{name} = {name} {sign} ...`, else " if is_result else ""
        raise CodeError(
            f"`{name}{statement}` assigns, and assignments are recorded: {instead}put it into a function decorated "
            f'with @oc.cd, or into `with oc.cd("title"):`, and run the code with ctx.run'
        )
    return active
