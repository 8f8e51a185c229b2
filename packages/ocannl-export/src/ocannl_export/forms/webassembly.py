"""WebAssembly with vectors of 128 bits, and a module of JavaScript that runs it in browsers, node and deno.

An instance of the module holds one structure; its functions have no other state, and import nothing but mathematical
functions of float64.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from ocannl.base.errors import CompileError
from ocannl_export import compilers
from ocannl_export.c_dialects import GNU_UNIT
from ocannl_export.errors import ExportError
from ocannl_export.forms.c_source import c_files
from ocannl_export.library import ExportedFunction, Field, Library
from ocannl_export.request import Files, Request
from ocannl_export.targets import TARGETS
from ocannl_export.templates import fill, names

STACK_BYTES = 1 << 20
"""For calls, besides local arrays."""
INSTANCE = """
static struct @NAME@ instance;

struct @NAME@ *@NAME@_instance(void)
{
  return &instance;
}
"""
OPTIONS = (
    "-fhosted",  # `sqrt` and others are instructions
    "-nostdlib", "-Wl,--no-entry", "-Wl,--strip-all", "-Wl,--gc-sections",
)
IMPORTS = {
    **{
        f"{name}{suffix}": f"Math.{name}"
        for name in ("exp", "log", "log2", "sin", "cos", "tanh", "pow", "atan", "atan2")
        for suffix in ("", "f")
    },
    **{f"exp2{suffix}": "(x) => 2 ** x" for suffix in ("", "f")},
    **{f"fmod{suffix}": "(x, y) => x % y" for suffix in ("", "f")},
}
"""Functions that WebAssembly lacks, as JavaScript has them, for programs with such operations in float64."""
BINARY = frozenset({"pow", "atan2", "fmod"})
"""Those with two parameters, besides which all have one."""
ARRAY_TYPES = {
    "bool": "Uint8Array", "uint8": "Uint8Array", "uint16": "Uint16Array", "uint32": "Uint32Array",
    "uint64": "BigUint64Array", "int8": "Int8Array", "int16": "Int16Array", "int32": "Int32Array",
    "int64": "BigInt64Array", "float32": "Float32Array", "float64": "Float64Array", "float16": "Uint16Array",
    "bfloat16": "Uint16Array", "float8_e5m2": "Uint8Array", "float8_e4m3fn": "Uint8Array",
}  # fmt: skip
"""Views of arrays by type; types that JavaScript lacks are given as their bits."""

MODULE = """\
// @NAME@: a program compiled by ocannl-export. `load` takes the bytes of @NAME@.wasm, or a response of `fetch`.
//   const net = await load(fetch("@NAME@.wasm"));
//   net.arrays.@INPUT@.set(values);
//   net.@CALL@;
const MEMBERS = @TABLE@;
const IMPORTS = { env: @IMPORTED@ };

export async function load(source, seed = 0n) {
  const given = await source;
  const bytes = given instanceof Response ? await given.arrayBuffer() : given;
  const { instance } = await WebAssembly.instantiate(bytes, IMPORTS);
  const net = new Net(instance.exports);
  net.init(seed);
  return net;
}

export class Net {
  constructor(library) {
    this.library = library;
    this.address = library.@NAME@_instance();
    this.arrays = {};
    this.shapes = {};
    for (const [name, [kind, shape, size, offset]] of Object.entries(MEMBERS)) {
      this.arrays[name] = new globalThis[kind](library.memory.buffer, this.address + offset, size);
      this.shapes[name] = shape;
    }
  }

  check(code) {
    if (code) throw new RangeError(this.text(this.library.@NAME@_message(code)));
  }

  text(address) {
    const bytes = new Uint8Array(this.library.memory.buffer, address);
    return new TextDecoder().decode(bytes.slice(0, bytes.indexOf(0)));
  }

  init(seed = 0n) {
    this.check(this.library.@NAME@_init(this.address, BigInt(seed)));
  }
@FUNCTIONS@@SAVING@}
"""
SAVING = """
  save() {
    const size = this.library.@NAME@_saved_size();
    return this.room(size, (address, bytes) => {
      this.check(this.library.@NAME@_save(this.address, address, size));
      return bytes.slice();
    });
  }

  load(data) {
    this.room(data.length, (address, bytes) => {
      bytes.set(data);
      this.check(this.library.@NAME@_load(this.address, address, data.length));
    });
  }

  room(size, use) { // memory behind that of the program; the views of arrays are made anew when it grows
    const { memory, __heap_base } = this.library;
    const missing = __heap_base.value + size - memory.buffer.byteLength;
    if (missing > 0) {
      memory.grow(Math.ceil(missing / 65536));
      Object.assign(this, new Net(this.library));
    }
    return use(__heap_base.value, new Uint8Array(memory.buffer, __heap_base.value, size));
  }
"""
TYPES = """\
export declare function load(
  source: BufferSource | Response | Promise<BufferSource | Response>, seed?: bigint | number): Promise<Net>;

export declare class Net {
  arrays: {
@ARRAYS@
  };
  shapes: { [name in keyof Net["arrays"]]: number[] };
  init(seed?: bigint | number): void;
@FUNCTIONS@@SAVING@}
"""
TYPES_OF_SAVING = """\
  save(): Uint8Array;
  load(data: Uint8Array): void;
"""


def webassembly(request: Request) -> Files:
    """The module, its interface in JavaScript, and the types of that."""
    library = request.library([TARGETS["wasm32"]])
    name, (code, imported) = library.name, binary(library)
    return {f"{name}.wasm": code, f"{name}.js": module(library, imported), f"{name}.d.ts": _types(library)}


def binary(library: Library) -> tuple[bytes, Sequence[str]]:
    """The code of the module, and the functions that it imports.

    Raises: ExportError without a compiler for it, or for functions that JavaScript lacks.
    """
    target, name = TARGETS["wasm32"], library.name
    compiler = compilers.cross_compiler("wasm")
    files = dict(c_files(library, target, GNU_UNIT))
    source = files[f"{name}.c"]
    assert isinstance(source, str)
    source += fill(INSTANCE, names(name))
    files[f"{name}.c"] = source
    functions = ["instance", "message", "init", *(function.name for function in library.functions)]
    functions += ["save", "load", "saved_size"] if library.saved else []
    exported = [f"-Wl,--export={name}_{function}" for function in functions]
    command = [*compiler.command, *compiler.options(), *compilers.cross_options(target), *OPTIONS, *exported]
    stack = STACK_BYTES + -(-library.stack_bytes // 16) * 16
    command += [f"-Wl,-z,stack-size={stack}", "-Wl,--export=__heap_base", "-o", "code.wasm", f"{name}.c"]
    try:
        return compilers.run(command, files, "code.wasm"), ()
    except CompileError as error:
        undefined = sorted(set(re.findall(r"undefined symbol: (\w+)", str(error))))
        if not undefined:
            raise
    missing = [function for function in undefined if function not in IMPORTS]
    if missing:
        raise ExportError(f"the program calls {', '.join(missing)}, which neither WebAssembly nor JavaScript has")
    files[f"{name}.c"] = "".join(map(_import_declaration, undefined)) + source
    renamed = [f"-D{function}=imported_{function}" for function in undefined]
    return compilers.run([*command, *renamed], files, "code.wasm"), undefined


def _import_declaration(function: str) -> str:
    """The declaration of a function that the module imports, under a name that the compiler has no meaning for."""
    type_ = "float" if function.endswith("f") else "double"
    params = ", ".join([type_] * (2 if function.removesuffix("f") in BINARY else 1))
    attributes = f'__attribute__((import_module("env"), import_name("{function}")))'
    return f"{type_} imported_{function}({params}) {attributes};\n"


def module(library: Library, imported: Sequence[str]) -> str:
    """The module of JavaScript, for code that imports these functions."""
    inputs = [field.name for field in library.members if field.kind == "input"]
    functions = [_method(library.name, function) for function in library.functions]
    first = library.functions[0]
    texts = {
        "TABLE": "{\n" + "".join(map(_member, library.members)) + "}", "FUNCTIONS": "".join(functions),
        "SAVING": fill(SAVING, names(library.name)) if library.saved else "",
        "INPUT": inputs[0] if inputs else library.members[0].name,
        "CALL": f"{first.name}({', '.join(str(s.low) for s in first.symbols)})",
        "IMPORTED": f"{{ {', '.join(f'{name}: {IMPORTS[name]}' for name in imported)} }}",
        **names(library.name),
    }  # fmt: skip
    return fill(MODULE, texts)


def _member(field: Field) -> str:
    kind = ARRAY_TYPES[field.node.precision.name]
    return f"  {field.name}: {json.dumps([kind, list(field.dims), field.cells, field.offset_bytes])},\n"


def _method(name: str, function: ExportedFunction) -> str:
    symbols = [s.name for s in function.symbols]
    arguments = "".join(f", BigInt({symbol})" for symbol in symbols)
    call = f"this.check(this.library.{name}_{function.name}(this.address{arguments}));"
    return f"\n  {function.name}({', '.join(symbols)}) {{\n    {call}\n  }}\n"


def _types(library: Library) -> str:
    arrays = "\n".join(f"    {f.name}: {ARRAY_TYPES[f.node.precision.name]};" for f in library.members)
    functions = "".join(
        f"  {f.name}({', '.join(f'{s.name}: number' for s in f.symbols)}): void;\n" for f in library.functions
    )
    saving = TYPES_OF_SAVING if library.saved else ""
    return fill(TYPES, {"ARRAYS": arrays, "FUNCTIONS": functions, "SAVING": saving})
