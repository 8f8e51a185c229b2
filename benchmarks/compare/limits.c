/* What one to all cores can do at best: fused multiply-adds, and bytes through memory. Prints a line of JSON.

   cc -O3 -march=native -pthread limits.c -o limits && ./limits 2 */

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#if defined(__AVX512F__)
enum { BYTES = 64, CHAINS = 16 };
#elif defined(__AVX__)
enum { BYTES = 32, CHAINS = 12 };
#else
enum { BYTES = 16, CHAINS = 12 };
#endif
typedef float lanes __attribute__((vector_size(BYTES)));
enum { LANES = BYTES / 4, TURNS = 20000000, CELLS = 32 << 20, REPEATS = 7 };

static int threads;
static float *a, *b, *c, sink[64];
static pthread_barrier_t barrier;

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec + 1e-9 * t.tv_nsec;
}

static float multiply_adds(void) {
  lanes sums[CHAINS], scale = {0}, shift = {0};
  float total = 0;
  scale += 0.999999f, shift += 1e-7f;
  for (int i = 0; i < CHAINS; i++) sums[i] = shift + (float)i;
  for (long turn = 0; turn < TURNS; turn++)
    for (int i = 0; i < CHAINS; i++) sums[i] = sums[i] * scale + shift;
  for (int i = 0; i < CHAINS; i++)
    for (int k = 0; k < LANES; k++) total += sums[i][k];
  return total;
}

static float triad(long from, long to) {
  for (long i = from; i < to; i++) a[i] = b[i] + 3.0f * c[i];
  return a[from];
}

static float sum(long from, long to) { /* in as many chains as addition takes cycles, and more */
  lanes sums[8] = {{0}};
  float total = 0;
  for (long i = from; i + 8 * LANES <= to; i += 8 * LANES)
    for (int k = 0; k < 8; k++) sums[k] += *(const lanes *)(a + i + k * LANES);
  for (int i = 0; i < 8; i++)
    for (int k = 0; k < LANES; k++) total += sums[i][k];
  return total;
}

static double best[3];

static void *work(void *given) {
  long self = (long)given, share = CELLS / threads / 1024 * 1024, from = share * self, to = from + share;
  for (long i = from; i < to; i++) a[i] = 1, b[i] = 2, c[i] = 3;
  for (int kind = 0; kind < 3; kind++)
    for (int repeat = 0; repeat < REPEATS; repeat++) {
      double start = now(); /* not after: another thread may be through before this one looks at the clock */
      pthread_barrier_wait(&barrier);
      sink[self] += kind == 0 ? multiply_adds() : kind == 1 ? triad(from, to) : sum(from, to);
      pthread_barrier_wait(&barrier);
      double took = now() - start;
      if (self == 0 && (repeat == 0 || took < best[kind])) best[kind] = took;
    }
  return 0;
}

int main(int count, char **given) {
  pthread_t others[64];
  threads = count > 1 ? atoi(given[1]) : 1;
  a = aligned_alloc(64, 4L * CELLS), b = aligned_alloc(64, 4L * CELLS), c = aligned_alloc(64, 4L * CELLS);
  if (threads < 1 || threads > 64 || !a || !b || !c) return 1;
  pthread_barrier_init(&barrier, 0, threads);
  for (long i = 1; i < threads; i++) pthread_create(&others[i], 0, work, (void *)i);
  work(0);
  for (long i = 1; i < threads; i++) pthread_join(others[i], 0);
  double flops = 2.0 * LANES * CHAINS * TURNS * threads;
  printf("{\"fma_gflops\": %.1f, \"triad_gbs\": %.1f, \"sum_gbs\": %.1f}\n", flops / best[0] / 1e9,
         12.0 * CELLS / best[1] / 1e9, 4.0 * CELLS / best[2] / 1e9);
  fprintf(stderr, "%f\n", sink[0]);
}
