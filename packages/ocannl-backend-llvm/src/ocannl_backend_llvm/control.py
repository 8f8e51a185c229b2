"""The control structure that programs and nests are given (see `ocannl.codegen.abi`), and what looks into it."""

from __future__ import annotations

from ocannl.codegen.abi import PATIENCE_NS
from ocannl_backend_llvm.build import Builder

CANCEL, RELEASE, ACQUIRE, ENSURE, RESTORE, SIGNALS, CLOCK, ASKED, TEAM, THREADS, DEAF = range(1, 12)
"""Fields of the control structure, in words: see `ocannl.codegen.abi`."""


def _fields(**fields: int) -> str:
    """Instructions that load fields of `%control`, each under a name, and keep where it is."""
    return "".join(
        f"  %{name}.at = getelementptr inbounds ptr, ptr %control, i64 {place}\n"
        f"  %{name} = load {'i64' if place in (ASKED, THREADS) else 'ptr'}, ptr %{name}.at\n"
        for name, place in fields.items()
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
{_fields(clock=CLOCK, asked=ASKED)}  %id.at = getelementptr inbounds i32, ptr %control, i64 1
  %id = load i32, ptr %id.at
  %time = alloca [2 x i64]
  %status = call i32 %clock(i32 %id, ptr %time)
  %seconds = load i64, ptr %time
  %rest.at = getelementptr inbounds i64, ptr %time, i64 1
  %rest = load i64, ptr %rest.at
  %whole = mul i64 %seconds, 1000000000
  %now = add i64 %whole, %rest
  %since = sub i64 %now, %asked
  %long = icmp sge i64 %since, {PATIENCE_NS}
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
STAMP = "ocannl-stamp"
STAMP_TEXT = f"""\
define i64 @{STAMP}(ptr %control) nounwind noinline {{
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
SHARE = "ocannl-share"
SHARE_TEXT = f"""\
define i1 @{SHARE}(ptr %control, ptr %body, ptr %frame, i64 %claims) nounwind {{
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


def address(b: Builder, type_: str, array: str, place: int) -> str:
    return b.let(f"getelementptr inbounds {type_}, ptr {array}, i64 {place}", "at") if place else array


def element(b: Builder, type_: str, array: str, place: int, stem: str) -> str:
    return b.let(f"load {type_}, ptr {address(b, type_, array, place)}", stem)
