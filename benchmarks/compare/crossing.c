/* How many nanoseconds a cache line takes from one core to another and back, at best: cores that share a cache need a
   quarter of the time, and a virtual machine is given now these and now those.

   cc -O2 -pthread crossing.c -o crossing && ./crossing */

#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <time.h>

enum { TURNS = 1000, REPEATS = 40, PATIENCE = 10000 };

static int turn __attribute__((aligned(128)));

static void pass(int from, int to) {
  for (int i = from; i < to; i += 2) {
    for (int n = 0; __atomic_load_n(&turn, __ATOMIC_ACQUIRE) != i; n++)
      if (n > PATIENCE) sched_yield(); /* both may be on one core */
    __atomic_store_n(&turn, i + 1, __ATOMIC_RELEASE);
  }
}

static void stay(int nth) { /* on this one of the cores that there are */
  (void)nth;
#ifdef __linux__
  cpu_set_t all, one;
  if (sched_getaffinity(0, sizeof all, &all)) return;
  for (int core = 0; core < CPU_SETSIZE; core++)
    if (CPU_ISSET(core, &all) && nth-- == 0) {
      CPU_ZERO(&one);
      CPU_SET(core, &one);
      sched_setaffinity(0, sizeof one, &one);
    }
#endif
}

static void *other(void *unused) {
  stay(1);
  pass(1, 2 * TURNS * REPEATS);
  return unused;
}

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return 1e9 * t.tv_sec + t.tv_nsec;
}

int main(void) {
  pthread_t thread;
  if (pthread_create(&thread, 0, other, 0)) return 1;
  stay(0); /* later: threads begin with the cores of who makes them */
  double best = 1e18;
  for (int repeat = 0; repeat < REPEATS; repeat++) {
    double start = now();
    pass(2 * TURNS * repeat, 2 * TURNS * (repeat + 1));
    double took = now() - start;
    if (took < best) best = took;
  }
  pthread_join(thread, 0);
  printf("%.1f\n", best / TURNS);
}
