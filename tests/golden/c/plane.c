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

typedef float f32x4 __attribute__((vector_size(16), aligned(4)));
typedef int32_t i32x4 __attribute__((vector_size(16), aligned(4)));
#define LANES(type, cell) (*(type *)&(cell))

#ifdef __clang__
#define SHUFFLE(mask, x, y, ...) __builtin_shufflevector(x, y, __VA_ARGS__)
#else
#define SHUFFLE(mask, x, y, ...) __builtin_shuffle(x, y, (mask){ __VA_ARGS__ })
#endif

static inline __attribute__((always_inline)) void take_3_f32x4(f32x4 *y, const float *x, int64_t step)
{
  f32x4 r[4] = { 0 };
  #pragma GCC unroll 16
  for (int n = 0; n < 4; n++) __builtin_memcpy((char *)&r[n % 4] + n / 4 * 4 * sizeof r[0][0], x + n * step, 3 * sizeof *x);
  #pragma GCC unroll 16
  for (int n = 0; n < 2; n++) {
    const int m = n / 1 * 2 + n % 1;
    const f32x4 a = r[m], b = r[m + 1];
    r[m] = SHUFFLE(i32x4, a, b, 0, 4, 2, 6);
    r[m + 1] = SHUFFLE(i32x4, a, b, 1, 5, 3, 7);
  }
  #pragma GCC unroll 16
  for (int n = 0; n < 2; n++) {
    const int m = n / 2 * 4 + n % 2;
    const f32x4 a = r[m], b = r[m + 2];
    r[m] = SHUFFLE(i32x4, a, b, 0, 1, 4, 5);
    r[m + 2] = SHUFFLE(i32x4, a, b, 2, 3, 6, 7);
  }
  #pragma GCC unroll 16
  for (int n = 0; n < 3; n++) y[n] = r[n];
}

static inline __attribute__((always_inline)) f32x4 all_f32x4(float x)
{
  return (f32x4){ x, x, x, x };
}

static inline __attribute__((always_inline)) void put_3_f32x4(float *y, int64_t step, const f32x4 *x)
{
  f32x4 r[4] = { x[0], x[1], x[2], x[2] };
  #pragma GCC unroll 16
  for (int n = 0; n < 2; n++) {
    const int m = n / 1 * 2 + n % 1;
    const f32x4 a = r[m], b = r[m + 1];
    r[m] = SHUFFLE(i32x4, a, b, 0, 4, 2, 6);
    r[m + 1] = SHUFFLE(i32x4, a, b, 1, 5, 3, 7);
  }
  #pragma GCC unroll 16
  for (int n = 0; n < 2; n++) {
    const int m = n / 2 * 4 + n % 2;
    const f32x4 a = r[m], b = r[m + 2];
    r[m] = SHUFFLE(i32x4, a, b, 0, 1, 4, 5);
    r[m + 2] = SHUFFLE(i32x4, a, b, 2, 3, 6, 7);
  }
  #pragma GCC unroll 16
  for (int n = 0; n < 4; n++) __builtin_memcpy(y + n * step, (char *)&r[n % 4] + n / 4 * 4 * sizeof r[0][0], 3 * sizeof *y);
}

/* proc plane */
/*   x : f32[3,4]  in */
/*   z : f32[4,3]  in */
/*   y : f32[4,3]  out */

static __attribute__((noinline)) void plane_1(
    float *restrict y,
    const float *restrict x,
    const float *restrict z)
{
  f32x4 z_2[3];
  take_3_f32x4(z_2, &z[0], 3);
  f32x4 y_2[3];
  y_2[0] = all_f32x4(2.0f) * LANES(f32x4, x[0]) + z_2[0];
  y_2[1] = all_f32x4(2.0f) * LANES(f32x4, x[4]) + z_2[1];
  y_2[2] = all_f32x4(2.0f) * LANES(f32x4, x[8]) + z_2[2];
  put_3_f32x4(&y[0], 3, y_2);
}

int ocannl_plane(void *const addresses[], const int64_t symbols[], struct control *control)
{
  float *x = addresses[0];
  float *z = addresses[1];
  float *y = addresses[2];
  plane_1(y, x, z);
  return 0;
}

