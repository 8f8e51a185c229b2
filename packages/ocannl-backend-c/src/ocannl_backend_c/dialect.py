"""C99 as GCC and Clang understand it, without a single header: no macro can meet a name of the user's."""

from __future__ import annotations

from ocannl.codegen.cstyle import Dialect, Function
from ocannl.ir.precision import (
    bfloat16,
    bool_,
    float8_e4m3fn,
    float8_e5m2,
    float16,
    float32,
    float64,
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
    bool_: "", uint8: "", uint16: "", uint32: "u", uint64: "ull", int32: "", int64: "ll", float32: "f", float64: "",
}  # fmt: skip

KEYWORDS = frozenset((
    "auto", "break", "case", "char", "const", "continue", "default", "do", "double", "else", "enum", "extern",
    "float", "for", "goto", "if", "inline", "int", "long", "register", "restrict", "return", "short", "signed",
    "sizeof", "static", "struct", "switch", "typedef", "union", "unsigned", "void", "volatile", "while", "asm",
    "typeof", "main",
))  # fmt: skip


POLL = Function("poll", """\
static __attribute__((noinline)) int poll(struct control *control)
{
  if (control->cancel) return 1;
  if (!control->signals) return 0;
  int state = control->ensure(), raised = control->signals();
  control->restore(state);
  return raised;
}""")
HALF = "defined __FLT16_MAX__ && (defined __F16C__ || defined __aarch64__)"

DIALECT = Dialect(
    types=TYPES,
    suffixes=SUFFIXES,
    infinity={float32: "__builtin_inff()", float64: "__builtin_inf()"},
    nan={float32: '__builtin_nanf("")', float64: '__builtin_nan("")'},
    math={float32: "{}f", float64: "{}"},
    prototype="{type} {name}({params});",
    inline="static inline {type} {name}({params})",
    nest="static __attribute__((noinline)) {type} {name}({params})",
    choosing="CHOOSING ",
    control="struct control *control",
    poll=POLL,
    restrict="restrict",
    comment="/* {} */",
    ends_comment="*/",
    fast={
        "fma_f32": ("defined __FP_FAST_FMAF", "return __builtin_fmaf(x, y, z);"),
        "fma_f64": ("defined __FP_FAST_FMA", "return __builtin_fma(x, y, z);"),
        "f16_to_f32": (HALF, "union { uint16_t bits; _Float16 number; } held = { x };\nreturn held.number;"),
        "f32_to_f16": (HALF, "union { _Float16 number; uint16_t bits; } held = { (_Float16)x };\nreturn held.bits;"),
    },
    words=KEYWORDS | frozenset(TYPES.values()) | {"CHOOSING"},
)

PROLOGUE = """\
/* GCC before 14 may take the wrong cells where it vectorizes loads under a condition: its bug 114375. */
#if defined __GNUC__ && __GNUC__ < 14 && !defined __clang__
#define CHOOSING __attribute__((optimize("no-tree-loop-if-convert")))
#else
#define CHOOSING
#endif

typedef __UINT8_TYPE__ uint8_t;
typedef __UINT16_TYPE__ uint16_t;
typedef __UINT32_TYPE__ uint32_t;
typedef __UINT64_TYPE__ uint64_t;
typedef __INT32_TYPE__ int32_t;
typedef __INT64_TYPE__ int64_t;

struct control {  /* how a program lets other threads run Python, and hears that it is to leave */
  volatile int32_t cancel;
  int32_t version;
  void *(*release)(void);
  void (*acquire)(void *);
  int (*ensure)(void);
  void (*restore)(int);
  int (*signals)(void);
};
"""
