"""The dialects of exported C: vectors of GCC and Clang, or ISO C99 without extensions."""

from __future__ import annotations

from dataclasses import replace

from ocannl.codegen.c_family.dialect import Definition
from ocannl.ir.name_mangling import identifier
from ocannl.ir.precision import float32, float64
from ocannl_backend_c.dialect import COMPILERS, DIALECT
from ocannl_backend_c.emit import TranslationUnit
from ocannl_export.reserved_names import C_NAMES

FLAGS = ("-fwrapv", "-fno-strict-aliasing", "-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math")
"""Options of gcc and clang that the semantics of programs need: integers wrap around, arrays of different types share
memory, and only explicit `fma` is fused."""

CONTROL = """\
struct control {  /* of a call: the caller's threads */
  void (*parallel_for)(void *pool, void (*run)(void *loop, int64_t chunk), void *loop, int64_t chunks);
  void *pool;
  struct control *without_signals;
};
"""

VECTORS = """\
/* Vectors may be wider than the registers of the processor: functions with such arguments are inlined. */
#pragma GCC diagnostic ignored "-Wpsabi"
"""

GNU_PROLOGUE = f"{VECTORS}{COMPILERS}\n{CONTROL}"

ISO_PROLOGUE = f"#include <math.h>\n\n{CONTROL}"
"""Included by ISO C after the header of the library, which includes the integer types."""

NEVER_CANCELLED = Definition("poll", "static int poll(struct control *control)\n{\n  (void)control;\n  return 0;\n}")

PARALLEL_FOR = Definition(
    "parallel_for",
    """\
struct parallel_loop {
  int (*body)(void *frame, int64_t chunk, int64_t thread);
  void *frame;
};

static void run_chunk(void *loop, int64_t chunk)
{
  struct parallel_loop *running = loop;
  running->body(running->frame, chunk, 0);
}

static int parallel_for(
    struct control *control, int (*body)(void *frame, int64_t chunk, int64_t thread), void *frame, int64_t num_chunks)
{
  struct parallel_loop loop = { body, frame };
  if (control->parallel_for) control->parallel_for(control->pool, run_chunk, &loop, num_chunks);
  else
    for (int64_t chunk = 0; chunk < num_chunks; chunk++) run_chunk(&loop, chunk);
  return 0;
}""",
)

GNU_C = replace(DIALECT, reserved_names=C_NAMES, poll=NEVER_CANCELLED, parallel_for=PARALLEL_FOR)

ISO_C = replace(
    GNU_C,
    infinity={float32: "INFINITY", float64: "((double)INFINITY)"},
    nan={float32: "NAN", float64: "((double)NAN)"},
    prototype="",
    inline="static inline {type} {name}({params})",
    nest="static {type} {name}({params})",
    conditional_loads="",
    intrinsics={},
    vector="",
    convert="",
    always_inline="",
    nontemporal_stores={},
    prefetch="",
    fence="",
    lane_loop="",
    stack_block="double {name}_[({count} + 7) / 8];\n  char *{name} = (char *){name}_;",  # no name ends with `_`
)

# No identifier ends with `_`, so the names of entry functions are not those of the interface.
GNU_UNIT = TranslationUnit(GNU_C, GNU_PROLOGUE, "static ", "run_{}_", has_python=False)
ISO_UNIT = TranslationUnit(ISO_C, ISO_PROLOGUE, "static ", "run_{}_", has_python=False)


def hidden_unit(level: str) -> TranslationUnit:
    """The form of programs that another file of the same library calls."""
    linkage = '__attribute__((visibility("hidden"))) '
    return TranslationUnit(GNU_C, GNU_PROLOGUE, linkage, f"run_{identifier(level)}_{{}}_", has_python=False)
