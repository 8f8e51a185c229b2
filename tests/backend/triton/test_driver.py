"""The table of driver functions, and error handling."""

import ctypes
import ctypes.util
import os
import re
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from fake_cuda import FakeCuda

from ocannl.backend import BackendUnavailable, CompileError, DeviceLost, OutOfMemory
from ocannl.base.errors import BackendError
from ocannl_backend_triton import driver as cuda
from ocannl_backend_triton.driver import open_driver, signatures


@pytest.fixture
def fake():
    return FakeCuda()


@pytest.fixture
def driver(fake):
    return open_driver(fake.functions)


# ------------------------------------------------------------------------------------------ against CUDA's own header


def header():
    spec = find_spec("triton")
    if spec is None or spec.origin is None or shutil.which("gcc") is None:
        pytest.skip("needs the header that comes with triton, and gcc")
    return Path(spec.origin).parent / "backends" / "nvidia" / "include"


def preprocessed():
    text = '#include "cuda.h"\n'
    command = ["gcc", "-I", header(), "-E", "-P", "-x", "c", "-"]
    return subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout


PLAIN = {"int": "i", "unsigned int": "u", "unsigned char": "c", "size_t": "z", "unsigned long long": "l",
         "CUdeviceptr": "d", "CUdevice": "i"}  # fmt: skip


def test_signatures_match_the_header():
    text = preprocessed()
    enums = set(re.findall(r"^\} (CU\w+);", "\n".join(re.findall(r"typedef enum.*?\} CU\w+;", text, re.S)), re.M))
    enums |= set(re.findall(r"typedef enum \w+ \{.*?\} (CU\w+);", text, re.S)) | {"CUresult"}
    for line in filter(None, cuda.FUNCTIONS.split("\n")):
        name, letters = line.split()
        match = re.search(rf"CUresult\s+{name}\(([^)]*)\);", text)
        assert match, f"the header has no {name}"
        codes = ""
        for parameter in match[1].split(","):
            declaration = re.sub(r"\bconst\b", "", parameter).strip()
            kind = declaration.rsplit(None, 1)[0] if "*" not in declaration else "*"
            codes += "p" if "*" in kind else PLAIN.get(kind, "i" if kind in enums else "p")
        assert codes == letters, f"{name}({match[1]})"


LAYOUTS = {
    "CUDA_KERNEL_NODE_PARAMS_v2": (cuda.KernelNode, {"grid": "gridDimX", "block": "blockDimX"}),
    "CUmemPoolProps": (cuda.MemPoolProps, {}),
    "CUmemAccessDesc": (cuda.MemAccess, {}),
    "CUmemLocation": (cuda.MemLocation, {}),
}
CONSTANTS = {
    "CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES": cuda.FUNC_MAX_DYNAMIC_SHARED_SIZE_BYTES,
    "CU_MEMPOOL_ATTR_RELEASE_THRESHOLD": cuda.MEMPOOL_RELEASE_THRESHOLD,
    "CU_STREAM_NON_BLOCKING": cuda.STREAM_NON_BLOCKING,
    "CU_EVENT_DISABLE_TIMING": cuda.EVENT_DISABLE_TIMING,
    "CU_MEM_ALLOCATION_TYPE_PINNED": cuda.ALLOCATION_PINNED,
    "CU_MEM_LOCATION_TYPE_DEVICE": cuda.LOCATION_DEVICE,
    "CU_MEM_ACCESS_FLAGS_PROT_READWRITE": cuda.ACCESS_READ_WRITE,
    "CUDA_ERROR_OUT_OF_MEMORY": cuda.OUT_OF_MEMORY,
    "CUDA_ERROR_NOT_READY": cuda.NOT_READY,
}
CONSTANTS |= {f"CU_DEVICE_ATTRIBUTE_{a.name}": a.value for a in cuda.Attribute}
CONSTANTS |= {f"CUDA_ERROR_{name}": number for name, number in (cuda.DEVICE_LOST_ERRORS | cuda.BINARY_ERRORS).items()}


def test_structures_and_constants_match_the_header(tmp_path):
    facts = [f"(long){name}" for name in CONSTANTS]
    expected = list(CONSTANTS.values())
    for name, (structure, renamed_fields) in LAYOUTS.items():
        facts.append(f"(long)sizeof({name})")
        expected.append(ctypes.sizeof(structure))
        for field, *_ in structure._fields_:
            facts.append(f"(long)offsetof({name}, {renamed_fields.get(field, field)})")
            expected.append(getattr(structure, field).offset)
    lines = "".join(f'printf("%ld\\n", {fact});\n' for fact in facts)
    source = f'#include <stddef.h>\n#include <stdio.h>\n#include "cuda.h"\nint main(void) {{ {lines} }}'
    (tmp_path / "facts.c").write_text(source)
    subprocess.run(["gcc", "-I", header(), "-o", tmp_path / "facts", tmp_path / "facts.c"], check=True)
    output = subprocess.run([tmp_path / "facts"], capture_output=True, text=True, check=True).stdout.split()
    assert dict(zip(facts, map(int, output), strict=True)) == dict(zip(facts, expected, strict=True))


# ---------------------------------------------------------------------------------------------------------- errors


def test_a_working_driver_is_open(driver):
    assert driver.get_int("cuDeviceGetCount") == 1 and driver.closed is None


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda fake: fake.failing.update(cuInit=100), "no GPU can be used: .* CUDA_ERROR_NO_DEVICE"),
        (lambda fake: fake.devices.clear(), "finds no GPU"),
        (lambda fake: setattr(fake, "version", 11080), "supports version 11.8, but 12.0 is required"),
    ],
)
def test_a_driver_without_a_gpu_is_unavailable(fake, change, message):
    change(fake)
    with pytest.raises(BackendUnavailable, match=message):
        open_driver(fake.functions)


def test_a_missing_driver_is_reported():
    if not cuda.LIBRARIES.get(sys.platform) or not any(map(ctypes.util.find_library, ["cuda", "nvcuda"])):
        with pytest.raises(BackendUnavailable, match="cannot be loaded|there is no CUDA"):
            cuda.system_driver()


def test_recoverable_errors(fake, driver):
    fake.failing["cuDeviceGetCount"] = 2
    with pytest.raises(OutOfMemory, match="cuDeviceGetCount returned CUDA_ERROR_OUT_OF_MEMORY: in words"):
        driver.get_int("cuDeviceGetCount")
    fake.failing["cuDeviceGetCount"] = 101
    with pytest.raises(BackendError, match="the CUDA driver failed: cuDeviceGetCount returned CUDA_ERROR_101"):
        driver.get_int("cuDeviceGetCount")
    fake.failing["cuDeviceGetCount"] = 222
    with pytest.raises(CompileError, match="the CUDA driver rejected the code of a kernel"):
        driver.get_int("cuDeviceGetCount")
    assert driver.get_int("cuDeviceGetCount") == 1


@pytest.mark.parametrize("status", cuda.DEVICE_LOST_ERRORS.values(), ids=list(cuda.DEVICE_LOST_ERRORS))
def test_the_driver_closes_after_fatal_errors(fake, driver, status):
    fake.failing["cuDeviceGetCount"] = status
    for _ in range(2):
        with pytest.raises(DeviceLost, match="can no longer be used by this process, and its contents are lost"):
            driver.get_int("cuDeviceGetCount")
    before = len(fake.calls)
    driver.release("cuEventDestroy_v2", None)
    assert len(fake.calls) == before


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks here")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_forked_children_cannot_use_the_driver(driver):
    child = os.fork()
    if child == 0:
        try:
            driver.get_int("cuDeviceGetCount")
        except DeviceLost as error:
            os._exit(0 if "spawn" in str(error) else 2)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert driver.get_int("cuDeviceGetCount") == 1


def test_every_function_of_the_table_is_simulated(fake):
    assert set(fake.functions) == set(signatures())
    assert sys.byteorder == "little"
