"""Description of what is exported: arrays as members of one structure, and functions that run on it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from ocannl.base.errors import ArgumentError, CodeError
from ocannl.checkpoint.entries import RANDOM, Entry, listed_entries
from ocannl.ir.affine import Sym
from ocannl.ir.assign import nodes
from ocannl.ir.cpu import COMMON_CPU, Cpu
from ocannl.ir.loops import Proc
from ocannl.ir.name_mangling import Namer, identifier
from ocannl.ir.stack_size import stack_bytes
from ocannl.ir.tnode import Role, TNode
from ocannl.lang.core import graph
from ocannl.lang.core.random import numbered
from ocannl.runtime.compile import Job
from ocannl.runtime.context import Context, elaborate, node_of
from ocannl.runtime.routine import Routine
from ocannl.runtime.routine_parts import compile_routines
from ocannl_backend_c.dialect import DIALECT
from ocannl_export.error_codes import ALIGNMENT_BYTES
from ocannl_export.errors import ExportError
from ocannl_export.initial_values import Embedded, Initial, InitialValues, StreamKey, Zeros
from ocannl_export.programs import arguments, program_for
from ocannl_export.reserved_names import C_NAMES, GENERATED_TYPES, KEYWORDS, PARAMETERS, routine_names
from ocannl_export.targets import InstructionSet

WORKSPACE = "workspace"
SEED = "seed"
SEED_BYTES = 8
THREAD_MEMBERS = frozenset({"parallel_for", "pool"})
"""Members for the caller's threads."""

KINDS = {
    Role.PARAMETER: "parameter", Role.STATE: "state", Role.PLACEHOLDER: "input", Role.DATA: "constant",
    Role.RESULT: "output", Role.GRADIENT: "output",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Field:
    """An array. A member of the structure has an offset in bytes; a constant has none, and is part of the code.

    `entry` is its place in checkpoints, if it is saved."""

    name: str
    node: TNode
    kind: str
    initial: Initial
    entry: Entry | None = None
    offset_bytes: int | None = None

    @property
    def dims(self) -> tuple[int, ...]:
        return self.node.dims

    @property
    def cells(self) -> int:
        cells = 1
        for size in self.node.dims:
            cells *= size
        return cells

    @property
    def member_bytes(self) -> int:
        """The size of the member of the structure; an array without cells occupies one, since C has no empty arrays."""
        return max(self.nbytes, self.node.precision.nbytes)

    @property
    def nbytes(self) -> int:
        return self.cells * self.node.precision.nbytes

    @property
    def c_type(self) -> str:
        return DIALECT.types[self.node.precision]


@dataclass(frozen=True, slots=True)
class SymbolBounds:
    """A parameter of a function, with its bounds."""

    name: str
    low: int
    high: int


@dataclass(frozen=True, slots=True)
class ExportedFunction:
    """A routine as a function of the structure and of its symbols."""

    name: str
    symbols: tuple[SymbolBounds, ...]


@dataclass(frozen=True, slots=True)
class Library:
    """What is exported: programs of each target, in the order of `functions`, and the arrays they share.

    `initializing` is the function, if any, that computes the initial values of parameters given by expressions. With
    `threads`, the structure has the caller's function that runs parallel loops.
    """

    name: str
    fields: tuple[Field, ...]
    functions: tuple[ExportedFunction, ...]
    programs: Mapping[InstructionSet, tuple[Proc, ...]]
    initializing: ExportedFunction | None
    workspace_bytes: int
    threads: bool = False

    @property
    def members(self) -> tuple[Field, ...]:
        return tuple(field for field in self.fields if field.offset_bytes is not None)

    @property
    def saved(self) -> tuple[Field, ...]:
        """What `save` writes."""
        return tuple(field for field in self.members if field.entry is not None)

    @property
    def workspace_offset_bytes(self) -> int:
        ends = (f.offset_bytes + f.member_bytes for f in self.members if f.offset_bytes is not None)
        return _aligned(max(ends, default=0) + (SEED_BYTES if self.saved else 0))

    @property
    def stack_bytes(self) -> int:
        """Upper bound of the stack that the local arrays of functions take."""
        return max((stack_bytes(proc) for procs in self.programs.values() for proc in procs), default=0)

    @property
    def size_bytes(self) -> int:
        """The size of the structure."""
        return max(ALIGNMENT_BYTES, _aligned(self.workspace_offset_bytes + self.workspace_bytes))


def describe(
    routines: Sequence[Routine],
    name: str,
    targets: Iterable[InstructionSet],
    init: object = None,
    cpu: Cpu = COMMON_CPU,
    *,
    inputs: bool = False,
    threads: bool = False,
) -> Library:
    """Describes routines of one context; `init` is what `Context.init` takes. Placeholders start at zero, or with
    `inputs` at their values in the context. With `threads`, long loops are parallel.

    Raises: ArgumentError, CodeError, ExportError, UninitializedError.
    """
    contexts = {id(routine.context): routine.context for routine in routines}
    if len(contexts) != 1:
        raise ArgumentError("oc.export takes routines of one context, whose arrays they share")
    (ctx,) = contexts.values()
    assert isinstance(ctx, Context)
    if init is None:
        ctx.refuse_closed()
    _check_name(name)
    names = Namer(routine_names(name))
    functions = [(_function(names(routine.name), routine.program.syms), routine.program) for routine in routines]
    initializing, computed = None, frozenset[TNode]()
    if init is not None:
        code = _init_code(init)
        elaborated = elaborate(code)
        if nodes(elaborated.comp):
            computed = frozenset(elaborated.keep_reasons)
            (program,) = compile_routines([Job(elaborated.comp, elaborated.keep_reasons, "init")], ctx.backend)
            initializing = ExportedFunction(names("initialize"), ())
            functions.append((initializing, program))
    programs = {
        target: tuple(
            program_for(program, function.name, target, cpu, threads=threads) for function, program in functions
        )
        for target in targets
    }
    values = InitialValues(ctx, init is not None, computed, inputs)
    reserved = THREAD_MEMBERS if threads else frozenset[str]()
    fields = _fields(routines, [proc for procs in programs.values() for proc in procs], values, reserved)
    workspace = max((proc.arena for procs in programs.values() for proc in procs), default=0)
    listed = tuple(function for function, _ in functions if function is not initializing)
    return Library(name, fields, listed, programs, initializing, workspace, threads)


def _check_name(name: str) -> None:
    if identifier(name) != name:
        raise ArgumentError(f"the name of a library is an identifier, such as `{identifier(name)}`, not {name!r}")
    if name in KEYWORDS | GENERATED_TYPES:
        raise ArgumentError(
            f"`{name}` has a meaning in C, C++, JavaScript, Python or the generated code: choose another name"
        )


def _function(name: str, syms: Sequence[Sym]) -> ExportedFunction:
    names = Namer(KEYWORDS | PARAMETERS)
    return ExportedFunction(name, tuple(SymbolBounds(names(sym.name), sym.lo, sym.hi) for sym in syms))


def _init_code(init: object) -> object:
    if hasattr(init, "elaborate"):
        raise ArgumentError("`init` is a tensor or a block, whose parameters are initialized, not code")
    params = getattr(init, "all_params", None) or getattr(init, "params", init)
    if not isinstance(params, Mapping):
        raise CodeError(f"`init` is a tensor or a block, not {init!r}"[:200])
    for p in params.values():
        node_of(p)
    return graph.init_code(params)


def _fields(
    routines: Sequence[Routine], procs: Sequence[Proc], values: InitialValues, reserved: frozenset[str]
) -> tuple[Field, ...]:
    written: dict[TNode, bool] = {}
    for proc in procs:
        for node, is_written in arguments(proc):
            written[node] = written.get(node, False) or is_written
    entries = _entries(routines)
    names = Namer(C_NAMES | {WORKSPACE, SEED} | reserved)
    fields, offset = [], 0
    for node, is_written in sorted(written.items(), key=lambda item: item[0].id):
        kind = "state" if node.role is Role.PLACEHOLDER and is_written else KINDS[node.role]
        initial = Zeros() if kind == "input" and not values.has_inputs else values.of(node)
        if isinstance(initial, StreamKey):
            kind = "state"
        entry = entries.get(node)
        field = Field(names(label_of(node, entry)), node, kind, initial, entry)
        is_constant = kind == "constant" and not is_written and isinstance(initial, Embedded)
        if not is_constant:
            field = replace(field, offset_bytes=offset)
            offset = _aligned(offset + field.member_bytes)
        fields.append(field)
    if not fields:
        raise ExportError("the routines read and write no arrays")
    return tuple(fields)


def label_of(node: TNode, entry: Entry | None) -> str:
    """What an array is called in the program, or a part of a random stream in checkpoints."""
    return entry.key if entry is not None and entry.kind == RANDOM else node.path or node.label


def _entries(routines: Iterable[Routine]) -> dict[TNode, Entry]:
    """What is saved, under the keys of `oc.save`; nodes with one key, which `oc.save` refuses, are numbered."""
    entries = {entry.node: entry for routine in routines for entry in listed_entries(routine)}
    used: set[str] = set()
    for node, entry in entries.items():
        key = next(key for key in numbered(entry.key) if key not in used)
        used.add(key)
        entries[node] = replace(entry, key=key)
    return entries


def _aligned(size: int) -> int:
    return -(-size // ALIGNMENT_BYTES) * ALIGNMENT_BYTES
