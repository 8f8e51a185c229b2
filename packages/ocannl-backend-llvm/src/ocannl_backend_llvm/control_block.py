"""The control structure passed to programs and nests (see `ocannl.codegen.abi`), and helper functions that use it."""

from __future__ import annotations

from collections.abc import Sequence

from ocannl.codegen import Nest
from ocannl.codegen.abi import SIGNAL_CHECK_INTERVAL_NS
from ocannl_backend_llvm.builder import Builder

(
    CANCEL, RELEASE, ACQUIRE, ENSURE, RESTORE, SIGNALS, CLOCK, SIGNALS_CHECKED_NS, POOL, THREADS, WITHOUT_SIGNALS,
    PRIVATE_ARRAYS, FILLED,
) = range(1, 14)
"""Fields of the control structure, as offsets in 8-byte words."""


def _fields(**fields: int) -> str:
    """Instructions that load fields of `%control` under their names, and their addresses under NAME.at."""
    return "".join(
        f"  %{name}.at = getelementptr inbounds ptr, ptr %control, i64 {offset}\n"
        f"  %{name} = load {'i64' if offset in (SIGNALS_CHECKED_NS, THREADS) else 'ptr'}, ptr %{name}.at\n"
        for name, offset in fields.items()
    )


POLL = "ocannl-poll"
POLL_TEXT = f"""\
define i1 @{POLL}(ptr %control) nounwind noinline {{
{_fields(cancel=CANCEL)}  %flag = load volatile i32, ptr %cancel
  %cancelled = icmp ne i32 %flag, 0
  br i1 %cancelled, label %leave, label %uncancelled
uncancelled:
{_fields(signals=SIGNALS)}  %no.signals = icmp eq ptr %signals, null
  br i1 %no.signals, label %continue, label %clock.call
clock.call:
{_fields(clock=CLOCK, checked=SIGNALS_CHECKED_NS)}  %id.at = getelementptr inbounds i32, ptr %control, i64 1
  %id = load i32, ptr %id.at
  %time = alloca [2 x i64]
  %status = call i32 %clock(i32 %id, ptr %time)
  %seconds = load i64, ptr %time
  %nanoseconds.at = getelementptr inbounds i64, ptr %time, i64 1
  %nanoseconds = load i64, ptr %nanoseconds.at
  %seconds.ns = mul i64 %seconds, 1000000000
  %now = add i64 %seconds.ns, %nanoseconds
  %since = sub i64 %now, %checked
  %long = icmp sge i64 %since, {SIGNAL_CHECK_INTERVAL_NS}
  br i1 %long, label %check, label %continue
check:
{_fields(ensure=ENSURE, restore=RESTORE)}  store i64 %now, ptr %checked.at
  %state = call i32 %ensure()
  %raised = call i32 %signals()
  call void %restore(i32 %state)
  %interrupted = icmp ne i32 %raised, 0
  br i1 %interrupted, label %leave, label %continue
leave:
  ret i1 true
continue:
  ret i1 false
}}
"""
READ_CLOCK = "ocannl-read-clock"
READ_CLOCK_TEXT = f"""\
define i64 @{READ_CLOCK}(ptr %control) nounwind noinline {{
{_fields(clock=CLOCK)}  %id.at = getelementptr inbounds i32, ptr %control, i64 1
  %id = load i32, ptr %id.at
  %time = alloca [2 x i64]
  store [2 x i64] zeroinitializer, ptr %time
  %none = icmp eq ptr %clock, null
  br i1 %none, label %read, label %clock.call
clock.call:
  %status = call i32 %clock(i32 %id, ptr %time)
  br label %read
read:
  %seconds = load i64, ptr %time
  %nanoseconds.at = getelementptr inbounds i64, ptr %time, i64 1
  %nanoseconds = load i64, ptr %nanoseconds.at
  %seconds.ns = mul i64 %seconds, 1000000000
  %now = add i64 %seconds.ns, %nanoseconds
  ret i64 %now
}}
"""
CHUNK_FUNCTION_PARAMS = ("ptr", "i64", "i64")  # types of frame, chunk and thread
PARALLEL_FOR = "ocannl-parallel-for"
PARALLEL_FOR_TEXT = f"""\
define i1 @{PARALLEL_FOR}(ptr %control, ptr %body, ptr %frame, i64 %num.chunks) nounwind {{
{_fields(pool=POOL, threads=THREADS)}  %none = icmp eq ptr %pool, null
  br i1 %none, label %next, label %parallel
parallel:
  %parallel.for.at = getelementptr inbounds ptr, ptr %pool, i64 1
  %parallel.for = load ptr, ptr %parallel.for.at
  %status = call i32 %parallel.for(ptr %pool, ptr %body, ptr %frame, i64 %num.chunks, i64 %threads)
  %cancelled = icmp ne i32 %status, 0
  ret i1 %cancelled
next:
  %chunk = phi i64 [ 0, %0 ], [ %next.chunk, %run ]
  %more = icmp slt i64 %chunk, %num.chunks
  br i1 %more, label %run, label %done
run:
  %result = call i32 %body(ptr %frame, i64 %chunk, i64 0)
  %next.chunk = add i64 %chunk, 1
  %ok = icmp eq i32 %result, 0
  br i1 %ok, label %next, label %cancelled.chunk
done:
  ret i1 false
cancelled.chunk:
  ret i1 true
}}
"""


def frame_values(b: Builder, nest: Nest, args: Sequence[str]) -> list[str]:
    """The values in the frame of a parallel nest: its arguments, the control structure, and, if it has private arrays,
    the number of times that threads have had to fill such arrays."""
    values = [*args, "ptr %control"]
    if nest.private_bufs:
        counter = address(b, "i64", "%control", FILLED)
        count = b.assign(f"add i64 {b.assign(f'load i64, ptr {counter}', 'filled')}, 1", "filled")
        b.line(f"store i64 {count}, ptr {counter}")
        values.append(f"i64 {count}")
    return values


def address(b: Builder, type_: str, array: str, index: int) -> str:
    return b.assign(f"getelementptr inbounds {type_}, ptr {array}, i64 {index}", "at") if index else array


def element(b: Builder, type_: str, array: str, index: int, stem: str) -> str:
    return b.assign(f"load {type_}, ptr {address(b, type_, array, index)}", stem)
