"""Asks Linux for the tile registers of Intel AMX, whose state it saves only for processes that have asked for it.

Source: "Using XSTATE features in user space applications", docs.kernel.org/arch/x86/xstate.html.
"""

from __future__ import annotations

import ctypes
import sys

ARCH_PRCTL = 158  # the number of the system call
ARCH_REQ_XCOMP_PERM = 0x1023
XTILEDATA = 18  # the number of the state component


def may_use_tiles() -> bool:
    """Whether threads of this process may use the tile registers from now on. The permission cannot be returned, and
    does not cost anything until a thread uses them."""
    if sys.platform != "linux":
        return False
    try:
        syscall = ctypes.CDLL(None).syscall
    except (OSError, AttributeError):
        return False
    syscall.restype = ctypes.c_long
    return bool(syscall(*map(ctypes.c_long, (ARCH_PRCTL, ARCH_REQ_XCOMP_PERM, XTILEDATA))) == 0)
