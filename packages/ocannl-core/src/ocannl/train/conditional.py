"""Code that runs only if a node is not 0."""

from __future__ import annotations

from ocannl.ir.assign import Conditional, Read, Seq
from ocannl.ir.tnode import Role
from ocannl.lang.core.region_tensor import conditional
from ocannl.lang.core.tensor import Tensor
from ocannl.lang.record.code import Code


class ConditionalCode(Code):
    """Code as a branch of the compiled program, on a condition without axes."""

    __slots__ = ("condition", "guarded")

    def __init__(self, condition: Tensor, guarded: Code) -> None:
        super().__init__(guarded.items, guarded.keep_reasons)
        self.condition, self.guarded = condition, guarded

    def _comp(self) -> Seq:
        branch = conditional(Read(self.condition.node, ()), [self.guarded._comp()])
        temporary = tuple(node for node in branch.private if node.role is Role.RESULT)  # others keep their values
        return Seq((Conditional(branch.condition, branch.body, temporary),))
