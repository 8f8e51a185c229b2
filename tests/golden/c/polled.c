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

/* proc polled */
/*   x : f32[4,6]  inout */

static __attribute__((noinline)) int polled_1(float *restrict x, struct control *control)
{
  for (int64_t i = 0; i < 4; i++) {
    if (poll(control)) return 1;
    for (int64_t j = 0; j < 6; j++) {
      x[6 * i + j] *= 2.0f;
    }
  }
  return 0;
}

static __attribute__((noinline)) int polled_2(struct control *control)
{
  if (poll(control)) return 1;
  return 0;
}

int ocannl_polled(void *const addresses[], const int64_t symbols[], struct control *control)
{
  float *x = addresses[0];
  int cancelled = 0;
  void *thread = control->release();
  if ((cancelled = polled_1(x, control))) goto leave;
  if ((cancelled = polled_2(control))) goto leave;
leave:
  control->acquire(thread);
  return cancelled;
}

