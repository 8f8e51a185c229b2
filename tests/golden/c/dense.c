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

static inline float fma_f32(float x, float y, float z)
{
#if defined FUSED_FMA
  return __builtin_fmaf(x, y, z);
#else
  return x * y + z;
#endif
}

static inline float relu_f32(float x)
{
  return x < 0 ? 0 : x;
}

/* proc dense(n in 0..2) */
/*   x     : f32[2,5,4]  const */
/*   w     : f32[3,4]    in */
/*   b     : f32[3]      in */
/*   y     : f32[5,3]    out */
/*   calls : i32         inout */

/* y */
static __attribute__((noinline)) void dense_1(
    const float *restrict w,
    const float *restrict x,
    float *restrict y,
    const float *restrict b,
    int64_t n)
{
  /* dense layer */
  for (int64_t i = 0; i < 5; i++) {
    for (int64_t j = 0; j < 3; j++) {
      float acc = 0.0f;
      for (int64_t k = 0; k < 4; k++) {
        acc = fma_f32(w[4 * j + k], x[20 * n + 4 * i + k], acc);
      }
      y[3 * i + j] = relu_f32(acc + b[j]);
    }
  }
}

/* calls */
static __attribute__((noinline)) void dense_2(int32_t *restrict calls)
{
  calls[0] += 1;
}

int ocannl_dense(void *const addresses[], const int64_t symbols[], struct control *control)
{
  float *x = addresses[0];
  float *w = addresses[1];
  float *b = addresses[2];
  float *y = addresses[3];
  int32_t *calls = addresses[4];
  int64_t n = symbols[0];
  dense_1(w, x, y, b, n);
  dense_2(calls);
  return 0;
}

