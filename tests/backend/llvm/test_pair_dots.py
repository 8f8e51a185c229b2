"""Products of matrices of narrow numbers by the instructions for dot products of pairs."""

import ml_dtypes
import numpy as np
import pytest

import ocannl as oc
from ocannl.ir.loops import Cast, Var
from ocannl.ir.pair_dots import dot_of_pairs, factors_of_dot
from ocannl.ir.precision import bfloat16, float16, float32, int8, int16, int32, uint8
from ocannl_backend_llvm import jit, parallel_codegen

FORMS = {"nn": "m,k; k,n => m,n", "nt": "m,k; n,k => m,n", "tn": "k,m; k,n => m,n", "tt": "k,m; n,k => m,n"}
SIZES = [(1, 2, 1), (3, 4, 5), (7, 66, 45), (16, 128, 16), (33, 30, 70), (96, 250, 48), (8, 1000, 17), (20, 31, 20)]
INSTRUCTION = "llvm.x86.avx512bf16.dpbf16ps"

needs_instructions = pytest.mark.skipif(
    not jit.host().instructions.bfloat16_dots, reason="this processor has no AVX512-BF16"
)


def product(form, sizes, values):
    """The product of random matrices in float32, the product in float64, and that of the absolute values."""
    extents = dict(zip("mkn", sizes, strict=True))
    axes = [part.strip().split(",") for part in FORMS[form].split("=>")[0].split(";")]
    operands = [values([extents[name] for name in names]).astype(ml_dtypes.bfloat16) for names in axes]
    x, y = (oc.tensor(operand) for operand in operands)
    result = oc.einsum(FORMS[form], x, y).with_dtype("float32")
    left, right = (operand.astype("float64") for operand in operands)
    left, right = left.T if form[0] == "t" else left, right.T if form[1] == "t" else right
    return result, left @ right, np.abs(left) @ np.abs(right)


def evaluated(tensor, threads=1):
    with oc.settings(cache=False), oc.Context("llvm", threads=threads) as ctx:
        routine = ctx.compile(tensor.forward)
        routine()
        return ctx[tensor], routine.source()


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_products_of_small_integers_are_exact(form, sizes):
    rng = np.random.default_rng(sum(sizes))
    result, exact, _ = product(form, sizes, lambda shape: rng.integers(-16, 17, shape))
    np.testing.assert_array_equal(evaluated(result)[0], exact)


@pytest.mark.parametrize("form", FORMS)
def test_the_error_is_within_the_bound_of_sums(form):
    rng = np.random.default_rng(0)
    result, exact, absolute = product(form, (70, 2048, 45), lambda shape: rng.standard_normal(shape))
    assert np.all(np.abs(evaluated(result)[0] - exact) <= 64 * 2.0**-23 * absolute)


def test_error_bound_of_a_large_and_many_small_terms():
    """Of which each vanishes if it is added to the large one."""
    x, y = np.ones((8, 5000)), np.full((5000, 40), 2.0**-24)
    y[0] = 1.0
    result = oc.einsum("m,k; k,n => m,n", *(oc.tensor(v.astype(ml_dtypes.bfloat16)) for v in (x, y)))
    got, code = evaluated(result.with_dtype("float32"))
    assert np.all(np.abs(got - x @ y) <= 64 * 2.0**-23 * (x @ y))
    assert INSTRUCTION in code or not jit.host().instructions.bfloat16_dots


def test_results_do_not_depend_on_threads():
    rng = np.random.default_rng(0)
    result, *_ = product("nn", (300, 256, 200), lambda shape: rng.standard_normal(shape))
    np.testing.assert_array_equal(evaluated(result)[0], evaluated(result, threads=2)[0])


@needs_instructions
@pytest.mark.parametrize(
    ("sizes", "is_used"), [((64, 64, 64), True), ((7, 66, 45), True), ((64, 63, 64), True), ((64, 1, 64), False)]
)
def test_code_has_the_instruction_if_there_are_pairs_of_terms(sizes, is_used):
    result, *_ = product("nn", sizes, np.ones)
    assert (INSTRUCTION in evaluated(result)[1]) == is_used


@needs_instructions
def test_other_types_are_multiplied_in_float32():
    x, y = (oc.tensor(np.ones((32, 32), "float16")) for _ in range(2))
    assert INSTRUCTION not in evaluated(oc.einsum("m,k; k,n => m,n", x, y))[1]


@needs_instructions
def test_infinities_and_nans_propagate():
    x = np.ones((32, 32), ml_dtypes.bfloat16)
    y = np.ones((32, 32), ml_dtypes.bfloat16)
    x[1, 3], x[2, 5], y[7, 4] = np.inf, np.nan, -np.inf
    result = oc.einsum("m,k; k,n => m,n", oc.tensor(x), oc.tensor(y)).with_dtype("float32")
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(evaluated(result)[0], x.astype("f4") @ y.astype("f4"))


@needs_instructions
def test_products_inside_of_loops_and_with_epilogues():
    """Batches, and a bias and an activation after the sum."""
    rng = np.random.default_rng(0)
    x, y, b = (rng.integers(-8, 9, shape).astype(ml_dtypes.bfloat16) for shape in ((9, 40, 32), (9, 32, 50), (50,)))
    sums = oc.einsum("s,m,k; s,k,n => s,m,n", oc.tensor(x), oc.tensor(y)).with_dtype("float32")
    result = oc.relu(oc.einsum("s,m,n; n => s,m,n", sums, oc.tensor(b).astype("float32"), combine="add"))
    value, code = evaluated(result)
    assert INSTRUCTION in code
    np.testing.assert_array_equal(value, np.maximum(x.astype("f8") @ y.astype("f8") + b.astype("f8"), 0))


@pytest.mark.parametrize("lanes", [1, 3, 4, 8, 13, 16])
def test_other_processors_compile_the_instructions(lanes):
    """Whatever the processor that the tests run on."""
    from ocannl.codegen import Document
    from ocannl_backend_llvm.builder import Builder, Instructions, Module
    from ocannl_backend_llvm.pair_dots import add_dot, pair_of
    from ocannl_backend_llvm.vector import VectorBuilder

    target = jit.Target("x86_64-unknown-linux-gnu", "cooperlake", "+avx512f,+avx512vl,+avx512bf16")
    assert target.instructions.bfloat16_dots
    module, doc = Module(Instructions(bfloat16_dots=True)), Document()
    scalar = Builder(module, doc)
    b = VectorBuilder(scalar, lanes) if lanes > 1 else scalar
    doc.line(f"define {b.type('float')} @f({b.type('float')} %total, {b.type('i16')} %x, {b.type('i16')} %y) {{")
    word = pair_of(b, "%x", "%y")
    doc.line(f"  ret {b.type('float')} {add_dot(b, float32, '%total', word, word)}")
    doc.line("}")
    module.add(doc)
    assert INSTRUCTION in module.text()
    assert parallel_codegen.compile_text(module.text(), target).startswith(b"\x7fELF")


def test_factors_of_dot():
    x, y, u, v = (Var(name, bfloat16) for name in "xyuv")
    assert factors_of_dot(dot_of_pairs((x, y, u, v))) == (x, y, u, v)
    assert factors_of_dot(dot_of_pairs((x, y, u, Var("v", float16)))) is None
    assert factors_of_dot(Cast(x, float32)) is None
    codes = tuple(Var(name, kind) for name, kind in zip("xyuv", (int16, int8, uint8, int16), strict=True))
    assert factors_of_dot(dot_of_pairs(codes)) == codes
    assert dot_of_pairs(codes).precision is int32


# --- integers --------------------------------------------------------------------------------------------------------

TYPES = [("int16", "int16"), ("uint8", "int8"), ("int16", "uint8"), ("int8", "int8")]
needs_pmaddwd = pytest.mark.skipif(not jit.host().instructions.int16_lanes, reason="this processor has no pmaddwd")


def integer_product(form, sizes, types):
    """The product as int32, and in int64. Operands are at the ends of the ranges as well."""
    rng = np.random.default_rng(sum(sizes))
    extents = dict(zip("mkn", sizes, strict=True))
    axes = [part.strip().split(",") for part in FORMS[form].split("=>")[0].split(";")]
    operands = []
    for names, kind in zip(axes, types, strict=True):
        limits, shape = np.iinfo(kind), [extents[name] for name in names]
        ends = rng.choice([limits.min, limits.max], shape)
        others = rng.integers(limits.min, limits.max, shape)
        operands.append(np.where(rng.random(shape) < 0.5, ends, others).astype(kind))
    x, y = (oc.cast(oc.tensor(operand), oc.int32) for operand in operands)
    left, right = (operand.astype("int64") for operand in operands)
    left, right = left.T if form[0] == "t" else left, right.T if form[1] == "t" else right
    return oc.einsum(FORMS[form], x, y), (left @ right).astype("int32")  # which wraps


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_products_of_integers_wrap(form, sizes):
    types = TYPES[(list(FORMS).index(form) + SIZES.index(sizes)) % len(TYPES)]
    result, exact = integer_product(form, sizes, types)
    np.testing.assert_array_equal(evaluated(result)[0], exact)


@needs_pmaddwd
@pytest.mark.parametrize(("sizes", "is_used"), [((64, 64, 64), True), ((64, 63, 64), True), ((64, 1, 64), False)])
def test_code_multiplies_pairs_of_integers(sizes, is_used):
    for types in TYPES:
        result, _ = integer_product("nn", sizes, types)
        assert ("pmadd" in evaluated(result)[1]) == is_used


@needs_pmaddwd
def test_convolutions_of_computed_codes_keep_them_narrow():
    """The operand is stored in 16 bits, and so is its copy with a border."""
    rng = np.random.default_rng(0)
    x, taps = rng.integers(0, 256, (32, 40)).astype("uint8"), rng.integers(-128, 128, (48, 32, 3)).astype("int8")
    codes = oc.cast(oc.tensor(x), oc.int16) - oc.tensor(np.int16(100))
    total = oc.einsum("c,o[1,1]+k; f,c,k => f,o", *(oc.cast(v, oc.int32) for v in (codes, oc.tensor(taps))))
    padded = np.pad(x.astype("int64") - 100, ((0, 0), (1, 1)))
    exact = sum(taps[:, :, k].astype("int64") @ padded[:, k : k + 40] for k in range(3))
    value, code = evaluated(total)
    np.testing.assert_array_equal(value, exact)
    assert "pmadd" in code


@pytest.mark.parametrize(
    ("features", "lanes"), [("+avx512bw,+avx512f", 16), ("+avx512f", 0), ("+avx,+avx2", 8), ("+avx", 0), ("+sse2", 4)]
)
def test_lanes_of_pmaddwd(features, lanes):
    assert jit.Target("x86_64-unknown-linux-gnu", "x86-64", features).instructions.int16_lanes == lanes
