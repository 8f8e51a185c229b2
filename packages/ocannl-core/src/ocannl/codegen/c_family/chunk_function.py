"""Prints the function that executes chunks of a parallel nest, and what its callers pass.

    struct dense_1_frame {              /* the arguments of the nest */
      const float *x;
      float *y;
      struct control *control;
    };

    static int dense_1_chunk(void *arg, int64_t chunk, int64_t thread)
    {
      struct dense_1_frame *frame = arg;
      ...
      dense_1(frame->x, frame->y, first, limit);
      return 0;
    }
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ocannl.codegen.c_family.dialect import Dialect, Prelude
from ocannl.codegen.outlining import Nest, ParallelLoop
from ocannl.codegen.text_sections import Document
from ocannl.ir.affine import Sym
from ocannl.ir.loops import Buf
from ocannl.ir.name_mangling import Namer
from ocannl.ir.private_scope import THREAD_BYTES, private_offsets

MAX_LINE_LENGTH = 100  # longer function heads are wrapped
CONTROL, FRAME, CHUNK = "control", "frame", "chunk"  # names of parameters and suffixes of functions
FILLED = "filled"  # the field of a frame with the number of times that threads have had to fill private arrays


@dataclass(frozen=True, slots=True)
class ChunkFunction:
    """The function that threads call for chunks of a parallel nest; `fields` are the declaration and the name of each
    argument of the nest."""

    dialect: Dialect
    prelude: Prelude
    doc: Document
    nest: Nest
    functions: Mapping[Nest, str]
    fields: Mapping[Buf | Sym, tuple[str, str]]
    reserved_names: frozenset[str]

    @property
    def name(self) -> str:
        """The name of the function of the nest."""
        return self.functions[self.nest]

    @property
    def loop(self) -> ParallelLoop:
        assert self.nest.parallel_loop is not None
        return self.nest.parallel_loop

    def line(self, text: str, depth: int = 1) -> None:
        self.doc.line(f"{self.dialect.indent * depth}{text}")

    def declaration(self) -> list[str]:
        return [*self.frame_lines(), f"{self.head()};"]

    def frame_lines(self) -> list[str]:
        """The structure of the nest's arguments."""
        fields = [declaration.replace(f"{self.dialect.restrict} ", "") for declaration, _ in self.fields.values()]
        fields.append(self.dialect.control)
        if self.nest.private_bufs:
            fields.append(f"{self.dialect.index} {FILLED}")
        return [f"struct {self.name}_{FRAME} {{", *(f"{self.dialect.indent}{field};" for field in fields), "};"]

    def head(self) -> str:
        params = ["void *arg", f"{self.dialect.index} {CHUNK}", f"{self.dialect.index} thread"]
        return function_head(self.dialect.nest, "int", f"{self.name}_{CHUNK}", params)

    def print(self) -> None:
        """Prints the structure of the nest's arguments, and the function."""
        for text in (*self.frame_lines(), "", self.head(), "{"):
            self.doc.line(text)
        self.line(f"struct {self.name}_{FRAME} *{FRAME} = arg;")
        self.line(f"{self.dialect.control} = thread ? {FRAME}->{CONTROL}->without_signals : {FRAME}->{CONTROL};")
        values = {variable: f"{FRAME}->{name}" for variable, (_, name) in self.fields.items()}
        loop, index = self.loop, self.dialect.index
        is_polled = f"{CHUNK} % {loop.poll_interval} == {loop.poll_interval - 1} && " if loop.poll_interval > 1 else ""
        self.line(f"if ({is_polled}{self.dialect.poll.name}({CONTROL})) return 1;")
        if self.nest.private_bufs:
            values |= self.fill_private_arrays(values)
        scale = f" * {loop.chunk_size}" if loop.chunk_size > 1 else ""
        offset = f" + {loop.first}" if loop.first else ""
        self.line(f"{index} first = {CHUNK}{scale}{offset}, limit = first + {loop.chunk_size};")
        self.line(f"if (limit > {loop.limit}) limit = {loop.limit};")
        args = [*(values[x] for x in self.nest.params), "first", "limit"]
        if self.nest.is_cancellable:
            self.line(f"return {self.name}({', '.join([*args, CONTROL])});")
        else:
            self.line(f"{self.name}({', '.join(args)});")
            self.line("return 0;")
        self.doc.line("}")

    def fill_private_arrays(self, values: Mapping[Buf | Sym, str]) -> dict[Buf | Sym, str]:
        """Fills the private arrays of the thread, unless it has filled them in this loop; returns their names."""
        nest, index = self.nest, self.dialect.index
        copies = [self.functions[copy] for copy in nest.private_copies]
        names = Namer(self.reserved_names | {self.name, *copies, "arg", "thread", "first", "limit", "memory"})
        self.line(f"char *memory = {FRAME}->{CONTROL}->private_arrays + thread * {THREAD_BYTES};")
        arrays: dict[Buf | Sym, str] = {}
        for buf, offset in zip(nest.private_bufs, private_offsets(nest.private_bufs), strict=True):
            type_, arrays[buf] = self.dialect.types[buf.precision], names(buf.name)
            self.line(f"{type_} *{arrays[buf]} = ({type_} *)(memory + {offset});")
        filled = f"*({index} *)memory"
        self.line(f"if ({filled} != {FRAME}->{FILLED}) {{")
        for copy, function in zip(nest.private_copies, copies, strict=True):
            args = [arrays[x] if x in arrays else values[x] for x in copy.free_variables]
            self.line(f"{function}({', '.join(args)});", depth=2)
        self.line(f"{filled} = {FRAME}->{FILLED};", depth=2)
        self.line("}")
        return arrays


def frame_values(nest: Nest, args: Sequence[str]) -> str:
    """The initializer of the frame of a parallel nest: its arguments, the control structure, and, if it has private
    arrays, the number of times that threads have had to fill such arrays."""
    values = [*args, CONTROL, *([f"++{CONTROL}->{FILLED}"] if nest.private_bufs else [])]
    return f"{{ {', '.join(values)} }}"


def function_head(form: str, type_: str, name: str, params: list[str]) -> str:
    """The head of a function, with one parameter per line if it is too long for one line."""
    head = form.format(type=type_, name=name, params=", ".join(params) or "void")
    wrapped = "\n    " + ",\n    ".join(params)
    return head if len(head) <= MAX_LINE_LENGTH else form.format(type=type_, name=name, params=wrapped)
