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

static inline float fma_f32(float x, float y, float z)
{
#if defined FUSED_FMA
  return __builtin_fmaf(x, y, z);
#else
  return x * y + z;
#endif
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

/* proc private */
/*   x : f32[6,3]  in */
/*   w : f32[3,2]  in */
/*   y : f32[6,2]  out */

static __attribute__((noinline)) void private_1(float *restrict w_2, const float *restrict w)
{
  for (int64_t o = 0; o < 2; o++) {
    for (int64_t k = 0; k < 3; k++) {
      w_2[3 * o + k] = w[2 * k + o];
    }
  }
}

static __attribute__((noinline)) void private_2(
    const float *restrict w,
    float *restrict y,
    const float *restrict x,
    float *restrict w_2,
    int64_t first,
    int64_t limit)
{
  for (int64_t i = first; i < limit; i++) {
    for (int64_t j = 0; j < 2; j++) {
      y[2 * i + j] = 0.0f;
      for (int64_t m = 0; m < 3; m++) {
        y[2 * i + j] = fma_f32(x[3 * i + m], w_2[3 * j + m], y[2 * i + j]);
      }
    }
  }
}

struct private_2_frame {
  const float *w;
  float *y;
  const float *x;
  struct control *control;
  int64_t filled;
};

static __attribute__((noinline)) int private_2_chunk(void *arg, int64_t chunk, int64_t thread)
{
  struct private_2_frame *frame = arg;
  struct control *control = thread ? frame->control->without_signals : frame->control;
  if (chunk % 71428 == 71427 && poll(control)) return 1;
  char *memory = frame->control->private_arrays + thread * 524288;
  float *w_2 = (float *)(memory + 64);
  if (*(int64_t *)memory != frame->filled) {
    private_1(w_2, frame->w);
    *(int64_t *)memory = frame->filled;
  }
  int64_t first = chunk * 2, limit = first + 2;
  if (limit > 6) limit = 6;
  private_2(frame->w, frame->y, frame->x, w_2, first, limit);
  return 0;
}

int ocannl_private(void *const addresses[], const int64_t symbols[], struct control *control)
{
  float *x = addresses[0];
  float *w = addresses[1];
  float *y = addresses[2];
  int cancelled = 0;
  struct private_2_frame private_2_frame = { w, y, x, control, ++control->filled };
  if ((cancelled = parallel_for(control, private_2_chunk, &private_2_frame, 3))) goto leave;
leave:
  return cancelled;
}

