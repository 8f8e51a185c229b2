"""The dialect of GCC and Clang (C99 with extensions). No headers are included, so no macro clashes with user names."""

from __future__ import annotations

from collections.abc import Mapping

from ocannl.codegen.abi import SIGNAL_CHECK_INTERVAL_NS
from ocannl.codegen.c_family.dialect import Definition, Dialect
from ocannl.codegen.c_family.vectors import WIDTHS
from ocannl.ir.precision import (
    bfloat16,
    bool_,
    float8_e4m3fn,
    float8_e5m2,
    float16,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    uint8,
    uint16,
    uint32,
    uint64,
)

TYPES = {
    bool_: "uint8_t",
    uint8: "uint8_t",
    uint16: "uint16_t",
    uint32: "uint32_t",
    uint64: "uint64_t",
    int8: "int8_t",
    int16: "int16_t",
    int32: "int32_t",
    int64: "int64_t",
    float8_e5m2: "uint8_t",
    float8_e4m3fn: "uint8_t",
    float16: "uint16_t",
    bfloat16: "uint16_t",
    float32: "float",
    float64: "double",
}
SUFFIXES = {
    bool_: "", uint8: "", uint16: "", uint32: "u", uint64: "ull", int8: "", int16: "", int32: "", int64: "ll",
    float32: "f", float64: "",
}  # fmt: skip

KEYWORDS = frozenset((
    "auto", "break", "case", "char", "const", "continue", "default", "do", "double", "else", "enum", "extern",
    "float", "for", "goto", "if", "inline", "int", "long", "register", "restrict", "return", "short", "signed",
    "sizeof", "static", "struct", "switch", "typedef", "union", "unsigned", "void", "volatile", "while", "asm",
    "typeof", "main",
))  # fmt: skip


POLL = Definition(
    "poll",
    f"""\
static __attribute__((noinline)) int poll(struct control *control)
{{
  if (*control->cancel) return 1;
  if (!control->signals) return 0;
  int64_t time[2];
  control->clock(control->clock_id, time);
  int64_t now = time[0] * 1000000000 + time[1];
  if (now - control->signals_checked_ns < {SIGNAL_CHECK_INTERVAL_NS}) return 0;
  control->signals_checked_ns = now;
  int state = control->ensure(), raised = control->signals();
  control->restore(state);
  return raised;
}}""",
)
READ_CLOCK = Definition(
    "read_clock",
    """\
static __attribute__((noinline)) int64_t read_clock(struct control *control)
{
  int64_t time[2] = { 0, 0 };
  if (control->clock) control->clock(control->clock_id, time);
  return time[0] * 1000000000 + time[1];
}""",
)
PARALLEL_FOR = Definition(
    "parallel_for",
    """\
static __attribute__((noinline)) int parallel_for(
    struct control *control,
    int32_t (*body)(void *frame, int64_t chunk, int64_t thread),
    void *frame,
    int64_t num_chunks)
{
  struct thread_pool *pool = control->pool;
  if (pool) return pool->parallel_for(pool, body, frame, num_chunks, control->threads);
  for (int64_t chunk = 0; chunk < num_chunks; chunk++)
    if (body(frame, chunk, 0)) return 1;
  return 0;
}""",
)
AVX512, FMA, F16C = (f"!defined __clang__ && defined __{name}__" for name in ("AVX512F", "FMA", "F16C"))
"""Conditions for GCC's builtins of these instructions; Clang selects the instructions without builtins."""
NAN_PRESERVING = "return __builtin_ia32_{}ps512_mask(y, x, y, __builtin_ia32_cmpps512_mask(y, y, 7, -1, 4), 4);"
"""A maximum or minimum that propagates NaN: the instruction returns its second operand, x, if an operand is NaN; lanes
in which y is NaN are masked out and keep y."""
HALF_VECTOR_TYPE = "typedef short half __attribute__((vector_size({})));"
WIDEN_HALF = "__builtin_ia32_vcvtph2ps512_mask((half)x, (f32x16){ 0 }, -1, 4)"
NARROW_HALF = "(u16x16)__builtin_ia32_vcvtps2ph512_mask(x, 4, (half){ 0 }, -1)"
HAS_HALF = "defined __FLT16_MAX__ && (defined __F16C__ || defined __aarch64__)"
NONTEMPORAL_STORE = """\
typedef float whole __attribute__((vector_size({bytes})));
#if defined __clang__
__builtin_nontemporal_store((whole)x, (whole *)y);
#elif defined {feature}
__builtin_ia32_movntps{instruction}((float *)y, (whole)x);
#else
*(whole *)y = (whole)x;
#endif"""

CLANG_FMA = "defined __clang__ && defined FUSED_FMA"
FMA_INSTRUCTIONS: Mapping[str, tuple[tuple[str, str], ...]] = {
    "f32_x16": ((AVX512, "return __builtin_ia32_vfmaddps512_mask(x, y, z, -1, 4);"),),
    "f64_x8": ((AVX512, "return __builtin_ia32_vfmaddpd512_mask(x, y, z, -1, 4);"),),
    "f32_x8": ((FMA, "return __builtin_ia32_vfmaddps256(x, y, z);"),),
    "f64_x4": ((FMA, "return __builtin_ia32_vfmaddpd256(x, y, z);"),),
    "f32_x4": ((FMA, "return __builtin_ia32_vfmaddps(x, y, z);"),),
    "f64_x2": ((FMA, "return __builtin_ia32_vfmaddpd(x, y, z);"),),
}
"""GCC's instructions, by type and number of lanes."""
INTRINSICS: Mapping[str, tuple[tuple[str, str], ...]] = {
    "fma_f32": (("defined FUSED_FMA", "return __builtin_fmaf(x, y, z);"),),
    "fma_f64": (("defined FUSED_FMA", "return __builtin_fma(x, y, z);"),),
    **{
        f"fma_{lanes}": (
            *FMA_INSTRUCTIONS.get(lanes, ()),
            (CLANG_FMA, "return __builtin_elementwise_fma(x, y, z);"),
            ("!defined FUSED_FMA", "return x * y + z;"),
        )
        for lanes in (f"{type_}_x{width}" for type_ in ("f32", "f64") for width in WIDTHS)
    },
    "max_f32_x16": ((AVX512, NAN_PRESERVING.format("max")),),
    "min_f32_x16": ((AVX512, NAN_PRESERVING.format("min")),),
    "scale_f32_x16": ((AVX512, "return __builtin_ia32_scalefps512_mask(x, n, x, -1, 4);"),),
    "scale_f32_x8": ((f"{AVX512} && defined __AVX512VL__", "return __builtin_ia32_scalefps256_mask(x, n, x, -1);"),),
    "f16_to_f32_x16": ((AVX512, f"{HALF_VECTOR_TYPE.format(32)}\nreturn {WIDEN_HALF};"),),
    "f32_to_f16_x16": ((AVX512, f"{HALF_VECTOR_TYPE.format(32)}\nreturn {NARROW_HALF};"),),
    "f16_to_f32_x8": ((F16C, f"{HALF_VECTOR_TYPE.format(16)}\nreturn __builtin_ia32_vcvtph2ps256((half)x);"),),
    "f32_to_f16_x8": ((F16C, "return (u16x8)__builtin_ia32_vcvtps2ph256(x, 4);"),),
    "f16_to_f32": ((HAS_HALF, "union { uint16_t bits; _Float16 number; } held = { x };\nreturn held.number;"),),
    "f32_to_f16": (
        (HAS_HALF, "union { _Float16 number; uint16_t bits; } held = { (_Float16)x };\nreturn held.bits;"),
    ),
}

DIALECT = Dialect(
    types=TYPES,
    suffixes=SUFFIXES,
    infinity={float32: "__builtin_inff()", float64: "__builtin_inf()"},
    nan={float32: '__builtin_nanf("")', float64: '__builtin_nan("")'},
    math={float32: "{}f", float64: "{}"},
    prototype="{type} {name}({params});",
    inline="static inline {type} {name}({params})",
    nest="static __attribute__((noinline)) {type} {name}({params})",
    conditional_loads="CONDITIONAL_LOADS ",
    control="struct control *control",
    poll=POLL,
    parallel_for=PARALLEL_FOR,
    read_clock=READ_CLOCK,
    restrict="restrict",
    comment="/* {} */",
    comment_end="*/",
    intrinsics=INTRINSICS,
    vector="typedef {type} {name} __attribute__((vector_size({bytes}), aligned({align})));",
    nontemporal_stores={
        nbytes: NONTEMPORAL_STORE.format(bytes=nbytes, feature=feature, instruction=instruction)
        for nbytes, feature, instruction in ((64, "__AVX512F__", "512"), (32, "__AVX__", "256"), (16, "__SSE__", ""))
    },
    prefetch="__builtin_prefetch(&{cell} + {distance}{locality});",
    fence="__sync_synchronize();",
    convert="__builtin_convertvector({value}, {type})",
    always_inline="static inline __attribute__((always_inline)) {type} {name}({params})",
    stack_block="__attribute__((aligned(64))) {type} {name}[{count}];",
    lane_loop="LANE_LOOP",
    reserved_names=KEYWORDS | frozenset(TYPES.values()) | {"CONDITIONAL_LOADS", "FUSED_FMA", "LANE_LOOP"},
)

HIDDEN_NEST = '__attribute__((noinline, visibility("hidden"))) {type} {name}({params})'
"""The head of a function that other translation units of the same shared object call."""

COMPILERS = """\
/* GCC before 14 may miscompile conditional loads that it vectorizes (bug 114375). */
#if defined __GNUC__ && __GNUC__ < 14 && !defined __clang__
#define CONDITIONAL_LOADS __attribute__((optimize("no-tree-loop-if-convert")))
#else
#define CONDITIONAL_LOADS
#endif

/* Products are fused with additions where the processor has an instruction for it; Clang does not say so. */
#if defined __FP_FAST_FMAF && defined __FP_FAST_FMA || defined __clang__ && (defined __FMA__ || defined __aarch64__)
#define FUSED_FMA
#endif

/* Loops over the lanes of a vector: GCC vectorizes the loop, Clang the unrolled statements. */
#ifdef __clang__
#define LANE_LOOP _Pragma("clang loop unroll(full)")
#else
#define LANE_LOOP _Pragma("GCC unroll 1")
#endif

typedef __UINT8_TYPE__ uint8_t;
typedef __UINT16_TYPE__ uint16_t;
typedef __UINT32_TYPE__ uint32_t;
typedef __UINT64_TYPE__ uint64_t;
typedef __INT8_TYPE__ int8_t;
typedef __INT16_TYPE__ int16_t;
typedef __INT32_TYPE__ int32_t;
typedef __INT64_TYPE__ int64_t;
"""
"""What compilers spell differently."""

PROLOGUE = f"""\
{COMPILERS}
struct control {{  /* the GIL, cancellation, signals, the clock and the thread pool */
  int32_t version, clock_id;
  volatile int32_t *cancel;
  void *(*release)(void);
  void (*acquire)(void *);
  int (*ensure)(void);
  void (*restore)(int);
  int (*signals)(void);
  int (*clock)(int, int64_t[2]);
  int64_t signals_checked_ns;
  struct thread_pool *pool;
  int64_t threads;
  struct control *without_signals;
  char *private_arrays;
  int64_t filled;
}};

struct thread_pool {{
  int32_t version, size;
  int32_t (*parallel_for)(
    struct thread_pool *,
    int32_t (*body)(void *frame, int64_t chunk, int64_t thread),
    void *frame,
    int64_t num_chunks,
    int64_t threads);
}};
"""
