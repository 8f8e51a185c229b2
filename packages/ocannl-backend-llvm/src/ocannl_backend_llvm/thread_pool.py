"""The native half of the thread pool (see `ocannl.backend.cpu.thread_pool`), as LLVM IR.

    parallel_for    publishes a job by incrementing `generation`, executes chunks itself, closes the job, and waits
                    until no worker is active
    worker_main     waits for a new generation, first spinning, then sleeping; increments `active`, and executes
                    chunks if the job is still open, so that late workers leave without touching it

A worker increments `active` before it reads `open`; the owner clears `open` before it reads `active`. All these
accesses are sequentially consistent, so that no worker executes chunks of a job whose owner has returned.

Workers with odd numbers take chunks from the end. In consecutive loops over the same rows, a thread thus tends to get
the same rows again, which are still in its private cache.

On Linux, a worker that is woken on the core of the owner leaves it: both would take turns there. It excludes the core
from those it may run on, if the others are enough for all workers up to its number.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

from ocannl.backend.cpu.device import cores
from ocannl.backend.cpu.thread_pool import ThreadPoolCode
from ocannl_backend_llvm import jit, parallel_codegen
from ocannl_backend_llvm.interrupts import not_interrupted

MAX_SPINS = 4000  # polls of a waiting thread before it sleeps, about 0.1 ms

FIELDS = {  # offsets in bytes; what is written together is on one cache line, which moves between cores as a whole
    "size": 4,
    "busy": 64,  # written by owners only
    "active": 128,
    "generation": 192, "open": 200, "stopped": 208, "sleepers": 212,  # polled by waiting workers
    "taken": 256,  # chunks taken from the front, and from bit 32 on those taken from the end
    "cancelled": 264,
    "num.chunks": 320, "threads": 328, "body": 336, "frame": 344,
    "lock": 384, "wakeup": 512,
    "core": 576,  # of the owner that has last woken workers
}  # fmt: skip
PAUSE = {"x86_64": "llvm.x86.sse2.pause()", "aarch64": "llvm.aarch64.hint(i32 1)"}


@cache
def thread_pool_code() -> ThreadPoolCode:
    return not_interrupted(_compile)


def _compile() -> ThreadPoolCode:
    target = jit.host()
    symbols = {name: f"ocannl-pool.{name}" for name in ("init", "parallel_for", "worker_main", "stop")}
    library = jit.load([parallel_codegen.compile_text(text(target.triple), target)], list(symbols.values()))
    return ThreadPoolCode(**{name: library.address(symbol) for name, symbol in symbols.items()}, holds=library)


@contextmanager
def compile_in_background() -> Iterator[None]:
    """Compiles the pool's code in a background thread while the body of the `with` statement emits other modules."""
    if cores() == 1 or thread_pool_code.cache_info().currsize or not threading.main_thread().is_alive():
        yield
        return
    thread = threading.Thread(target=thread_pool_code, name="ocannl thread pool code", daemon=True)
    thread.start()
    try:
        yield
    finally:
        thread.join()


def text(triple: str) -> str:
    pause = PAUSE.get(triple.partition("-")[0])
    call = f"call void @{pause}" if pause else "fence seq_cst"
    declared = f"declare void @{pause.replace('i32 1', 'i32')}\n" if pause else ""
    cores_text = _LINUX_CORES_TEXT if "linux" in triple else _ANY_CORES_TEXT
    body = (_TEXT + cores_text).replace("PAUSE", call).replace("MAX_SPINS", str(MAX_SPINS))
    for function in body.split("\n\n"):
        used = [name for name in FIELDS if f"%{name}.at" in function]
        addresses = "".join(
            f"  %{name}.at = getelementptr inbounds i8, ptr %pool, i64 {FIELDS[name]}\n" for name in used
        )
        body = body.replace(function, function.replace("entry:\n", f"entry:\n{addresses}", 1))
    return body + declared


_TEXT = """\
define void @ocannl-pool.init(ptr %pool) nounwind {
entry:
  call void @llvm.memset.p0.i64(ptr %busy.at, i8 0, i64 640, i1 false)
  %mutex.status = call i32 @pthread_mutex_init(ptr %lock.at, ptr null)
  %cond.status = call i32 @pthread_cond_init(ptr %wakeup.at, ptr null)
  ret void
}

define internal void @ocannl-pool.wake_workers(ptr %pool) nounwind {
entry:
  %locked = call i32 @pthread_mutex_lock(ptr %lock.at)
  %woken = call i32 @pthread_cond_broadcast(ptr %wakeup.at)
  %unlocked = call i32 @pthread_mutex_unlock(ptr %lock.at)
  ret void
}

define void @ocannl-pool.stop(ptr %pool) nounwind {
entry:
  store atomic i32 1, ptr %stopped.at seq_cst, align 4
  call void @ocannl-pool.wake_workers(ptr %pool)
  ret void
}

define internal void @ocannl-pool.run_chunks(ptr %pool, i64 %thread) nounwind {
entry:
  %body = load ptr, ptr %body.at
  %frame = load ptr, ptr %frame.at
  %num.chunks = load i64, ptr %num.chunks.at
  %last = sub i64 %num.chunks, 1
  %odd = and i64 %thread, 1
  %is.odd = icmp eq i64 %odd, 1
  %increment = select i1 %is.odd, i64 4294967296, i64 1
  br label %take.next
take.next:
  %cancelled = load atomic i32, ptr %cancelled.at monotonic, align 4
  %over = icmp ne i32 %cancelled, 0
  br i1 %over, label %end, label %take
take:
  %taken = atomicrmw add ptr %taken.at, i64 %increment seq_cst
  %front = and i64 %taken, 4294967295
  %back = lshr i64 %taken, 32
  %all = add i64 %front, %back
  %from.back = sub i64 %last, %back
  %chunk = select i1 %is.odd, i64 %from.back, i64 %front
  %is.left = icmp slt i64 %all, %num.chunks
  br i1 %is.left, label %run, label %end
run:
  %result = call i32 %body(ptr %frame, i64 %chunk, i64 %thread)
  %ok = icmp eq i32 %result, 0
  br i1 %ok, label %take.next, label %cancel
cancel:
  store atomic i32 1, ptr %cancelled.at seq_cst, align 4
  br label %end
end:
  ret void
}

define i32 @ocannl-pool.parallel_for(ptr %pool, ptr %body, ptr %frame, i64 %num.chunks, i64 %threads) nounwind {
entry:
  %size = load atomic i32, ptr %size.at monotonic, align 4
  %no.workers = icmp slt i32 %size, 2
  %one.thread = icmp slt i64 %threads, 2
  %one.chunk = icmp slt i64 %num.chunks, 2
  %either = or i1 %no.workers, %one.thread
  %is.serial = or i1 %either, %one.chunk
  br i1 %is.serial, label %serial, label %try
try:
  %exchanged = cmpxchg ptr %busy.at, i32 0, i32 1 seq_cst seq_cst
  %is.idle = extractvalue { i32, i1 } %exchanged, 1
  br i1 %is.idle, label %begin, label %serial
begin:
  store ptr %body, ptr %body.at
  store ptr %frame, ptr %frame.at
  store i64 %num.chunks, ptr %num.chunks.at
  store i64 %threads, ptr %threads.at
  store atomic i32 0, ptr %cancelled.at seq_cst, align 4
  store atomic i64 0, ptr %taken.at seq_cst, align 8
  %last = load atomic i64, ptr %generation.at seq_cst, align 8
  %generation = add i64 %last, 1
  store atomic i64 %generation, ptr %open.at seq_cst, align 8
  store atomic i64 %generation, ptr %generation.at seq_cst, align 8
  %sleepers = load atomic i32, ptr %sleepers.at seq_cst, align 4
  %all.awake = icmp eq i32 %sleepers, 0
  br i1 %all.awake, label %work, label %wake
wake:
  %core = call i32 @ocannl-pool.core()
  store atomic i32 %core, ptr %core.at seq_cst, align 4
  call void @ocannl-pool.wake_workers(ptr %pool)
  br label %work
work:
  call void @ocannl-pool.run_chunks(ptr %pool, i64 0)
  store atomic i64 0, ptr %open.at seq_cst, align 8
  br label %wait
wait:
  %n = phi i64 [ 0, %work ], [ %n.next, %waited ]
  %active = load atomic i64, ptr %active.at seq_cst, align 8
  %empty = icmp eq i64 %active, 0
  br i1 %empty, label %done, label %check.spins
check.spins:
  %is.long = icmp sgt i64 %n, MAX_SPINS
  br i1 %is.long, label %yield, label %pause
yield:
  %yielded = call i32 @sched_yield()
  br label %waited
pause:
  PAUSE
  br label %waited
waited:
  %n.next = add i64 %n, 1
  br label %wait
done:
  %cancelled = load atomic i32, ptr %cancelled.at seq_cst, align 4
  store atomic i32 0, ptr %busy.at seq_cst, align 4
  ret i32 %cancelled
serial:
  br label %next
next:
  %chunk = phi i64 [ 0, %serial ], [ %chunk.next, %run ]
  %more = icmp slt i64 %chunk, %num.chunks
  br i1 %more, label %run, label %finished
run:
  %result = call i32 %body(ptr %frame, i64 %chunk, i64 0)
  %chunk.next = add i64 %chunk, 1
  %ok = icmp eq i32 %result, 0
  br i1 %ok, label %next, label %chunk.cancelled
finished:
  ret i32 0
chunk.cancelled:
  ret i32 1
}

define void @ocannl-pool.worker_main(ptr %pool, i64 %thread) nounwind {
entry:
  br label %idle
idle:
  %seen = phi i64 [ 0, %entry ], [ %seen, %awake ], [ %seen, %move ], [ %generation, %leave ]
  br label %spin
spin:
  %n = phi i64 [ 0, %idle ], [ %n.next, %again ]
  %stopped = load atomic i32, ptr %stopped.at seq_cst, align 4
  %over = icmp ne i32 %stopped, 0
  br i1 %over, label %end, label %check.generation
check.generation:
  %generation = load atomic i64, ptr %generation.at seq_cst, align 8
  %same = icmp eq i64 %generation, %seen
  br i1 %same, label %check.spins, label %enter
check.spins:
  %is.long = icmp sgt i64 %n, MAX_SPINS
  br i1 %is.long, label %sleep, label %again
again:
  PAUSE
  %n.next = add i64 %n, 1
  br label %spin
sleep:
  %locked = call i32 @pthread_mutex_lock(ptr %lock.at)
  %sleeping = atomicrmw add ptr %sleepers.at, i32 1 seq_cst
  br label %check
check:
  %now = load atomic i64, ptr %generation.at seq_cst, align 8
  %stopped.now = load atomic i32, ptr %stopped.at seq_cst, align 4
  %is.seen = icmp eq i64 %now, %seen
  %is.running = icmp eq i32 %stopped.now, 0
  %keep.sleeping = and i1 %is.seen, %is.running
  br i1 %keep.sleeping, label %sleep.once, label %awake
sleep.once:
  %wait.status = call i32 @pthread_cond_wait(ptr %wakeup.at, ptr %lock.at)
  br label %check
awake:
  %fewer = atomicrmw sub ptr %sleepers.at, i32 1 seq_cst
  %unlocked = call i32 @pthread_mutex_unlock(ptr %lock.at)
  %owners.core = load atomic i32, ptr %core.at seq_cst, align 4
  %core = call i32 @ocannl-pool.core()
  %is.shared = icmp eq i32 %core, %owners.core
  br i1 %is.shared, label %move, label %idle
move:
  call void @ocannl-pool.leave_core(i32 %core, i64 %thread)
  br label %idle
enter:
  %before = atomicrmw add ptr %active.at, i64 1 seq_cst
  %open = load atomic i64, ptr %open.at seq_cst, align 8
  %current = icmp eq i64 %open, %generation
  br i1 %current, label %count, label %leave
count:
  %threads = load i64, ptr %threads.at
  %takes.part = icmp slt i64 %thread, %threads
  br i1 %takes.part, label %chunks, label %leave
chunks:
  call void @ocannl-pool.run_chunks(ptr %pool, i64 %thread)
  br label %leave
leave:
  %after = atomicrmw sub ptr %active.at, i64 1 seq_cst
  br label %idle
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

_LINUX_CORES_TEXT = """
define internal i32 @ocannl-pool.core() nounwind {
entry:
  %core = call i32 @sched_getcpu()
  ret i32 %core
}

define internal void @ocannl-pool.leave_core(i32 %core, i64 %thread) nounwind {
entry:
  %cores = alloca [16 x i64]
  %process = call i32 @getpid()
  %status = call i32 @sched_getaffinity(i32 %process, i64 128, ptr %cores)
  %is.known = icmp eq i32 %status, 0
  %is.in.set = icmp ult i32 %core, 1024
  %is.found = and i1 %is.known, %is.in.set
  br i1 %is.found, label %compare, label %end
compare:
  %count = call i32 @__sched_cpucount(i64 128, ptr %cores)
  %count.wide = zext i32 %count to i64
  %is.enough = icmp ugt i64 %count.wide, %thread
  br i1 %is.enough, label %move, label %end
move:
  %number = lshr i32 %core, 6
  %word.at = getelementptr i64, ptr %cores, i32 %number
  %place = and i32 %core, 63
  %place.wide = zext i32 %place to i64
  %bit = shl i64 1, %place.wide
  %mask = xor i64 %bit, -1
  %word = load i64, ptr %word.at
  %others = and i64 %word, %mask
  store i64 %others, ptr %word.at
  %moved = call i32 @sched_setaffinity(i32 0, i64 128, ptr %cores)
  br label %end
end:
  ret void
}

declare i32 @sched_getcpu()
declare i32 @getpid()
declare i32 @sched_getaffinity(i32, i64, ptr)
declare i32 @sched_setaffinity(i32, i64, ptr)
declare i32 @__sched_cpucount(i64, ptr)
"""

_ANY_CORES_TEXT = """
define internal i32 @ocannl-pool.core() nounwind {
entry:
  ret i32 -1
}

define internal void @ocannl-pool.leave_core(i32 %core, i64 %thread) nounwind {
entry:
  ret void
}
"""
