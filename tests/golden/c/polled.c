/* GCC before 14 may take the wrong cells where it vectorizes loads under a condition: its bug 114375. */
#if defined __GNUC__ && __GNUC__ < 14 && !defined __clang__
#define CHOOSING __attribute__((optimize("no-tree-loop-if-convert")))
#else
#define CHOOSING
#endif

typedef __UINT8_TYPE__ uint8_t;
typedef __UINT16_TYPE__ uint16_t;
typedef __UINT32_TYPE__ uint32_t;
typedef __UINT64_TYPE__ uint64_t;
typedef __INT32_TYPE__ int32_t;
typedef __INT64_TYPE__ int64_t;

struct control {  /* how a program lets other threads run Python, and hears that it is to leave */
  volatile int32_t cancel;
  int32_t version;
  void *(*release)(void);
  void (*acquire)(void *);
  int (*ensure)(void);
  void (*restore)(int);
  int (*signals)(void);
};

static __attribute__((noinline)) int poll(struct control *control)
{
  if (control->cancel) return 1;
  if (!control->signals) return 0;
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
  if ((cancelled = polled_1(x, control))) goto leave;
  if ((cancelled = polled_2(control))) goto leave;
leave:
  return cancelled;
}

