"""Names with a meaning in the languages of the interface, or in the generated code."""

from __future__ import annotations

import keyword
from collections.abc import Iterable

from ocannl.codegen.c_family.function import reserved
from ocannl_backend_c.dialect import DIALECT
from ocannl_export.error_codes import CODES, constant

CPP = frozenset((
    "alignas", "alignof", "and", "and_eq", "bitand", "bitor", "bool", "catch", "char16_t", "char32_t",
    "char8_t", "class", "co_await", "co_return", "co_yield", "compl", "concept", "const_cast", "consteval",
    "constexpr", "constinit", "decltype", "delete", "dynamic_cast", "explicit", "export", "false", "friend",
    "mutable", "namespace", "new", "noexcept", "not", "not_eq", "nullptr", "operator", "or", "or_eq", "private",
    "protected", "public", "reinterpret_cast", "requires", "static_assert", "static_cast", "template", "this",
    "thread_local", "throw", "true", "try", "typeid", "typename", "using", "virtual", "wchar_t", "xor",
    "xor_eq",
))  # fmt: skip
"""Keywords of C++ that C lacks, and keywords of C23."""

INTEGER_TYPES = (
    *(f"{kind}{bits}" for kind in ("INT", "INT_LEAST", "INT_FAST") for bits in (8, 16, 32, 64)), "INTPTR", "INTMAX",
)  # fmt: skip
MACROS = frozenset((
    *("linux", "unix", "i386", "arm", "mips", "sun", "NULL", "errno", "stdin", "stdout", "stderr", "EOF", "BUFSIZ"),
    *("INFINITY", "NAN", "HUGE_VAL", "HUGE_VALF", "HUGE_VALL", "MATH_ERRNO", "MATH_ERREXCEPT", "math_errhandling"),
    *(f"FP_{kind}" for kind in ("NAN", "INFINITE", "ZERO", "SUBNORMAL", "NORMAL", "ILOGB0", "ILOGBNAN")),
    *(f"{sign}{name}_MAX" for name in INTEGER_TYPES for sign in ("", "U")),
    *(f"{name}_MIN" for name in INTEGER_TYPES),
    *(f"{name}_{end}" for name in ("PTRDIFF", "SIG_ATOMIC", "WCHAR", "WINT") for end in ("MIN", "MAX")), "SIZE_MAX",
))  # fmt: skip
"""Macros without arguments: of compilers, of the headers of the library, and of those that its users include first."""

JAVASCRIPT = frozenset((
    "arguments", "await", "debugger", "eval", "extends", "finally", "function", "implements", "import", "in",
    "instanceof", "interface", "let", "null", "package", "super", "undefined", "var", "with", "yield",
))  # fmt: skip
PYTHON = frozenset(keyword.kwlist)

C_NAMES = reserved(DIALECT) | CPP | MACROS
"""Names that C sources, and headers in C++, must not define."""

KEYWORDS = C_NAMES | JAVASCRIPT | PYTHON

GENERATED_TYPES = frozenset({"control", "parallel_loop", "sha256", "saved_array", "alignment_probe"})
"""Structures of the generated code."""

GENERATED_FUNCTIONS = frozenset((
    "checked", "copy_bytes", "add_data", "begins_with", "read_number", "find_data", "find_seed",
    "sha256_block", "sha256_start", "sha256_add", "sha256_finish", "run_chunk",
    "random_word", "random_unit_float", "random_unit_double", "natural_logarithm", "cosine_of_turns", "normal_number",
    *(f"draw_{kind}_{precision}" for kind in ("uniform", "normal") for precision in (
        "float64", "float32", "float16", "bfloat16", "float8_e5m2", "float8_e4m3fn")),
))  # fmt: skip
"""Functions of the generated code with static linkage, but for those of programs."""

METHODS = frozenset((
    "size", "alignment", "init", "save", "load", "saved_size", "message", "arrays", "find", "get", "set",
    "array", "code", "instance", "check", "text", "room", "library", "address", "shapes", "constructor",
))  # fmt: skip
"""Names of the interface: functions of C, and members of the class `Net` of JavaScript and Python."""

PARAMETERS = frozenset({"net", "code", "control", "symbols", "addresses", "checked", "self", "ctypes", "BigInt"})
"""Names that functions of the interface use."""


def routine_names(library: str) -> Iterable[str]:
    """The names that routines of a library must not have."""
    prefix = f"{library}_"
    taken = C_NAMES | GENERATED_FUNCTIONS | {constant(library, name) for name in ("H", *(code for code, _ in CODES))}
    return METHODS | KEYWORDS | {name.removeprefix(prefix) for name in taken if name.startswith(prefix)}
