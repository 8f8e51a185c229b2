"""The control structure passed to programs and nests (see `ocannl.codegen.abi`), and helper functions that use it."""

from __future__ import annotations

from ocannl.codegen.abi import SIGNAL_CHECK_INTERVAL_NS
from ocannl_backend_llvm.builder import Builder

CANCEL, RELEASE, ACQUIRE, ENSURE, RESTORE, SIGNALS, CLOCK, SIGNALS_CHECKED_NS, TEAM, THREADS, DEAF = range(1, 12)
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
{_fields(cancel=CANCEL)}  %told = load volatile i32, ptr %cancel
  %cancelled = icmp ne i32 %told, 0
  br i1 %cancelled, label %leave, label %ask
ask:
{_fields(signals=SIGNALS)}  %deaf = icmp eq ptr %signals, null
  br i1 %deaf, label %go.on, label %look
look:
{_fields(clock=CLOCK, asked=SIGNALS_CHECKED_NS)}  %id.at = getelementptr inbounds i32, ptr %control, i64 1
  %id = load i32, ptr %id.at
  %time = alloca [2 x i64]
  %status = call i32 %clock(i32 %id, ptr %time)
  %seconds = load i64, ptr %time
  %rest.at = getelementptr inbounds i64, ptr %time, i64 1
  %rest = load i64, ptr %rest.at
  %whole = mul i64 %seconds, 1000000000
  %now = add i64 %whole, %rest
  %since = sub i64 %now, %asked
  %long = icmp sge i64 %since, {SIGNAL_CHECK_INTERVAL_NS}
  br i1 %long, label %listen, label %go.on
listen:
{_fields(ensure=ENSURE, restore=RESTORE)}  store i64 %now, ptr %asked.at
  %state = call i32 %ensure()
  %raised = call i32 %signals()
  call void %restore(i32 %state)
  %interrupted = icmp ne i32 %raised, 0
  br i1 %interrupted, label %leave, label %go.on
leave:
  ret i1 true
go.on:
  ret i1 false
}}
"""
READ_CLOCK = "ocannl-stamp"
READ_CLOCK_TEXT = f"""\
define i64 @{READ_CLOCK}(ptr %control) nounwind noinline {{
{_fields(clock=CLOCK)}  %id.at = getelementptr inbounds i32, ptr %control, i64 1
  %id = load i32, ptr %id.at
  %time = alloca [2 x i64]
  store [2 x i64] zeroinitializer, ptr %time
  %none = icmp eq ptr %clock, null
  br i1 %none, label %given, label %look
look:
  %status = call i32 %clock(i32 %id, ptr %time)
  br label %given
given:
  %seconds = load i64, ptr %time
  %rest.at = getelementptr inbounds i64, ptr %time, i64 1
  %rest = load i64, ptr %rest.at
  %whole = mul i64 %seconds, 1000000000
  %now = add i64 %whole, %rest
  ret i64 %now
}}
"""
PARALLEL_FOR = "ocannl-share"
PARALLEL_FOR_TEXT = f"""\
define i1 @{PARALLEL_FOR}(ptr %control, ptr %body, ptr %frame, i64 %claims) nounwind {{
{_fields(team=TEAM, threads=THREADS)}  %none = icmp eq ptr %team, null
  br i1 %none, label %next, label %together
together:
  %share.at = getelementptr inbounds ptr, ptr %team, i64 1
  %share = load ptr, ptr %share.at
  %broken = call i32 %share(ptr %team, ptr %body, ptr %frame, i64 %claims, i64 %threads)
  %cancelled = icmp ne i32 %broken, 0
  ret i1 %cancelled
next:
  %claim = phi i64 [ 0, %0 ], [ %following, %run ]
  %more = icmp slt i64 %claim, %claims
  br i1 %more, label %run, label %done
run:
  %result = call i32 %body(ptr %frame, i64 %claim, i64 0)
  %following = add i64 %claim, 1
  %fine = icmp eq i32 %result, 0
  br i1 %fine, label %next, label %left
done:
  ret i1 false
left:
  ret i1 true
}}
"""


def address(b: Builder, type_: str, array: str, index: int) -> str:
    return b.assign(f"getelementptr inbounds {type_}, ptr {array}, i64 {index}", "at") if index else array


def element(b: Builder, type_: str, array: str, index: int, stem: str) -> str:
    return b.assign(f"load {type_}, ptr {address(b, type_, array, index)}", stem)
