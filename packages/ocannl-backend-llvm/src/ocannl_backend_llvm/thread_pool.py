"""The native half of the thread pool (see `ocannl.backend.cpu.thread_pool`), as LLVM IR.

    share   publishes a job by incrementing `generation`, executes chunks itself, closes the job, and waits until no
            worker is inside
    work    waits for a new generation, first spinning, then sleeping; increments `inside`, and executes chunks if the
            job is still open, so that late workers leave without touching it

A worker increments `inside` before it reads `open`; the owner clears `open` before it reads `inside`. All these
accesses are sequentially consistent, so that no worker executes chunks of a job whose owner has returned.

Workers with odd numbers take chunks from the end. In consecutive loops over the same rows, a thread thus tends to get
the same rows again, which are still in its private cache.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

from ocannl.backend.cpu.device import cores
from ocannl.backend.cpu.thread_pool import ThreadPoolCode
from ocannl_backend_llvm import jit, object_files

SPINS = 4000  # polls of a waiting thread before it sleeps, about 0.1 ms

FIELDS = {  # offsets in bytes; separate cache lines avoid false sharing
    "size": 4,
    "busy": 64, "stopped": 68, "broken": 72, "sleepers": 76,
    "inside": 128,
    "generation": 192, "open": 200,
    "taken": 256,  # chunks taken from the front, and from bit 32 on those taken from the end
    "claims": 320, "threads": 328, "body": 336, "frame": 344,
    "lock": 384, "called": 512,
}  # fmt: skip
PAUSE = {"x86_64": "llvm.x86.sse2.pause()", "aarch64": "llvm.aarch64.hint(i32 1)"}


@cache
def thread_pool_code() -> ThreadPoolCode:
    target = jit.host()
    names = ("start", "share", "work", "stop")
    library = jit.load([object_files.compile_text(text(target.triple), target)], [f"ocannl-team.{n}" for n in names])
    start, share, work, stop = (library.address(f"ocannl-team.{name}") for name in names)
    return ThreadPoolCode(start=start, share=share, work=work, stop=stop, holds=library)


@contextmanager
def compile_in_background() -> Iterator[None]:
    """Compiles the pool's code in a background thread while the body of the `with` statement emits other modules."""
    if cores() == 1 or thread_pool_code.cache_info().currsize or not threading.main_thread().is_alive():
        yield
        return
    thread = threading.Thread(target=thread_pool_code, name="ocannl team code", daemon=True)
    thread.start()
    try:
        yield
    finally:
        thread.join()


def text(triple: str) -> str:
    pause = PAUSE.get(triple.partition("-")[0])
    call = f"call void @{pause}" if pause else "fence seq_cst"
    declared = f"declare void @{pause.replace('i32 1', 'i32')}\n" if pause else ""
    body = _TEXT.replace("PAUSE", call).replace("SPINS", str(SPINS))
    for function in body.split("\n\n"):
        used = [name for name in FIELDS if f"%{name}.at" in function]
        addresses = "".join(
            f"  %{name}.at = getelementptr inbounds i8, ptr %team, i64 {FIELDS[name]}\n" for name in used
        )
        body = body.replace(function, function.replace("entry:\n", f"entry:\n{addresses}", 1))
    return body + declared


_TEXT = """\
define void @ocannl-team.start(ptr %team) nounwind {
entry:
  call void @llvm.memset.p0.i64(ptr %busy.at, i8 0, i64 640, i1 false)
  %one = call i32 @pthread_mutex_init(ptr %lock.at, ptr null)
  %other = call i32 @pthread_cond_init(ptr %called.at, ptr null)
  ret void
}

define internal void @ocannl-team.call(ptr %team) nounwind {
entry:
  %locked = call i32 @pthread_mutex_lock(ptr %lock.at)
  %told = call i32 @pthread_cond_broadcast(ptr %called.at)
  %unlocked = call i32 @pthread_mutex_unlock(ptr %lock.at)
  ret void
}

define void @ocannl-team.stop(ptr %team) nounwind {
entry:
  store atomic i32 1, ptr %stopped.at seq_cst, align 4
  call void @ocannl-team.call(ptr %team)
  ret void
}

define internal void @ocannl-team.claim(ptr %team, i64 %thread) nounwind {
entry:
  %body = load ptr, ptr %body.at
  %frame = load ptr, ptr %frame.at
  %claims = load i64, ptr %claims.at
  %last = sub i64 %claims, 1
  %odd = and i64 %thread, 1
  %is.odd = icmp eq i64 %odd, 1
  %one = select i1 %is.odd, i64 4294967296, i64 1
  br label %another
another:
  %broken = load atomic i32, ptr %broken.at monotonic, align 4
  %over = icmp ne i32 %broken, 0
  br i1 %over, label %end, label %take
take:
  %taken = atomicrmw add ptr %taken.at, i64 %one seq_cst
  %front = and i64 %taken, 4294967295
  %back = lshr i64 %taken, 32
  %all = add i64 %front, %back
  %from.back = sub i64 %last, %back
  %claim = select i1 %is.odd, i64 %from.back, i64 %front
  %any = icmp slt i64 %all, %claims
  br i1 %any, label %run, label %end
run:
  %result = call i32 %body(ptr %frame, i64 %claim, i64 %thread)
  %fine = icmp eq i32 %result, 0
  br i1 %fine, label %another, label %break
break:
  store atomic i32 1, ptr %broken.at seq_cst, align 4
  br label %end
end:
  ret void
}

define i32 @ocannl-team.share(ptr %team, ptr %body, ptr %frame, i64 %claims, i64 %threads) nounwind {
entry:
  %size = load atomic i32, ptr %size.at monotonic, align 4
  %lonely = icmp slt i32 %size, 2
  %single = icmp slt i64 %threads, 2
  %short = icmp slt i64 %claims, 2
  %either = or i1 %lonely, %single
  %small = or i1 %either, %short
  br i1 %small, label %alone, label %try
try:
  %got = cmpxchg ptr %busy.at, i32 0, i32 1 seq_cst seq_cst
  %free = extractvalue { i32, i1 } %got, 1
  br i1 %free, label %begin, label %alone
begin:
  store ptr %body, ptr %body.at
  store ptr %frame, ptr %frame.at
  store i64 %claims, ptr %claims.at
  store i64 %threads, ptr %threads.at
  store atomic i32 0, ptr %broken.at seq_cst, align 4
  store atomic i64 0, ptr %taken.at seq_cst, align 8
  %last = load atomic i64, ptr %generation.at seq_cst, align 8
  %generation = add i64 %last, 1
  store atomic i64 %generation, ptr %open.at seq_cst, align 8
  store atomic i64 %generation, ptr %generation.at seq_cst, align 8
  %sleepers = load atomic i32, ptr %sleepers.at seq_cst, align 4
  %all.awake = icmp eq i32 %sleepers, 0
  br i1 %all.awake, label %work, label %wake
wake:
  call void @ocannl-team.call(ptr %team)
  br label %work
work:
  call void @ocannl-team.claim(ptr %team, i64 0)
  store atomic i64 0, ptr %open.at seq_cst, align 8
  br label %wait
wait:
  %n = phi i64 [ 0, %work ], [ %n.next, %still ]
  %inside = load atomic i64, ptr %inside.at seq_cst, align 8
  %empty = icmp eq i64 %inside, 0
  br i1 %empty, label %done, label %patience
patience:
  %long = icmp sgt i64 %n, SPINS
  br i1 %long, label %yield, label %still.spinning
yield:
  %yielded = call i32 @sched_yield()
  br label %still
still.spinning:
  PAUSE
  br label %still
still:
  %n.next = add i64 %n, 1
  br label %wait
done:
  %broken = load atomic i32, ptr %broken.at seq_cst, align 4
  store atomic i32 0, ptr %busy.at seq_cst, align 4
  ret i32 %broken
alone:
  br label %next
next:
  %claim = phi i64 [ 0, %alone ], [ %claim.next, %run ]
  %more = icmp slt i64 %claim, %claims
  br i1 %more, label %run, label %finished
run:
  %result = call i32 %body(ptr %frame, i64 %claim, i64 0)
  %claim.next = add i64 %claim, 1
  %fine = icmp eq i32 %result, 0
  br i1 %fine, label %next, label %left
finished:
  ret i32 0
left:
  ret i32 1
}

define void @ocannl-team.work(ptr %team, i64 %thread) nounwind {
entry:
  br label %life
life:
  %seen = phi i64 [ 0, %entry ], [ %seen, %awake ], [ %generation, %leave ]
  br label %spin
spin:
  %n = phi i64 [ 0, %life ], [ %n.next, %again ]
  %stopped = load atomic i32, ptr %stopped.at seq_cst, align 4
  %over = icmp ne i32 %stopped, 0
  br i1 %over, label %end, label %look
look:
  %generation = load atomic i64, ptr %generation.at seq_cst, align 8
  %same = icmp eq i64 %generation, %seen
  br i1 %same, label %patience, label %enter
patience:
  %long = icmp sgt i64 %n, SPINS
  br i1 %long, label %sleep, label %again
again:
  PAUSE
  %n.next = add i64 %n, 1
  br label %spin
sleep:
  %locked = call i32 @pthread_mutex_lock(ptr %lock.at)
  %others = atomicrmw add ptr %sleepers.at, i32 1 seq_cst
  br label %check
check:
  %now = load atomic i64, ptr %generation.at seq_cst, align 8
  %stopped.now = load atomic i32, ptr %stopped.at seq_cst, align 4
  %quiet = icmp eq i64 %now, %seen
  %going = icmp eq i32 %stopped.now, 0
  %stay = and i1 %quiet, %going
  br i1 %stay, label %doze, label %awake
doze:
  %waited = call i32 @pthread_cond_wait(ptr %called.at, ptr %lock.at)
  br label %check
awake:
  %fewer = atomicrmw sub ptr %sleepers.at, i32 1 seq_cst
  %unlocked = call i32 @pthread_mutex_unlock(ptr %lock.at)
  br label %life
enter:
  %before = atomicrmw add ptr %inside.at, i64 1 seq_cst
  %open = load atomic i64, ptr %open.at seq_cst, align 8
  %current = icmp eq i64 %open, %generation
  br i1 %current, label %count, label %leave
count:
  %threads = load i64, ptr %threads.at
  %wanted = icmp slt i64 %thread, %threads
  br i1 %wanted, label %claim, label %leave
claim:
  call void @ocannl-team.claim(ptr %team, i64 %thread)
  br label %leave
leave:
  %after = atomicrmw sub ptr %inside.at, i64 1 seq_cst
  br label %life
end:
  ret void
}

declare i32 @pthread_mutex_init(ptr, ptr)
declare i32 @pthread_mutex_lock(ptr)
declare i32 @pthread_mutex_unlock(ptr)
declare i32 @pthread_cond_init(ptr, ptr)
declare i32 @pthread_cond_wait(ptr, ptr)
declare i32 @pthread_cond_broadcast(ptr)
declare i32 @sched_yield()
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
"""
