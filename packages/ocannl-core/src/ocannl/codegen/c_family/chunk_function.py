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
from ocannl.ir.private_scope import MAX_PRIVATE_BYTES, private_offsets

MAX_LINE_LENGTH = 100  # longer function heads are wrapped
CONTROL, FRAME, CHUNK = "control", "frame", "chunk"  # names of parameters and suffixes of functions
TAKEN = "taken"  # the field of a frame with the number of chunks that threads with private arrays have taken
PRIVATE = "private_arrays"  # the memory of a thread for private arrays
COUNTER_WORDS = 16  # of an array with this number: nothing else is in lines that move between cores


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
            fields.append(f"{self.dialect.index} *{TAKEN}")
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
        if self.nest.private_bufs:
            self.print_claims(values)
        else:
            self.print_bounds("return 1;")
            call = self.call(values)
            for text in [f"return {call};"] if self.nest.is_cancellable else [f"{call};", "return 0;"]:
                self.line(text)
        self.doc.line("}")

    def print_bounds(self, leave: str, depth: int = 1) -> None:
        """Prints the poll before a chunk, and the bounds of its iterations."""
        loop, index = self.loop, self.dialect.index
        is_polled = f"{CHUNK} % {loop.poll_interval} == {loop.poll_interval - 1} && " if loop.poll_interval > 1 else ""
        self.line(f"if ({is_polled}{self.dialect.poll.name}({CONTROL})) {leave}", depth)
        scale = f" * {loop.chunk_size}" if loop.chunk_size > 1 else ""
        offset = f" + {loop.first}" if loop.first else ""
        self.line(f"{index} first = {CHUNK}{scale}{offset}, limit = first + {loop.chunk_size};", depth)
        self.line(f"if (limit > {loop.limit}) limit = {loop.limit};", depth)

    def call(self, values: Mapping[Buf | Sym, str]) -> str:
        """The call of the function of the nest for a chunk; `values` are its arguments."""
        args = [*(values[x] for x in self.nest.params), "first", "limit"]
        return f"{self.name}({', '.join([*args, CONTROL] if self.nest.is_cancellable else args)})"

    def print_claims(self, values: dict[Buf | Sym, str]) -> None:
        """Prints the calls that fill private arrays, and the loop that executes chunks until none is left."""
        private_bufs, num_chunks = self.nest.private_bufs, self.loop.num_chunks
        claim = f"{self.prelude.use(self.dialect.claim)}({FRAME}->{TAKEN}, {num_chunks}, thread)"
        self.line(f"{CHUNK} = {claim};")
        self.line(f"if ({CHUNK} < 0) return 0;")
        copies = [self.functions[copy] for copy in self.nest.private_copies]
        names = Namer(self.reserved_names | {self.name, *copies, "arg", "thread", "first", "limit", PRIVATE})
        self.line(f"char *{PRIVATE} = {FRAME}->{CONTROL}->private_arrays + thread * {MAX_PRIVATE_BYTES};")
        for buf, offset in zip(private_bufs, private_offsets(private_bufs), strict=False):
            values[buf], type_ = names(buf.name), self.dialect.types[buf.precision]
            self.line(f"{type_} *{values[buf]} = ({type_} *)({PRIVATE} + {offset});")
        for copy, function in zip(self.nest.private_copies, copies, strict=True):
            self.line(f"{function}({', '.join(values[x] for x in copy.free_variables)});")
        self.line(f"for (; {CHUNK} >= 0; {CHUNK} = {claim}) {{")
        self.print_bounds("break;", depth=2)
        call = self.call(values)
        self.line(f"if ({call}) break;" if self.nest.is_cancellable else f"{call};", depth=2)
        self.line("}")
        self.line(f"if ({CHUNK} < 0) return 0;")
        self.line(f"{self.prelude.use(self.dialect.stop_claims)}({FRAME}->{TAKEN}, {num_chunks});")
        self.line("return 1;")


def parallel_call(
    dialect: Dialect, nest: Nest, function: str, args: Sequence[str], names: Namer, prefix: str = ""
) -> tuple[list[str], str]:
    """The lines that declare the frame of a parallel nest, whose name begins with `prefix`, and the arguments of the
    call that executes it. A function with private arrays is called once per thread, and claims chunks itself."""
    assert nest.parallel_loop is not None
    lines, values, calls = [], [*args, CONTROL], str(nest.parallel_loop.num_chunks)
    if nest.private_bufs:
        taken = names(f"{prefix}{TAKEN}")
        lines.append(dialect.stack_block.format(type=dialect.index, name=taken, count=COUNTER_WORDS))
        lines.append(f"{taken}[0] = 0;")
        values.append(taken)
        calls = f"{CONTROL}->threads < {calls} ? {CONTROL}->threads : {calls}"
    frame = names(f"{prefix}{FRAME}")
    lines.append(f"struct {function}_{FRAME} {frame} = {{ {', '.join(values)} }};")
    return lines, f"{CONTROL}, {function}_{CHUNK}, &{frame}, {calls}"


def function_head(form: str, type_: str, name: str, params: list[str]) -> str:
    """The head of a function, with one parameter per line if it is too long for one line."""
    head = form.format(type=type_, name=name, params=", ".join(params) or "void")
    wrapped = "\n    " + ",\n    ".join(params)
    return head if len(head) <= MAX_LINE_LENGTH else form.format(type=type_, name=name, params=wrapped)
