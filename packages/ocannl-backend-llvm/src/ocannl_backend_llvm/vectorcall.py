"""The vectorcall entry point of programs, as LLVM IR: see `direct` in `ocannl.codegen.abi`."""

DIRECT = "ocannl-direct"  # not a symbol of a program, which begins with `ocannl.`
TEXT = f"""
define ptr @{DIRECT}(ptr %self, ptr %args, i64 %positional, ptr %names) nounwind {{
  %address = call ptr @PyTuple_GetItem(ptr %self, i64 0)
  %frame = call ptr @PyLong_AsVoidPtr(ptr %address)
  %epoch.at = getelementptr inbounds i64, ptr %frame, i64 3
  %epoch.ptr = load ptr, ptr %epoch.at
  %epoch = load i64, ptr %epoch.ptr
  %checked.epoch.at = getelementptr inbounds i64, ptr %frame, i64 4
  %checked.epoch.ptr = load ptr, ptr %checked.epoch.at
  %checked.epoch = load i64, ptr %checked.epoch.ptr
  %is.current = icmp eq i64 %epoch, %checked.epoch
  %no.positional = icmp eq i64 %positional, 0
  %allowed = and i1 %is.current, %no.positional
  br i1 %allowed, label %sizes, label %fallback
sizes:
  %count.at = getelementptr inbounds i64, ptr %frame, i64 5
  %count = load i64, ptr %count.at
  %ranges.at = getelementptr inbounds i64, ptr %frame, i64 6
  %ranges = load ptr, ptr %ranges.at
  %values = alloca i64, i64 %count
  %overflow = alloca i32
  %no.names = icmp eq ptr %names, null
  br i1 %no.names, label %sized, label %measure
measure:
  %size = call i64 @PyTuple_Size(ptr %names)
  br label %sized
sized:
  %num.names = phi i64 [ 0, %sizes ], [ %size, %measure ]
  %fits = icmp eq i64 %num.names, %count
  br i1 %fits, label %next, label %fallback
next:
  %n = phi i64 [ 0, %sized ], [ %following, %store ]
  %more = icmp slt i64 %n, %count
  br i1 %more, label %check, label %run
check:
  %following = add i64 %n, 1
  %name = call ptr @PyTuple_GetItem(ptr %names, i64 %n)
  %row = mul i64 %n, 3
  %expected.at = getelementptr inbounds i64, ptr %ranges, i64 %row
  %expected = load ptr, ptr %expected.at
  %same = icmp eq ptr %name, %expected
  br i1 %same, label %kind, label %fallback
kind:
  %value.at = getelementptr inbounds ptr, ptr %args, i64 %n
  %value = load ptr, ptr %value.at
  %type = call ptr @PyObject_Type(ptr %value)
  call void @Py_DecRef(ptr %type)
  %is.int = icmp eq ptr %type, @PyLong_Type
  br i1 %is.int, label %read, label %fallback
read:
  %number = call i64 @PyLong_AsLongLongAndOverflow(ptr %value, ptr %overflow)
  %over = load i32, ptr %overflow
  %lo.at = getelementptr inbounds i64, ptr %expected.at, i64 1
  %lo = load i64, ptr %lo.at
  %hi.at = getelementptr inbounds i64, ptr %expected.at, i64 2
  %hi = load i64, ptr %hi.at
  %small = icmp eq i32 %over, 0
  %above = icmp sge i64 %number, %lo
  %below = icmp sle i64 %number, %hi
  %between = and i1 %above, %below
  %in.bounds = and i1 %small, %between
  br i1 %in.bounds, label %store, label %fallback
store:
  %value.ptr = getelementptr inbounds i64, ptr %values, i64 %n
  store i64 %number, ptr %value.ptr
  br label %next
run:
  %program = load ptr, ptr %frame
  %addresses.at = getelementptr inbounds i64, ptr %frame, i64 1
  %addresses = load ptr, ptr %addresses.at
  %control.at = getelementptr inbounds i64, ptr %frame, i64 2
  %control = load ptr, ptr %control.at
  %left = call i32 %program(ptr %addresses, ptr %values, ptr %control)
  call void @Py_IncRef(ptr @_Py_NoneStruct)
  ret ptr @_Py_NoneStruct
fallback:
  %callable = call ptr @PyTuple_GetItem(ptr %self, i64 1)
  %result = call ptr @PyObject_Vectorcall(ptr %callable, ptr %args, i64 %positional, ptr %names)
  ret ptr %result
}}
@_Py_NoneStruct = external global i8
@PyLong_Type = external global i8
declare ptr @PyTuple_GetItem(ptr, i64)
declare i64 @PyTuple_Size(ptr)
declare ptr @PyLong_AsVoidPtr(ptr)
declare i64 @PyLong_AsLongLongAndOverflow(ptr, ptr)
declare ptr @PyObject_Type(ptr)
declare ptr @PyObject_Vectorcall(ptr, ptr, i64, ptr)
declare void @Py_IncRef(ptr)
declare void @Py_DecRef(ptr)
"""
