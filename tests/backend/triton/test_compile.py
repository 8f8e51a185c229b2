"""Machine code, made without a GPU."""

from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("triton")

from ocannl.backend import CompileError
from ocannl_backend_triton.compile import binaries
from ocannl_backend_triton.deduplicate import texts
from ocannl_backend_triton.kernel import Argument, Kernel, Module
from ocannl_backend_triton.package import Package
from ocannl_backend_triton.target import KNOWN

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
MODULE = Module("program", SOURCE, (PRODUCT, LARGEST), (("a", 1 << 20), ("b", 1 << 20), ("c", 1 << 20)))


@pytest.mark.parametrize("sm", [80, 90])
def test_kernels_become_machine_code(sm):
    product, largest = binaries(MODULE, KNOWN[sm])
    for binary, kernel in ((product, PRODUCT), (largest, LARGEST)):
        assert binary.image.startswith(b"\x7fELF") and binary.name == kernel.name
        assert binary.threads == 32 * kernel.num_warps
        assert not any(binary.scratch) and 0 <= binary.shared_bytes <= KNOWN[sm].shared_bytes
    assert product.shared_bytes > largest.shared_bytes


def test_what_was_compiled_is_remembered(monkeypatch):
    first = binaries(MODULE, KNOWN[90])
    monkeypatch.setattr("triton.compile", None)
    assert binaries(MODULE, KNOWN[90]) == first


def test_kernels_that_differ_in_names_alone_have_one_code():
    other = """
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
    made = binaries(replace(MODULE, source=SOURCE + other, kernels=kernels), KNOWN[90])
    assert made[0] is made[1] and made[0].name == "largest"
    assert len({binary.image for binary in made}) == 5
    what = texts(replace(MODULE, source=SOURCE + other, kernels=kernels))
    assert what["largest"] == what["largest_2"] != what["smallest"]


def test_nothing_is_left_where_triton_keeps_code(tmp_path, monkeypatch):
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    binaries(replace(MODULE, source=SOURCE + "# another"), KNOWN[80])
    assert not list(tmp_path.rglob("*"))


def test_a_refusal_shows_the_place_and_keeps_the_text():
    wrong = replace(MODULE, source=SOURCE.replace("tl.maximum(a, b)", "tl.maximum(a, unknown)"))
    with pytest.raises(CompileError, match=r"Triton refused kernel `largest` for sm_90; its text is kept in") as caught:
        binaries(wrong, KNOWN[90])
    kept = str(caught.value).partition("kept in ")[2].splitlines()[0]
    assert Path(kept).read_text() == wrong.source
    assert "unknown is not defined" in str(caught.value)


def test_machine_code_comes_back_from_its_bytes():
    package = Package("here", (MODULE,), {sm: [binaries(MODULE, KNOWN[sm])] for sm in (80, 90)})
    again = Package.read(package.blob, "here")
    assert again.modules == package.modules and again.source == SOURCE
    assert {sm: tuple(map(tuple, made)) for sm, made in again.binaries.items()} == {
        sm: tuple(map(tuple, made)) for sm, made in package.binaries.items()
    }
    assert again.blob == package.blob
    with pytest.raises(CompileError, match="was compiled for here, and this is elsewhere"):
        Package.read(package.blob, "elsewhere")
    blob = package.blob
    for damaged in (blob[:-1], blob + b"x", blob[:100], b"", blob.replace(b"ELF", b"EFL", 1)):
        with pytest.raises(CompileError):
            Package.read(damaged, "here")
