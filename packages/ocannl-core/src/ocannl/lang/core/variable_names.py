"""The variable name that a value is assigned to, read from the bytecode that computes it.

Reading bytecode works without source code too: in the REPL, in notebooks, under `exec`, in lambdas. A value is followed
on the evaluation stack until it is stored; a value that another instruction consumes first has no name.
"""

from __future__ import annotations

import dis
from bisect import bisect_left, bisect_right
from functools import lru_cache
from types import CodeType

MAX_INSTRUCTIONS = 200
"""Limit on the instructions followed after the call."""

_STORES = ("STORE_FAST", "STORE_NAME", "STORE_GLOBAL", "STORE_DEREF")
_NO_OPS = ("CACHE", "NOP", "EXTENDED_ARG", "RESUME")


def bound_name(code: CodeType, offset: int) -> str:
    """The variable that stores the result of the instruction at this offset, or of the call whose cache is there."""
    instructions, offsets = _instructions(code)
    name = _stored_name(instructions, offsets, bisect_right(offsets, offset))
    return name if name.isidentifier() else ""


@lru_cache(maxsize=4096)
def _instructions(code: CodeType) -> tuple[list[dis.Instruction], list[int]]:
    instructions = [instruction for instruction in dis.get_instructions(code) if instruction.opname not in _NO_OPS]
    return instructions, [instruction.offset for instruction in instructions]


def _stored_name(instructions: list[dis.Instruction], offsets: list[int], position: int) -> str:
    """The variable that stores the value on top of the stack."""
    depth = 0  # of the value below the top of the stack
    for _ in range(MAX_INSTRUCTIONS):
        if position >= len(instructions):
            return ""
        instruction = instructions[position]
        position += 1
        match instruction.opname:
            case store if store in _STORES:
                if depth == 0:
                    return str(instruction.argval)
                depth -= 1
            case "STORE_FAST_STORE_FAST" | "STORE_FAST_LOAD_FAST":  # two instructions in one
                first, second = instruction.argval
                if depth == 0 or (depth == 1 and instruction.opname == "STORE_FAST_STORE_FAST"):
                    return str((first, second)[depth])
                depth -= 2 if instruction.opname == "STORE_FAST_STORE_FAST" else 0
            case "STORE_ATTR":  # the object is on top of the stack
                if depth == 1:
                    return str(instruction.argval)
                if depth == 0:
                    return ""
                depth -= 2
            case "COPY" if instruction.arg == depth + 1:
                depth = 0  # the copy is stored first
            case "SWAP" if depth in (0, (instruction.arg or 0) - 1):
                depth = (instruction.arg or 0) - 1 - depth
            case "SWAP":
                pass
            case "BUILD_TUPLE" if _is_immediately_unpacked(instruction, instructions[position : position + 1]):
                position += 1
                depth = (instruction.arg or 0) - 1 - depth if depth < (instruction.arg or 0) else depth
            case "JUMP_FORWARD":
                position = bisect_left(offsets, instruction.argval)
            case _:
                effect = dis.stack_effect(instruction.opcode, instruction.arg, jump=False)
                popped = 0 if _only_pushes(instruction) else max(1 - effect, 1)
                if instruction.opcode in dis.hasjrel or popped > depth:
                    return ""
                depth += effect
    return ""


def _only_pushes(instruction: dis.Instruction) -> bool:
    is_attribute = instruction.opname in ("LOAD_ATTR", "LOAD_METHOD", "LOAD_SUPER_ATTR")
    return instruction.opname in ("COPY", "PUSH_NULL") or (instruction.opname.startswith("LOAD_") and not is_attribute)


def _is_immediately_unpacked(instruction: dis.Instruction, following: list[dis.Instruction]) -> bool:
    return bool(following) and following[0].opname == "UNPACK_SEQUENCE" and following[0].arg == instruction.arg
