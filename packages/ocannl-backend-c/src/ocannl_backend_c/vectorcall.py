"""The vectorcall entry point of programs, in C: see `direct` in `ocannl.codegen.abi`."""

DIRECT = "direct"  # no clash: symbols of programs have a prefix
TEXT = """
struct frame {
  int32_t (*program)(void *const *, const int64_t *, struct control *);
  void *const *addresses;
  struct control *control;
  const int64_t *epoch, *checked_epoch;
  int64_t count;
  const struct range { void *name; int64_t lo, hi; } *ranges;
};

extern char _Py_NoneStruct, PyLong_Type;
void *PyTuple_GetItem(void *, int64_t);
int64_t PyTuple_Size(void *);
void *PyLong_AsVoidPtr(void *);
long long PyLong_AsLongLongAndOverflow(void *, int *);
void *PyObject_Type(void *);
void *PyObject_Vectorcall(void *, void *const *, uint64_t, void *);
void Py_IncRef(void *);
void Py_DecRef(void *);

static int read_symbols(const struct frame *frame, void *const *args, void *names, int64_t *values)
{
  for (int64_t n = 0; n < frame->count; n++) {
    const struct range *range = &frame->ranges[n];
    if (PyTuple_GetItem(names, n) != range->name) return 0;
    void *type = PyObject_Type(args[n]);
    Py_DecRef(type);
    if (type != &PyLong_Type) return 0;
    int overflow;
    values[n] = PyLong_AsLongLongAndOverflow(args[n], &overflow);
    if (overflow || values[n] < range->lo || values[n] > range->hi) return 0;
  }
  return 1;
}

void *direct(void *self, void *const *args, int64_t positional, void *names)
{
  const struct frame *frame = PyLong_AsVoidPtr(PyTuple_GetItem(self, 0));
  int64_t values[frame->count + 1];
  if (*frame->epoch == *frame->checked_epoch && !positional && frame->count == (names ? PyTuple_Size(names) : 0)
      && read_symbols(frame, args, names, values)) {
    frame->program(frame->addresses, values, frame->control);
    Py_IncRef(&_Py_NoneStruct);
    return &_Py_NoneStruct;
  }
  return PyObject_Vectorcall(PyTuple_GetItem(self, 1), args, (uint64_t)positional, names);
}
"""
