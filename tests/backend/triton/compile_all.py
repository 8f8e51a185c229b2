"""Compiles every kernel of the conformance kit and of the benchmarks' workloads to machine code; needs no GPU.

    python tests/backend/triton/compile_all.py [sm ...]
"""

from __future__ import annotations

import sys
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from unittest.mock import patch

import pytest
from collecting import CollectingMachine, distinct_kernels, workload_modules

from ocannl.backend import CompileError, registry
from ocannl.backend.cpu.device import cores
from ocannl_backend_triton.backend import TritonBackend
from ocannl_backend_triton.compile import compile_kernels
from ocannl_backend_triton.cuda_target import TARGETS
from ocannl_backend_triton.kernel_module import Kernel, KernelModule

STANDARD = (80, 90)


def kit_modules() -> list[KernelModule]:
    machine = CollectingMachine(on_link=lambda: pytest.skip("only compiled"))
    with patch.dict(registry._backends, triton=TritonBackend(machine)):
        arguments = ["-q", "--no-header", "-p", "no:cacheprovider", "-W", "ignore", "--tb=no"]
        pytest.main([*arguments, "--pyargs", "ocannl.testing", "--ocannl-backend=triton"])
    return machine.modules


def refusal(task: tuple[KernelModule, Kernel, int]) -> str | None:
    """The compiler's error for a kernel, or None."""
    module, kernel, sm = task
    try:
        compile_kernels(replace(module, kernels=(kernel,)), TARGETS[sm])
    except CompileError as error:
        return f"{module.name}: {error}"
    return None


def main() -> int:
    targets = list(map(int, sys.argv[1:])) or STANDARD
    kernels = list(distinct_kernels([*workload_modules(), *kit_modules()]))
    tasks = [(module, kernel, sm) for sm in targets for module, kernel in kernels]
    print(f"{len(kernels)} different kernels for {', '.join(str(TARGETS[sm]) for sm in targets)}", flush=True)
    with ProcessPoolExecutor(cores()) as pool:
        messages = [message for message in pool.map(refusal, tasks, chunksize=8) if message]
    print("\n\n".join([*messages, f"{len(tasks) - len(messages)} are machine code, {len(messages)} are refused"]))
    return bool(messages)


if __name__ == "__main__":
    sys.exit(main())
