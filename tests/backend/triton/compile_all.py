"""Every kernel that the conformance kit and the workloads of the benchmarks make becomes machine code, GPU or none.

    python tests/backend/triton/compile_all.py [sm ...]
"""

from __future__ import annotations

import sys
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from unittest.mock import patch

import pytest
from collecting import CollectingMachine, distinct, of_workloads

from ocannl.backend import CompileError, registry
from ocannl.backend.cpu.device import cores
from ocannl_backend_triton.backend import TritonBackend
from ocannl_backend_triton.compile import binaries
from ocannl_backend_triton.kernel import Kernel, Module
from ocannl_backend_triton.target import KNOWN

STANDARD = (80, 90)


def of_kit() -> list[Module]:
    machine = CollectingMachine(leave=lambda: pytest.skip("only compiled"))
    with patch.dict(registry._backends, triton=TritonBackend(machine)):
        arguments = ["-q", "--no-header", "-p", "no:cacheprovider", "-W", "ignore", "--tb=no"]
        pytest.main([*arguments, "--pyargs", "ocannl.testing", "--ocannl-backend=triton"])
    return machine.modules


def refusal(task: tuple[Module, Kernel, int]) -> str | None:
    """Why the kernel does not become machine code."""
    module, kernel, sm = task
    try:
        binaries(replace(module, kernels=(kernel,)), KNOWN[sm])
    except CompileError as wrong:
        return f"{module.name}: {wrong}"
    return None


def main() -> int:
    wanted = list(map(int, sys.argv[1:])) or STANDARD
    kernels = list(distinct([*of_workloads(), *of_kit()]))
    tasks = [(module, kernel, sm) for sm in wanted for module, kernel in kernels]
    print(f"{len(kernels)} different kernels for {', '.join(str(KNOWN[sm]) for sm in wanted)}", flush=True)
    with ProcessPoolExecutor(cores()) as pool:
        refused = [said for said in pool.map(refusal, tasks, chunksize=8) if said]
    print("\n\n".join([*refused, f"{len(tasks) - len(refused)} are machine code, {len(refused)} are refused"]))
    return bool(refused)


if __name__ == "__main__":
    sys.exit(main())
