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

static inline float bits_f32(uint32_t x)
{
  union { uint32_t bits; float number; } held = { x };
  return held.number;
}

static inline float bfloat16_to_f32(uint16_t x)
{
  return bits_f32((uint32_t)x << 16);
}

static inline uint32_t f32_bits(float x)
{
  union { float number; uint32_t bits; } held = { x };
  return held.bits;
}

static inline uint16_t f32_to_bfloat16(float x)
{
  uint32_t bits = f32_bits(x);
  return (uint16_t)((x != x ? bits | 0x400000u : bits + 0x7FFFu + (bits >> 16 & 1)) >> 16);
}

static inline int64_t floor_div(int64_t x, int64_t n)
{
  return x / n - (x % n < 0);
}

static inline int64_t most(int64_t x, int64_t y)
{
  return x > y ? x : y;
}

/* proc border */
/*   x : bfloat16[9]    in */
/*   s : f32[9]         arena at 64 */
/*   y : bfloat16[5,5]  out */

static __attribute__((noinline)) void border_1(float *restrict s)
{
  for (int64_t c = 0; c < 9; c++) {
    s[c] = 0.0f;
  }
}

CONDITIONAL_LOADS static __attribute__((noinline)) void border_2(
    float *restrict s,
    const uint16_t *restrict x)
{
  for (int64_t d = 0; d < 9; d++) {
    for (int64_t t = 0; t < 3; t++) {
      s[d] += d + t >= 1 && d + t <= 9 ? bfloat16_to_f32(x[d + t - 1]) : 0.1f;
    }
  }
}

CONDITIONAL_LOADS static __attribute__((noinline)) void border_3(
    const float *restrict s,
    uint16_t *restrict y)
{
  for (int64_t i = 0; i < 5; i++) {
    const float half = s[2 * i] / 2.0f;
    for (int64_t j = 0; j < 5; j++) {
      if (i >= j) {
        y[5 * i + j] = f32_to_bfloat16(half);
      } else {
        y[5 * i + j] = 0x0000;
      }
    }
  }
}

static __attribute__((noinline)) void border_4(uint16_t *restrict y)
{
  for (int64_t m = 0; m < 5; m++) {
    for (int64_t v = most(floor_div(2 * m - 3, 3), 0); v < (m + 4) >> 1; v++) {
      y[5 * v + m] = 0xBF80;
    }
  }
}

int ocannl_border(void *const addresses[], const int64_t symbols[], struct control *control)
{
  uint16_t *x = addresses[0];
  uint16_t *y = addresses[1];
  char *arena = addresses[2];
  float *s = (float *)(arena + 64);
  border_1(s);
  border_2(s, x);
  border_3(s, y);
  border_4(y);
  return 0;
}

