"""The native half of the thread pool (see `ocannl.backend.cpu.thread_pool`), in C.

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

from functools import cache

from ocannl.backend.cpu.thread_pool import PRIVATE_BYTES, ThreadPoolCode
from ocannl_backend_c.shared_library import SharedLibrary
from ocannl_backend_c.toolchain import build, toolchain


@cache
def thread_pool_code() -> ThreadPoolCode:
    library = SharedLibrary(build(TEXT, toolchain()))
    names = ("start", "share", "work", "stop")
    start, share, work, stop = (library.address(f"ocannl_team_{name}") for name in names)
    return ThreadPoolCode(start=start, share=share, work=work, stop=stop, holds=library)


TEXT = f"""\
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <string.h>

#define SPINS 4000  /* looks of a waiting thread before it sleeps: about a tenth of a millisecond */
#define LOAD(x) __atomic_load_n(&(x), __ATOMIC_SEQ_CST)
#define STORE(x, v) __atomic_store_n(&(x), v, __ATOMIC_SEQ_CST)
#define ADD(x, n) __atomic_fetch_add(&(x), n, __ATOMIC_SEQ_CST)
#define LINE __attribute__((aligned(64)))

typedef int32_t (*body_t)(void *frame, int64_t claim, int64_t thread);

struct job {{  /* what one thread writes while others look at something else is on lines of its own */
  int32_t busy LINE, stopped, broken, sleepers;
  int64_t inside LINE;
  int64_t generation LINE, open;
  int64_t taken LINE;  /* claims from the front, and above 32 bits those from the back */
  int64_t claims LINE, threads;
  body_t body;
  void *frame;
  pthread_mutex_t lock LINE;
  pthread_cond_t called LINE;
}};

struct team {{
  int32_t version, size;
  void *share;
  char private[{PRIVATE_BYTES}];
}};

_Static_assert(sizeof(struct job) + 64 <= {PRIVATE_BYTES}, "the job has no room in the team");

static struct job *job_of(struct team *team)
{{
  return (struct job *)(((uintptr_t)team->private + 63) & ~(uintptr_t)63);
}}

static void pause(void)
{{
#if defined __x86_64__ || defined __i386__
  __builtin_ia32_pause();
#elif defined __aarch64__
  __asm__ volatile("yield");
#endif
}}

void ocannl_team_start(struct team *team)
{{
  struct job *job = job_of(team);
  memset(job, 0, sizeof *job);
  pthread_mutex_init(&job->lock, 0);
  pthread_cond_init(&job->called, 0);
}}

static void call(struct job *job)
{{
  pthread_mutex_lock(&job->lock);
  pthread_cond_broadcast(&job->called);
  pthread_mutex_unlock(&job->lock);
}}

void ocannl_team_stop(struct team *team)
{{
  struct job *job = job_of(team);
  STORE(job->stopped, 1);
  call(job);
}}

static void claim(struct job *job, int64_t thread)
{{
  body_t body = job->body;
  void *frame = job->frame;
  int64_t claims = job->claims;
  while (!LOAD(job->broken)) {{
    int64_t taken = ADD(job->taken, thread & 1 ? (int64_t)1 << 32 : 1), first = taken & 0xFFFFFFFF, last = taken >> 32;
    if (first + last >= claims) break;
    if (body(frame, thread & 1 ? claims - 1 - last : first, thread)) STORE(job->broken, 1);
  }}
}}

static int32_t alone(body_t body, void *frame, int64_t claims)
{{
  for (int64_t n = 0; n < claims; n++)
    if (body(frame, n, 0)) return 1;
  return 0;
}}

int32_t ocannl_team_share(struct team *team, body_t body, void *frame, int64_t claims, int64_t threads)
{{
  struct job *job = job_of(team);
  int32_t idle = 0;
  if (LOAD(team->size) < 2 || threads < 2 || claims < 2
      || !__atomic_compare_exchange_n(&job->busy, &idle, 1, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
    return alone(body, frame, claims);
  job->body = body;
  job->frame = frame;
  job->claims = claims;
  job->threads = threads;
  STORE(job->broken, 0);
  STORE(job->taken, 0);
  STORE(job->open, job->generation + 1);
  STORE(job->generation, job->generation + 1);
  if (LOAD(job->sleepers)) call(job);
  claim(job, 0);
  STORE(job->open, 0);
  for (int n = 0; LOAD(job->inside); n++)
    if (n < SPINS) pause();
    else sched_yield();
  int32_t broken = LOAD(job->broken);
  STORE(job->busy, 0);
  return broken;
}}

void ocannl_team_work(struct team *team, int64_t thread)
{{
  struct job *job = job_of(team);
  int64_t seen = 0;
  for (;;) {{
    for (int n = 0; n < SPINS && LOAD(job->generation) == seen && !LOAD(job->stopped); n++) pause();
    if (LOAD(job->generation) == seen && !LOAD(job->stopped)) {{
      pthread_mutex_lock(&job->lock);
      ADD(job->sleepers, 1);
      while (LOAD(job->generation) == seen && !LOAD(job->stopped)) pthread_cond_wait(&job->called, &job->lock);
      ADD(job->sleepers, -1);
      pthread_mutex_unlock(&job->lock);
    }}
    if (LOAD(job->stopped)) return;
    seen = LOAD(job->generation);
    ADD(job->inside, 1);
    if (LOAD(job->open) == seen && thread < job->threads) claim(job, thread);
    ADD(job->inside, -1);
  }}
}}
"""
