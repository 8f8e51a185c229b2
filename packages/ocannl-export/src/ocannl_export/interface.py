"""The header of a library, and the functions of its interface.

    struct mlp net;                      /* no memory is allocated, and there is no other state */
    mlp_init(&net, 0);
    memcpy(net.x, batch, sizeof net.x);
    mlp_step(&net, 0);
"""

from __future__ import annotations

from collections.abc import Callable

from ocannl.codegen.c_family.dialect import Dialect
from ocannl.codegen.text_sections import printable
from ocannl_export import __version__
from ocannl_export.c_dialects import FLAGS
from ocannl_export.c_text import array_text, c_string, cell_text
from ocannl_export.error_codes import ALIGNMENT_BYTES, CODES, constant
from ocannl_export.initial_values import Drawn, Embedded, Filled, StreamKey, Zeros
from ocannl_export.library import WORKSPACE, ExportedFunction, Field, Library, label_of
from ocannl_export.random_functions import draw_call, random_functions
from ocannl_export.saving import save_and_load
from ocannl_export.templates import fill, names

HEADER = """\
#ifndef @GUARD@
#define @GUARD@

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

@STRUCTURE@

enum @NAME@_code {
@CODES@
};

/* What a code of an error means. */
const char *@NAME@_message(int code);

/* The size of the structure, and the alignment of its address, in bytes. */
size_t @NAME@_size(void);
size_t @NAME@_alignment(void);

/* Sets all arrays to their initial values; @SEED@. Local arrays take at most @STACK@ kB of stack. */
int @NAME@_init(struct @NAME@ *net, uint64_t seed);

@FUNCTIONS@
/* An array by name: its description, or null; copies of its cells. */
struct @NAME@_array {
  const char *name, *type, *kind;  /* kind: parameter, state, input, output, constant */
  int rank;
  const int64_t *dims;
  size_t offset, bytes;  /* in the structure */
};
const struct @NAME@_array *@NAME@_arrays(size_t *count);
const struct @NAME@_array *@NAME@_find(const char *name);
int @NAME@_get(const struct @NAME@ *net, const char *name, void *cells, size_t bytes);
int @NAME@_set(struct @NAME@ *net, const char *name, const void *cells, size_t bytes);
@SAVING@
#ifdef __cplusplus
}
#endif

#endif
"""
SAVING = """
/* The parameters and states as a file of safetensors; `@NAME@_load` changes nothing unless it succeeds. */
size_t @NAME@_saved_size(void);
int @NAME@_save(const struct @NAME@ *net, void *buffer, size_t size);
int @NAME@_load(struct @NAME@ *net, const void *buffer, size_t size);
"""
LOOKUP = """\
const char *@NAME@_message(int code)
{
  static const char *const messages[] = {
@MESSAGES@
  };
  return code >= 0 && code < (int)(sizeof messages / sizeof *messages) ? messages[code] : "an unknown code";
}

size_t @NAME@_size(void)
{
  return sizeof(struct @NAME@);
}

struct alignment_probe {
  char before;
  struct @NAME@ net;
};

size_t @NAME@_alignment(void)
{
  return offsetof(struct alignment_probe, net);
}

static int checked(const struct @NAME@ *net)
{
  if (!net) return @CODE_NULL_POINTER@;
  return (uintptr_t)net % offsetof(struct alignment_probe, net) ? @CODE_MISALIGNED@ : @CODE_OK@;
}

static void copy_bytes(void *target, const void *source, size_t bytes)
{
  unsigned char *y = target;
  const unsigned char *x = source;
  for (size_t n = 0; n < bytes; n++) y[n] = x[n];
}

@DIMS@
static const struct @NAME@_array arrays[] = {
@ARRAYS@
};

const struct @NAME@_array *@NAME@_arrays(size_t *count)
{
  if (count) *count = sizeof arrays / sizeof *arrays;
  return arrays;
}

const struct @NAME@_array *@NAME@_find(const char *name)
{
  for (size_t n = 0; name && n < sizeof arrays / sizeof *arrays; n++) {
    size_t k = 0;
    while (name[k] && name[k] == arrays[n].name[k]) k++;
    if (name[k] == arrays[n].name[k]) return &arrays[n];
  }
  return 0;
}

int @NAME@_get(const struct @NAME@ *net, const char *name, void *cells, size_t bytes)
{
  const struct @NAME@_array *array = @NAME@_find(name);
  if (!net || !name || !cells) return @CODE_NULL_POINTER@;
  if (!array) return @CODE_UNKNOWN_ARRAY@;
  if (bytes != array->bytes) return @CODE_WRONG_SIZE@;
  copy_bytes(cells, (const char *)net + array->offset, bytes);
  return @CODE_OK@;
}

int @NAME@_set(struct @NAME@ *net, const char *name, const void *cells, size_t bytes)
{
  const struct @NAME@_array *array = @NAME@_find(name);
  if (!net || !name || !cells) return @CODE_NULL_POINTER@;
  if (!array) return @CODE_UNKNOWN_ARRAY@;
  if (bytes != array->bytes) return @CODE_WRONG_SIZE@;
  copy_bytes((char *)net + array->offset, cells, bytes);
  return @CODE_OK@;
}
"""

THREAD_MEMBERS = (
    "  /* Calls run(loop, chunk) for each chunk below `chunks`, in any order, on any threads, and returns when all",
    "     calls have; null, as after `init`, for the calling thread alone. */",
    "  void (*parallel_for)(void *pool, void (*run)(void *loop, int64_t chunk), void *loop, int64_t chunks);",
    "  void *pool;  /* the first argument of `parallel_for` */",
)

Call = Callable[[ExportedFunction], str]
"""The statements of C that run the program of a function on `net` and `symbols`, and return its status."""


def header(library: Library, *, is_aligned: bool) -> str:
    """The header. Members are aligned to cache lines if `is_aligned`, which ISO C99 cannot say."""
    is_seeded = any(isinstance(field.initial, Drawn | StreamKey) for field in library.members)
    seed = "random numbers follow the seed" if is_seeded else "the seed is not used"
    texts = {
        "GUARD": constant(library.name, "H"),
        "STRUCTURE": _structure(library, is_aligned),
        "CODES": "\n".join(
            f"  {constant(library.name, code)} = {number},  /* {text} */" for number, (code, text) in enumerate(CODES)
        ),
        "SEED": seed,
        "STACK": f"{-(-library.stack_bytes // 1024)}",
        "FUNCTIONS": "".join(f"{_documented(library, function)}\n" for function in library.functions),
        "SAVING": fill(SAVING, names(library.name)) if library.saved else "",
        **names(library.name),
    }
    return _preamble(library) + fill(HEADER, texts)


def interface(library: Library, dialect: Dialect, call: Call, *, is_aligned: bool) -> str:
    """The functions of the interface. `call` runs a program."""
    members = library.members
    texts = {
        "MESSAGES": "\n".join(f"{_indented(c_string(message.encode()))}," for _, message in CODES),
        "DIMS": "\n".join(
            f"static const int64_t dims_of_{f.name}_[] = {{ {', '.join(map(str, f.dims)) or '0'} }};" for f in members
        ),
        "ARRAYS": "\n".join(_row(field, library.name) for field in members),
        **names(library.name),
    }
    parts = [fill(LOOKUP, texts)]
    parts += [_constant(field, dialect, is_aligned) for field in library.fields if field.offset_bytes is None]
    if library.saved:
        parts.append(save_and_load(library))
    parts += random_functions(dialect, library.fields)
    parts += [_static_array(field, dialect) for field in members if isinstance(field.initial, Embedded)]
    initializing = [] if library.initializing is None else [library.initializing]
    parts += [_function(library, function, call, "static ") for function in initializing]
    parts.append(_init(library, dialect))
    parts += [_function(library, function, call) for function in library.functions]
    return "\n".join(parts)


def signature(library: Library, function: ExportedFunction) -> str:
    """The declaration of a function without its type."""
    symbols = "".join(f", int64_t {s.name}" for s in function.symbols)
    return f"{library.name}_{function.name}(struct {library.name} *net{symbols})"


def _preamble(library: Library) -> str:
    return (
        f"/* {library.name}, generated by ocannl-export {__version__}. Compile the source with\n"
        f"   gcc or clang -O3 -ffp-contract=off -fwrapv -fno-strict-aliasing; all options that results\n"
        f"   depend on are {' '.join(FLAGS)}. */\n"
    )


def _indented(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.splitlines())


def _structure(library: Library, is_aligned: bool) -> str:
    suffix = f" __attribute__((aligned({ALIGNMENT_BYTES})))" if is_aligned else ""
    lines = []
    for field in library.members:
        sizes = "".join(f"[{size if field.cells else 1}]" for size in field.dims)  # C has no empty arrays
        lines.append(f"  {field.c_type} {field.name}{sizes}{suffix};  /* {_comment(field)} */")
    if library.saved:
        lines.append("  uint64_t seed;  /* of `init`, or of the file that was loaded */")
    if library.workspace_bytes:
        cells = -(-library.workspace_bytes // 8)
        lines.append(f"  uint64_t {WORKSPACE}[{cells}]{suffix};  /* of the functions, between calls without meaning */")
    if library.threads:
        lines += THREAD_MEMBERS
    return "\n".join([f"struct {library.name} {{", *lines, "};"])


def _comment(field: Field) -> str:
    name = label_of(field.node, field.entry)
    precision = "" if field.c_type in ("float", "double") else f", {field.node.precision}"
    text = f"{field.kind} {name}{precision}" if name != field.name else f"{field.kind}{precision}"
    return printable(text).replace("*/", "* /").replace("??", "? ?")


def _documented(library: Library, function: ExportedFunction) -> str:
    ranges = ", ".join(f"{s.low} <= {s.name} <= {s.high}" for s in function.symbols)
    comment = f"/* {ranges} */\n" if ranges else ""
    return f"{comment}int {signature(library, function)};\n"


def _row(field: Field, name: str) -> str:
    values = (
        c_string(field.name.encode()).strip(), c_string(str(field.node.precision).encode()).strip(),
        c_string(field.kind.encode()).strip(), len(field.dims), f"dims_of_{field.name}_",
        f"offsetof(struct {name}, {field.name})", field.nbytes,
    )  # fmt: skip
    return f"  {{ {', '.join(map(str, values))} }},"


def _constant(field: Field, dialect: Dialect, is_aligned: bool) -> str:
    assert isinstance(field.initial, Embedded)
    suffix = f" __attribute__((aligned({ALIGNMENT_BYTES})))" if is_aligned else ""
    text = array_text(field.initial.values, field.node.precision, dialect)
    return f"static const {field.c_type} constant_{field.name}_[{field.cells}]{suffix} = {text};\n"


def _static_array(field: Field, dialect: Dialect) -> str:
    assert isinstance(field.initial, Embedded)
    text = array_text(field.initial.values, field.node.precision, dialect)
    return f"static const {field.c_type} initial_{field.name}_[{field.cells}] = {text};\n"


def _init(library: Library, dialect: Dialect) -> str:
    lines = [f"int {library.name}_init(struct {library.name} *net, uint64_t seed)", "{"]
    lines += ["  int code = checked(net);", "  if (code) return code;"]
    end = f"offsetof(struct {library.name}, {WORKSPACE})" if library.workspace_bytes else "sizeof *net"
    lines.append(f"  for (size_t n = 0; n < {end}; n++) ((unsigned char *)net)[n] = 0;")
    lines.append("  net->seed = seed;" if library.saved else "  (void)seed;")
    if library.threads:
        lines += ["  net->parallel_for = 0;", "  net->pool = 0;"]
    for field in library.members:
        address = f"({field.c_type} *){'&' if not field.dims else ''}net->{field.name}"
        match field.initial:
            case Zeros():
                pass
            case Filled(value):
                text = cell_text(value, field.node.precision, dialect)
                lines.append(f"  for (size_t n = 0; n < {field.cells}; n++) ({address})[n] = {text};")
            case Embedded():
                lines.append(f"  copy_bytes({address}, initial_{field.name}_, {field.nbytes});")
            case Drawn() as drawn:
                lines += [f"  {line}" for line in draw_call(dialect, field, drawn, address)]
            case StreamKey(key, ordinal):
                parts = ("(uint32_t)seed", "(uint32_t)(seed >> 32)", f"{key[0]}u", f"{key[1]}u", f"{ordinal}u")
                lines += [f"  ({address})[{n}] = {word};" for n, word in enumerate(parts)]
    if library.initializing is None:
        lines.append(f"  return {constant(library.name, 'OK')};")
    else:
        lines.append(f"  return {library.name}_{library.initializing.name}(net);")
    return "\n".join([*lines, "}", ""])


def _function(library: Library, function: ExportedFunction, call: Call, linkage: str = "") -> str:
    lines = [f"{linkage}int {signature(library, function)}", "{", "  int code = checked(net);"]
    lines.append("  if (code) return code;")
    if function.symbols:
        tests = " || ".join(f"{s.name} < {s.low} || {s.name} > {s.high}" for s in function.symbols)
        lines.append(f"  if ({tests}) return {constant(library.name, 'OUT_OF_RANGE')};")
    symbols = ", ".join(s.name for s in function.symbols) or "0"
    lines.append(f"  const int64_t symbols[] = {{ {symbols} }};")
    lines += [f"  {line}" for line in call(function).splitlines()]
    return "\n".join([*lines, "}", ""])
