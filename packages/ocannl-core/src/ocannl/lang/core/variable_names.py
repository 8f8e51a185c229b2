"""Which name a value is bound to, read from the bytecode that made it.

So names are found wherever code runs, with its source or without: in the REPL, in notebooks, under `exec`, in lambdas.
A value is followed over the stack until it is stored; one that something else takes first has no name.
"""

from __future__ import annotations

import dis
from bisect import bisect_left, bisect_right
from functools import lru_cache
from types import CodeType

FAR = 200
"""So many instructions are looked at."""

_STORES = ("STORE_FAST", "STORE_NAME", "STORE_GLOBAL", "STORE_DEREF")
_IDLE = ("CACHE", "NOP", "EXTENDED_ARG", "RESUME")


def bound_name(code: CodeType, at: int) -> str:
    """The name that the result of the instruction at this offset, or of the call with a cache there, is stored into."""
    steps, offsets = _steps(code)
    name = _followed(steps, offsets, bisect_right(offsets, at))
    return name if name.isidentifier() else ""


@lru_cache(maxsize=4096)
def _steps(code: CodeType) -> tuple[list[dis.Instruction], list[int]]:
    steps = [step for step in dis.get_instructions(code) if step.opname not in _IDLE]
    return steps, [step.offset for step in steps]


def _followed(steps: list[dis.Instruction], offsets: list[int], at: int) -> str:
    """The name that the value on top of the stack is stored into."""
    depth = 0  # of the value, below the top
    for _ in range(FAR):
        if at >= len(steps):
            return ""
        step = steps[at]
        at += 1
        match step.opname:
            case store if store in _STORES:
                if depth == 0:
                    return str(step.argval)
                depth -= 1
            case "STORE_FAST_STORE_FAST" | "STORE_FAST_LOAD_FAST":  # two instructions in one
                first, second = step.argval
                if depth == 0 or (depth == 1 and step.opname == "STORE_FAST_STORE_FAST"):
                    return str((first, second)[depth])
                depth -= 2 if step.opname == "STORE_FAST_STORE_FAST" else 0
            case "STORE_ATTR":  # the object lies on top
                if depth == 1:
                    return str(step.argval)
                if depth == 0:
                    return ""
                depth -= 2
            case "COPY" if step.arg == depth + 1:
                depth = 0  # what is stored first is the copy
            case "SWAP" if depth in (0, (step.arg or 0) - 1):
                depth = (step.arg or 0) - 1 - depth
            case "SWAP":
                pass
            case "BUILD_TUPLE" if _is_unpacked(step, steps[at : at + 1]):
                at += 1
                depth = (step.arg or 0) - 1 - depth if depth < (step.arg or 0) else depth
            case "JUMP_FORWARD":
                at = bisect_left(offsets, step.argval)
            case _:
                effect = dis.stack_effect(step.opcode, step.arg, jump=False)
                taken = 0 if _only_pushes(step) else max(1 - effect, 1)
                if step.opcode in dis.hasjrel or taken > depth:
                    return ""
                depth += effect
    return ""


def _only_pushes(step: dis.Instruction) -> bool:
    attribute = step.opname in ("LOAD_ATTR", "LOAD_METHOD", "LOAD_SUPER_ATTR")
    return step.opname in ("COPY", "PUSH_NULL") or (step.opname.startswith("LOAD_") and not attribute)


def _is_unpacked(step: dis.Instruction, after: list[dis.Instruction]) -> bool:
    return bool(after) and after[0].opname == "UNPACK_SEQUENCE" and after[0].arg == step.arg
