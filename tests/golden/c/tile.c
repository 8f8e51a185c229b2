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
#define LANES(type, cell) (*(type *)&(cell))
typedef float f32x2 __attribute__((vector_size(8), aligned(4)));
typedef int32_t i32x4 __attribute__((vector_size(16), aligned(4)));
typedef int32_t i32x2 __attribute__((vector_size(8), aligned(4)));

static inline __attribute__((always_inline)) f32x4 all_f32x4(float x)
{
  return (f32x4){ x, x, x, x };
}

static inline __attribute__((always_inline)) f32x2 all_f32x2(float x)
{
  return (f32x2){ x, x };
}

static inline float fma_f32(float x, float y, float z)
{
#if defined FUSED_FMA
  return __builtin_fmaf(x, y, z);
#else
  return x * y + z;
#endif
}

static inline __attribute__((always_inline)) f32x4 fma_f32_x4(f32x4 x, f32x4 y, f32x4 z)
{
#if !defined __clang__ && defined __FMA__
  return __builtin_ia32_vfmaddps(x, y, z);
#elif defined __clang__ && defined FUSED_FMA
  return __builtin_elementwise_fma(x, y, z);
#elif !defined FUSED_FMA
  return x * y + z;
#else
  f32x4 out;
  LANE_LOOP
  for (int n = 0; n < 4; n++) out[n] = fma_f32(x[n], y[n], z[n]);
  return out;
#endif
}

static inline __attribute__((always_inline)) f32x2 fma_f32_x2(f32x2 x, f32x2 y, f32x2 z)
{
#if defined __clang__ && defined FUSED_FMA
  return __builtin_elementwise_fma(x, y, z);
#elif !defined FUSED_FMA
  return x * y + z;
#else
  f32x2 out;
  LANE_LOOP
  for (int n = 0; n < 2; n++) out[n] = fma_f32(x[n], y[n], z[n]);
  return out;
#endif
}

static inline __attribute__((always_inline)) f32x4 pick_f32x4(i32x4 test, f32x4 x, f32x4 y)
{
  return (f32x4)((test & (i32x4)x) | (~test & (i32x4)y));
}

static inline __attribute__((always_inline)) f32x4 relu_f32_x4(f32x4 x)
{
  return pick_f32x4(x < all_f32x4(0), all_f32x4(0), x);
}

static inline __attribute__((always_inline)) float add_lanes_f32x2(f32x2 x)
{
  return x[0] + x[1];
}

static inline __attribute__((always_inline)) float add_lanes_f32x4(f32x4 x)
{
  union { f32x4 whole; f32x2 half[2]; } held = { x };
  return add_lanes_f32x2(held.half[0] + held.half[1]);
}

static inline __attribute__((always_inline)) f32x2 pick_f32x2(i32x2 test, f32x2 x, f32x2 y)
{
  return (f32x2)((test & (i32x2)x) | (~test & (i32x2)y));
}

static inline __attribute__((always_inline)) f32x2 relu_f32_x2(f32x2 x)
{
  return pick_f32x2(x < all_f32x2(0), all_f32x2(0), x);
}

/* proc tile */
/*   w     : f32[2,9]  in */
/*   x     : f32[9,6]  in */
/*   y     : f32[2,6]  out */
/*   total : f32       inout */

static __attribute__((noinline)) void tile_1(
    const float *restrict w,
    const float *restrict x,
    float *restrict y,
    float *restrict total)
{
  float acc[12];
  LANES(f32x4, acc[0]) = all_f32x4(0.0f);
  LANES(f32x2, acc[4]) = all_f32x2(0.0f);
  LANES(f32x4, acc[6]) = all_f32x4(0.0f);
  LANES(f32x2, acc[10]) = all_f32x2(0.0f);
  for (int64_t k = 0; k < 9; k++) {
    const float each = w[k];
    LANES(f32x4, acc[0]) = fma_f32_x4(all_f32x4(each), LANES(f32x4, x[6 * k]), LANES(f32x4, acc[0]));
    LANES(f32x2, acc[4]) = fma_f32_x2(all_f32x2(each), LANES(f32x2, x[6 * k + 4]), LANES(f32x2, acc[4]));
    const float each_2 = w[k + 9];
    LANES(f32x4, acc[6]) = fma_f32_x4(all_f32x4(each_2), LANES(f32x4, x[6 * k]), LANES(f32x4, acc[6]));
    LANES(f32x2, acc[10]) = fma_f32_x2(all_f32x2(each_2), LANES(f32x2, x[6 * k + 4]), LANES(f32x2, acc[10]));
  }
  LANES(f32x4, y[0]) = relu_f32_x4(LANES(f32x4, acc[0]));
  total[0] += add_lanes_f32x4(LANES(f32x4, y[0]));
  LANES(f32x2, y[4]) = relu_f32_x2(LANES(f32x2, acc[4]));
  total[0] += add_lanes_f32x2(LANES(f32x2, y[4]));
  LANES(f32x4, y[6]) = relu_f32_x4(LANES(f32x4, acc[6]));
  total[0] += add_lanes_f32x4(LANES(f32x4, y[6]));
  LANES(f32x2, y[10]) = relu_f32_x2(LANES(f32x2, acc[10]));
  total[0] += add_lanes_f32x2(LANES(f32x2, y[10]));
}

int ocannl_tile(void *const addresses[], const int64_t symbols[], struct control *control)
{
  float *w = addresses[0];
  float *x = addresses[1];
  float *y = addresses[2];
  float *total = addresses[3];
  tile_1(w, x, y, total);
  return 0;
}

