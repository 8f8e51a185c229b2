/* GCC before 14 may miscompile conditional loads that it vectorizes (bug 114375). */
#if defined __GNUC__ && __GNUC__ < 14 && !defined __clang__
#define CONDITIONAL_LOADS __attribute__((optimize("no-tree-loop-if-convert")))
#else
#define CONDITIONAL_LOADS
#endif

/* Products are fused with additions where the processor has an instruction for it; Clang does not say so. */
#if defined __FP_FAST_FMAF && defined __FP_FAST_FMA || defined __clang__ && (defined __FMA__ || defined __aarch64__)
#define FUSED_FMA
#endif

/* Loops over the lanes of a vector: GCC vectorizes the loop, Clang the unrolled statements. */
#ifdef __clang__
#define LANE_LOOP _Pragma("clang loop unroll(full)")
#else
#define LANE_LOOP _Pragma("GCC unroll 1")
#endif

typedef __UINT8_TYPE__ uint8_t;
typedef __UINT16_TYPE__ uint16_t;
typedef __UINT32_TYPE__ uint32_t;
typedef __UINT64_TYPE__ uint64_t;
typedef __INT8_TYPE__ int8_t;
typedef __INT16_TYPE__ int16_t;
typedef __INT32_TYPE__ int32_t;
typedef __INT64_TYPE__ int64_t;

struct control {  /* the GIL, cancellation, signals, the clock and the thread pool */
  int32_t version, clock_id;
  volatile int32_t *cancel;
  void *(*release)(void);
  void (*acquire)(void *);
  int (*ensure)(void);
  void (*restore)(int);
  int (*signals)(void);
  int (*clock)(int, int64_t[2]);
  int64_t signals_checked_ns;
  struct thread_pool *pool;
  int64_t threads;
  struct control *without_signals;
  char *private_arrays;
  int64_t filled;
};

struct thread_pool {
  int32_t version, size;
  int32_t (*parallel_for)(
    struct thread_pool *,
    int32_t (*body)(void *frame, int64_t chunk, int64_t thread),
    void *frame,
    int64_t num_chunks,
    int64_t threads);
};

static __attribute__((noinline)) int poll(struct control *control)
{
  if (*control->cancel) return 1;
  if (!control->signals) return 0;
  int64_t time[2];
  control->clock(control->clock_id, time);
  int64_t now = time[0] * 1000000000 + time[1];
  if (now - control->signals_checked_ns < 20000000) return 0;
  control->signals_checked_ns = now;
  int state = control->ensure(), raised = control->signals();
  control->restore(state);
  return raised;
}

static __attribute__((noinline)) int parallel_for(
    struct control *control,
    int32_t (*body)(void *frame, int64_t chunk, int64_t thread),
    void *frame,
    int64_t num_chunks)
{
  struct thread_pool *pool = control->pool;
  if (pool) return pool->parallel_for(pool, body, frame, num_chunks, control->threads);
  for (int64_t chunk = 0; chunk < num_chunks; chunk++)
    if (body(frame, chunk, 0)) return 1;
  return 0;
}

/* proc shared(n in 0..4) */
/*   x     : f32[4,6]  in */
/*   first : f32[6]    out */

static __attribute__((noinline)) int shared_1(
    float *restrict first,
    const float *restrict x,
    int64_t n,
    int64_t first_2,
    int64_t limit,
    struct control *control)
{
  for (int64_t j = first_2; j < limit; j++) {
    first[j] = 0.0f;
    for (int64_t i = n; i < 4; i++) {
      if (poll(control)) return 1;
      first[j] += x[6 * i + j];
    }
  }
  return 0;
}

struct shared_1_frame {
  float *first;
  const float *x;
  int64_t n;
  struct control *control;
};

static __attribute__((noinline)) int shared_1_chunk(void *arg, int64_t chunk, int64_t thread)
{
  struct shared_1_frame *frame = arg;
  struct control *control = thread ? frame->control->without_signals : frame->control;
  if (chunk % 142857 == 142856 && poll(control)) return 1;
  int64_t first = chunk * 2 + 1, limit = first + 2;
  if (limit > 6) limit = 6;
  return shared_1(frame->first, frame->x, frame->n, first, limit, control);
}

int ocannl_shared(void *const addresses[], const int64_t symbols[], struct control *control)
{
  float *x = addresses[0];
  float *first = addresses[1];
  int64_t n = symbols[0];
  int cancelled = 0;
  void *thread = control->release();
  struct shared_1_frame shared_1_frame = { first, x, n, control };
  if ((cancelled = parallel_for(control, shared_1_chunk, &shared_1_frame, 3))) goto leave;
leave:
  control->acquire(thread);
  return cancelled;
}

