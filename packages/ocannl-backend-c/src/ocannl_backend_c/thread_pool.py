"""The native half of the thread pool (see `ocannl.backend.cpu.thread_pool`), in C.

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

from functools import cache

from ocannl.backend.cpu.thread_pool import PRIVATE_BYTES, ThreadPoolCode
from ocannl_backend_c.shared_library import SharedLibrary
from ocannl_backend_c.toolchain import build, toolchain


@cache
def thread_pool_code() -> ThreadPoolCode:
    library = SharedLibrary(build([TEXT], toolchain()))
    names = ("init", "parallel_for", "worker_main", "stop")
    return ThreadPoolCode(**{name: library.address(f"ocannl_pool_{name}") for name in names}, holds=library)


TEXT = f"""\
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#define MAX_SPINS 4000  /* polls of a waiting thread before it sleeps, about 0.1 ms */
#define LOAD(x) __atomic_load_n(&(x), __ATOMIC_SEQ_CST)
#define STORE(x, v) __atomic_store_n(&(x), v, __ATOMIC_SEQ_CST)
#define ADD(x, n) __atomic_fetch_add(&(x), n, __ATOMIC_SEQ_CST)
#define CACHE_LINE __attribute__((aligned(64)))

typedef int32_t (*body_t)(void *frame, int64_t chunk, int64_t thread);

struct job {{  /* what is written together is on one cache line, which moves between cores as a whole */
  int32_t busy CACHE_LINE;  /* written by owners only */
  int64_t active CACHE_LINE;
  int64_t generation CACHE_LINE, open;
  int32_t stopped, sleepers;  /* polled by waiting workers, with the generation */
  int64_t taken CACHE_LINE;  /* chunks taken from the front, and from bit 32 on those taken from the end */
  int32_t cancelled;
  int64_t num_chunks CACHE_LINE, threads;
  body_t body;
  void *frame;
  pthread_mutex_t lock CACHE_LINE;
  pthread_cond_t wakeup CACHE_LINE;
  int32_t core CACHE_LINE;  /* of the owner that has last woken workers */
}};

struct thread_pool {{
  int32_t version, size;
  void *parallel_for;
  char private[{PRIVATE_BYTES}];
}};

_Static_assert(sizeof(struct job) + 64 <= {PRIVATE_BYTES}, "the job does not fit into the pool");

static struct job *job_of(struct thread_pool *pool)
{{
  return (struct job *)(((uintptr_t)pool->private + 63) & ~(uintptr_t)63);
}}

static void pause_briefly(void)
{{
#if defined __x86_64__ || defined __i386__
  __builtin_ia32_pause();
#elif defined __aarch64__
  __asm__ volatile("yield");
#endif
}}

static int32_t current_core(void)
{{
#if defined __linux__
  return sched_getcpu();
#else
  return -1;
#endif
}}

static void leave_core(int32_t core, int64_t thread)
{{
#if defined __linux__
  cpu_set_t cores;
  if (core < 0 || core >= CPU_SETSIZE || sched_getaffinity(getpid(), sizeof cores, &cores)) return;
  if (CPU_COUNT(&cores) <= thread) return;
  CPU_CLR(core, &cores);
  sched_setaffinity(0, sizeof cores, &cores);
#else
  (void)core, (void)thread;
#endif
}}

void ocannl_pool_init(struct thread_pool *pool)
{{
  struct job *job = job_of(pool);
  memset(job, 0, sizeof *job);
  pthread_mutex_init(&job->lock, 0);
  pthread_cond_init(&job->wakeup, 0);
}}

static void wake_workers(struct job *job)
{{
  pthread_mutex_lock(&job->lock);
  pthread_cond_broadcast(&job->wakeup);
  pthread_mutex_unlock(&job->lock);
}}

void ocannl_pool_stop(struct thread_pool *pool)
{{
  struct job *job = job_of(pool);
  STORE(job->stopped, 1);
  wake_workers(job);
}}

static void run_chunks(struct job *job, int64_t thread)
{{
  body_t body = job->body;
  void *frame = job->frame;
  int64_t num_chunks = job->num_chunks;
  while (!LOAD(job->cancelled)) {{
    int64_t taken = ADD(job->taken, thread & 1 ? (int64_t)1 << 32 : 1), first = taken & 0xFFFFFFFF, last = taken >> 32;
    if (first + last >= num_chunks) break;
    if (body(frame, thread & 1 ? num_chunks - 1 - last : first, thread)) STORE(job->cancelled, 1);
  }}
}}

static int32_t run_serially(body_t body, void *frame, int64_t num_chunks)
{{
  for (int64_t n = 0; n < num_chunks; n++)
    if (body(frame, n, 0)) return 1;
  return 0;
}}

int32_t ocannl_pool_parallel_for(
    struct thread_pool *pool, body_t body, void *frame, int64_t num_chunks, int64_t threads)
{{
  struct job *job = job_of(pool);
  int32_t idle = 0;
  if (LOAD(pool->size) < 2 || threads < 2 || num_chunks < 2
      || !__atomic_compare_exchange_n(&job->busy, &idle, 1, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
    return run_serially(body, frame, num_chunks);
  job->body = body;
  job->frame = frame;
  job->num_chunks = num_chunks;
  job->threads = threads;
  STORE(job->cancelled, 0);
  STORE(job->taken, 0);
  STORE(job->open, job->generation + 1);
  STORE(job->generation, job->generation + 1);
  if (LOAD(job->sleepers)) {{
    STORE(job->core, current_core());
    wake_workers(job);
  }}
  run_chunks(job, 0);
  STORE(job->open, 0);
  for (int n = 0; LOAD(job->active); n++)
    if (n < MAX_SPINS) pause_briefly();
    else sched_yield();
  int32_t cancelled = LOAD(job->cancelled);
  STORE(job->busy, 0);
  return cancelled;
}}

void ocannl_pool_worker_main(struct thread_pool *pool, int64_t thread)
{{
  struct job *job = job_of(pool);
  int64_t seen = 0;
  for (;;) {{
    for (int n = 0; n < MAX_SPINS && LOAD(job->generation) == seen && !LOAD(job->stopped); n++) pause_briefly();
    if (LOAD(job->generation) == seen && !LOAD(job->stopped)) {{
      pthread_mutex_lock(&job->lock);
      ADD(job->sleepers, 1);
      while (LOAD(job->generation) == seen && !LOAD(job->stopped)) pthread_cond_wait(&job->wakeup, &job->lock);
      ADD(job->sleepers, -1);
      pthread_mutex_unlock(&job->lock);
      int32_t core = current_core();
      if (core == LOAD(job->core)) leave_core(core, thread);
    }}
    if (LOAD(job->stopped)) return;
    seen = LOAD(job->generation);
    ADD(job->active, 1);
    if (LOAD(job->open) == seen && thread < job->threads) run_chunks(job, thread);
    ADD(job->active, -1);
  }}
}}
"""
