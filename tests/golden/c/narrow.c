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

double fabs(double);

static inline uint32_t f32_bits(float x)
{
  union { float number; uint32_t bits; } held = { x };
  return held.bits;
}

static inline float bits_f32(uint32_t x)
{
  union { uint32_t bits; float number; } held = { x };
  return held.number;
}

static inline float f16_to_f32(uint16_t x)
{
#if defined __FLT16_MAX__ && (defined __F16C__ || defined __aarch64__)
  union { uint16_t bits; _Float16 number; } held = { x };
  return held.number;
#else
  uint32_t sign = (uint32_t)(x & 0x8000u) << 16, mag = x & 0x7FFFu;
  uint32_t small = f32_bits((int)mag * 5.9604645e-08f), normal = (mag << 13) + 0x38000000u;
  uint32_t finite = mag < 0x400u ? small : normal;
  return bits_f32(sign | (mag < 0x7C00u ? finite : mag << 13 | 0x7F800000u));
#endif
}

static inline float float8_e4m3fn_to_f32(uint8_t x)
{
  uint32_t sign = (uint32_t)(x & 0x80u) << 24, mag = x & 0x7Fu;
  uint32_t small = f32_bits((int)mag * 0.001953125f), normal = (mag << 20) + 0x3C000000u;
  uint32_t finite = mag < 0x8u ? small : normal;
  return bits_f32(sign | (mag < 0x7Fu ? finite : mag << 20 | 0x7F800000u));
}

static inline uint16_t f32_to_f16(float x)
{
#if defined __FLT16_MAX__ && (defined __F16C__ || defined __aarch64__)
  union { _Float16 number; uint16_t bits; } held = { (_Float16)x };
  return held.bits;
#else
  uint32_t bits = f32_bits(x), mag = bits & 0x7FFFFFFFu, sign = bits >> 16 & 0x8000u;
  uint32_t normal = (mag + 0xC8000FFFu + (mag >> 13 & 1)) >> 13;
  uint32_t small = f32_bits(bits_f32(mag) + 0.5f) - 0x3F000000u;
  uint32_t near = mag < 0x38800000u ? small : normal;
  uint32_t number = near > 0x7C00u ? 0x7C00u : near;
  return (uint16_t)(sign | (mag > 0x7F800000u ? 0x7E00u : number));
#endif
}

static inline float f64_to_odd_f32(double x)
{
  float near = (float)x;
  uint32_t cut = f32_bits(near) - (fabs((double)near) > fabs(x));
  return bits_f32(cut | (near < x || near > x));
}

static inline uint8_t f32_to_u8(float x)
{
  return !(x > 0) ? 0 : x >= 256.0f ? 255 : (uint8_t)x;
}

static inline int32_t f32_to_i32(float x)
{
  return x != x ? 0 : x < -2147483648.0f ? (-2147483647 - 1) : x >= 2147483648.0f ? 2147483647 : (int32_t)x;
}

/* proc narrow(n in -9..10) */
/*   w     : float8_e4m3fn[8]  in */
/*   x     : f64[8]            in */
/*   y     : f16[8]            inout */
/*   flags : u8[8]             out */

CONDITIONAL_LOADS static __attribute__((noinline)) void narrow_1(
    uint16_t *restrict y,
    const uint8_t *restrict w,
    const double *restrict x,
    uint8_t *restrict flags,
    int64_t n)
{
  for (int64_t i = 0; i < 8; i++) {
    y[i] = f32_to_f16(f16_to_f32(f32_to_f16(f16_to_f32(y[i]) * f16_to_f32(f32_to_f16(float8_e4m3fn_to_f32(w[i]))))) - f16_to_f32(f32_to_f16(f64_to_odd_f32(x[i]))));
    flags[i] = ((f32_to_u8(float8_e4m3fn_to_f32(w[i])) != 0) & (f32_to_i32(float8_e4m3fn_to_f32(w[i])) < (int32_t)n)) ? 7 : (uint8_t)-flags[i];
  }
}

int ocannl_narrow(void *const addresses[], const int64_t symbols[], struct control *control)
{
  uint8_t *w = addresses[0];
  double *x = addresses[1];
  uint16_t *y = addresses[2];
  uint8_t *flags = addresses[3];
  int64_t n = symbols[0];
  narrow_1(y, w, x, flags, n);
  return 0;
}

