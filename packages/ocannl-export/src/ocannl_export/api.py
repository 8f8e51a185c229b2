"""`oc.export`."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

from ocannl.base.errors import ArgumentError
from ocannl.base.output_files import Writing
from ocannl.base.traceback_filtering import public
from ocannl.checkpoint.replacement import replace
from ocannl.ir.name_mangling import identifier
from ocannl.runtime.routine import Routine
from ocannl_export.forms.c_source import c_source
from ocannl_export.forms.native import native_target, object_file, shared_library
from ocannl_export.forms.page import page
from ocannl_export.forms.webassembly import webassembly
from ocannl_export.forms.wheel import wheel
from ocannl_export.request import Files, Request
from ocannl_export.targets import NATIVE, TARGETS, InstructionSet

WRITERS: Mapping[str, Callable[[Request], Files]] = {
    "c": c_source, "so": shared_library, "object": object_file, "wheel": wheel, "wasm": webassembly, "html": page,
}
SUFFIXES = {".c": "c", ".so": "so", ".o": "object", ".whl": "wheel", ".wasm": "wasm", ".html": "html"}

THREADED_FORMS = ("c", "so", "object")
"""Forms that are called from C, whose callers have threads."""


@public
def export(
    routines: Routine | Sequence[Routine],
    path: str | os.PathLike[str],
    form: str | None = None,
    *,
    name: str | None = None,
    init: object = None,
    target: str | None = None,
    vectors: bool = True,
    inputs: bool | None = None,
    threads: bool = False,
) -> list[Path]:
    """Writes routines, whole training steps included, as a library that needs neither Python nor ocannl.

        step = ctx.compile(oc.seq(train.grad_update(loss), train.adam(loss)), name="step")
        oc.export(step, "digits.c", init=loss)

    `path` is a file, whose suffix decides about the form, or a folder; `name` is the prefix of all functions, by
    default the name of the file. Several routines of one context share their arrays. With `init`, a tensor or block as
    `Context.init` takes it, the exported `init(seed)` draws new parameters; otherwise it restores the values that the
    context holds, which become part of the library. `target` is an instruction set; `vectors=False` writes ISO C99.
    Inputs start at zero, or with `inputs=True`, the default for pages, at their values in the context. With
    `threads`, the structure has a function of the caller that runs parallel loops on any threads.

    Returns the paths of the files, which are replaced as wholes. Raises: ArgumentError, ExportError for routines that
    call Python's libraries, UninitializedError for a parameter without a value, CodeError if the context is closed and
    `init` is not given, OSError.
    """
    listed = [routines] if isinstance(routines, Routine) else list(routines) if isinstance(routines, Sequence) else []
    if not listed or not all(isinstance(routine, Routine) for routine in listed):
        raise ArgumentError(f"oc.export takes compiled routines, not {routines!r}"[:200])
    file = Path(path)
    form = _form_of(file, form)
    instructions = _instruction_set(target)
    if not vectors and form != "c":
        raise ArgumentError(f"`vectors=False` is ISO C99, of the form `c`, not of `{form}`")
    if threads and form not in THREADED_FORMS:
        raise ArgumentError(f"`threads=True` is for the forms {', '.join(THREADED_FORMS)}, not for `{form}`")
    folder, stem = (file.parent, file.stem) if file.suffix in SUFFIXES else (file, listed[0].name)
    has_inputs = form == "html" if inputs is None else inputs
    chosen = instructions if vectors else TARGETS["scalar"]
    request = Request(tuple(listed), name or identifier(stem), init, chosen, vectors, has_inputs, threads)
    return _written(folder, WRITERS[form](request))


def _form_of(file: Path, requested: str | None) -> str:
    """The requested form, or that of the suffix. Raises: ArgumentError."""
    suffix_form = SUFFIXES.get(file.suffix, "")
    form = requested or suffix_form
    if form not in WRITERS:
        problem = f"not {form!r}" if form else f"which the suffix of {file} does not say: give `form=` for a folder"
        raise ArgumentError(f"the form of an export is one of {', '.join(WRITERS)}, {problem}")
    if suffix_form not in ("", form):
        raise ArgumentError(f"the suffix of {file} is that of the form `{suffix_form}`, not of `{form}`")
    return form


def _instruction_set(target: str | None) -> InstructionSet | None:
    """The instruction set of that name; without a name, that of the form. Raises: ArgumentError."""
    if target is None:
        return None
    if target == NATIVE:
        return native_target()
    if target not in TARGETS:
        raise ArgumentError(f"the target is one of {', '.join((NATIVE, *TARGETS))}, not {target!r}")
    return TARGETS[target]


def _written(folder: Path, files: Files) -> list[Path]:
    contents = {
        folder / name: content if isinstance(content, bytes) else content.encode("ascii")
        for name, content in files.items()
    }
    with Writing(folder, "folder"):
        folder.mkdir(parents=True, exist_ok=True)
        for path, data in contents.items():
            replace(path, partial(_write, data))  # not in place, where a process may have loaded the library
    return list(contents)


def _write(data: bytes, path: Path) -> None:
    path.write_bytes(data)
