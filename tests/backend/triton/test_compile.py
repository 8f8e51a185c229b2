"""Compilation to machine code, without a GPU."""

from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("triton")

from ocannl.backend import CompileError
from ocannl_backend_triton.compile import compile_kernels
from ocannl_backend_triton.cuda_target import TARGETS
from ocannl_backend_triton.identical_code_folding import canonical_texts
from ocannl_backend_triton.kernel_module import Argument, Kernel, KernelModule
from ocannl_backend_triton.serialization import KernelPackage

SOURCE = '''
import triton
import triton.language as tl

@triton.jit
def product(a, b, c, N: tl.constexpr, BLOCK: tl.constexpr, STEP: tl.constexpr):
    m = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    n = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    total = tl.full((BLOCK, BLOCK), 0.0, tl.float32)
    for start in range(0, N, STEP):
        k = start + tl.arange(0, STEP)
        x = tl.load(a + m[:, None] * N + k[None, :])
        y = tl.load(b + k[:, None] * N + n[None, :])
        total = tl.dot(x, y, total, input_precision="ieee")
    tl.store(c + m[:, None] * N + n[None, :], total)

@triton.jit
def larger(a, b):
    return tl.maximum(a, b)

@triton.jit
def largest(a, c, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    tl.store(c + row, tl.reduce(tl.load(a + row * BLOCK + tl.arange(0, BLOCK)), 0, larger))
'''


def argument(name, type, region, *, writes=False):
    return Argument(name, type, region, 0, 1 << 20, not writes, writes)


PRODUCT = Kernel(
    "product", "a product",
    (argument("a", "bf16", 0), argument("b", "bf16", 1), argument("c", "fp32", 2, writes=True)),
    (8, 8, 1), (("N", 512), ("BLOCK", 64), ("STEP", 32)), num_warps=8, num_stages=3,
)  # fmt: skip
LARGEST = Kernel(
    "largest", "a maximum", (argument("a", "fp32", 0), argument("c", "fp32", 2, writes=True)),
    (8, 1, 1), (("BLOCK", 256),),
)  # fmt: skip
MODULE = KernelModule("program", SOURCE, (PRODUCT, LARGEST), (("a", 1 << 20), ("b", 1 << 20), ("c", 1 << 20)))


@pytest.mark.parametrize("sm", [80, 90])
def test_kernels_become_machine_code(sm):
    product, largest = compile_kernels(MODULE, TARGETS[sm])
    for binary, kernel in ((product, PRODUCT), (largest, LARGEST)):
        assert binary.image.startswith(b"\x7fELF") and binary.name == kernel.name
        assert binary.threads == 32 * kernel.num_warps
        assert not any(binary.scratch) and 0 <= binary.shared_bytes <= TARGETS[sm].shared_bytes
    assert product.shared_bytes > largest.shared_bytes


def test_compiled_kernels_are_cached(monkeypatch):
    first = compile_kernels(MODULE, TARGETS[90])
    monkeypatch.setattr("triton.compile", None)
    assert compile_kernels(MODULE, TARGETS[90]) == first


def test_alpha_equivalent_kernels_share_code():
    more_source = """
@triton.jit
def smaller(a, b):
    return tl.minimum(a, b)

@triton.jit
def largest_2(x, y, SIZE: tl.constexpr):
    line = tl.program_id(0)
    tl.store(y + line, tl.reduce(tl.load(x + line * SIZE + tl.arange(0, SIZE)), 0, larger))

@triton.jit
def smallest(a, c, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    tl.store(c + row, tl.reduce(tl.load(a + row * BLOCK + tl.arange(0, BLOCK)), 0, smaller))
"""
    x, y = argument("x", "fp32", 0), argument("y", "fp32", 2, writes=True)
    renamed = replace(LARGEST, name="largest_2", arguments=(x, y), constants=(("SIZE", 256),))
    longer = replace(renamed, constants=(("SIZE", 512),))
    narrow = replace(renamed, arguments=(x, replace(y, type="bf16")))
    shifted = replace(renamed, arguments=(replace(x, offset_bytes=4), y))
    kernels = LARGEST, renamed, longer, narrow, shifted, replace(LARGEST, name="smallest")
    compiled = compile_kernels(replace(MODULE, source=SOURCE + more_source, kernels=kernels), TARGETS[90])
    assert compiled[0] is compiled[1] and compiled[0].name == "largest"
    assert len({binary.image for binary in compiled}) == 5
    canonical = canonical_texts(replace(MODULE, source=SOURCE + more_source, kernels=kernels))
    assert canonical["largest"] == canonical["largest_2"] != canonical["smallest"]


def test_triton_cache_stays_empty(tmp_path, monkeypatch):
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    compile_kernels(replace(MODULE, source=SOURCE + "# another"), TARGETS[80])
    assert not list(tmp_path.rglob("*"))


def test_errors_show_the_location_and_save_the_source():
    invalid = replace(MODULE, source=SOURCE.replace("tl.maximum(a, b)", "tl.maximum(a, unknown)"))
    with pytest.raises(CompileError, match=r"Triton refused kernel `largest` for sm_90; its text is kept in") as caught:
        compile_kernels(invalid, TARGETS[90])
    path = str(caught.value).partition("kept in ")[2].splitlines()[0]
    assert Path(path).read_text() == invalid.source
    assert "unknown is not defined" in str(caught.value)


def test_packages_round_trip():
    package = KernelPackage("here", (MODULE,), {sm: [compile_kernels(MODULE, TARGETS[sm])] for sm in (80, 90)})
    restored = KernelPackage.read(package.blob, "here")
    assert restored.modules == package.modules and restored.source == SOURCE
    assert {sm: tuple(map(tuple, compiled)) for sm, compiled in restored.binaries.items()} == {
        sm: tuple(map(tuple, compiled)) for sm, compiled in package.binaries.items()
    }
    assert restored.blob == package.blob
    with pytest.raises(CompileError, match="was compiled for here, and this is elsewhere"):
        KernelPackage.read(package.blob, "elsewhere")
    blob = package.blob
    for damaged in (blob[:-1], blob + b"x", blob[:100], b"", blob.replace(b"ELF", b"EFL", 1)):
        with pytest.raises(CompileError):
            KernelPackage.read(damaged, "here")
