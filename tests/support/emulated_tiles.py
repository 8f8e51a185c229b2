"""Executes products of tiles with emulated instructions of Intel AMX, and prints the results of comparisons.

    python emulated_tiles.py EMULATOR

Each line is a JSON object: the name of a program, the number of emulated instructions, whether one and two threads
compute equal bits, and the largest error, in units of its bound unless sums are exact.
"""

from __future__ import annotations

import ctypes
import json
import sys
from dataclasses import replace
from unittest import mock

import numpy as np
from tile_programs import always_tiled, programs

from ocannl_backend_llvm import jit

TILES = "amx-tile", "amx-bf16"


def main(path: str) -> None:
    emulator = ctypes.CDLL(path)
    emulator.amx_executed.restype = ctypes.c_long
    assert emulator.amx_install() == 0
    host = jit.host()
    features = [f"+{name[1:]}" if name[1:] in TILES else name for name in host.features.split(",")]
    target = replace(host, features=",".join(features))
    with mock.patch.object(jit, "host", return_value=target), always_tiled():
        for name, error, run in programs():
            before = emulator.amx_executed()
            first = run(1)
            count = emulator.amx_executed() - before
            equal = bool(np.array_equal(first, run(2)))
            result = {"name": name, "instructions": count, "is_equal": equal, "error": error(first)}
            print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
