"""The vectorcall entry point of programs, as LLVM IR: see `direct` in `ocannl.codegen.abi`."""

DIRECT = "ocannl-direct"  # not a symbol of a program, which begins with `ocannl.`
TEXT = f"""
define ptr @{DIRECT}(ptr %self, ptr %args, i64 %positional, ptr %names) nounwind {{
  %address = call ptr @PyTuple_GetItem(ptr %self, i64 0)
  %frame = call ptr @PyLong_AsVoidPtr(ptr %address)
  %state.at = getelementptr inbounds i64, ptr %frame, i64 3
  %state.place = load ptr, ptr %state.at
  %state = load i64, ptr %state.place
  %seen.at = getelementptr inbounds i64, ptr %frame, i64 4
  %seen.place = load ptr, ptr %seen.at
  %seen = load i64, ptr %seen.place
  %settled = icmp eq i64 %state, %seen
  %named = icmp eq i64 %positional, 0
  %allowed = and i1 %settled, %named
  br i1 %allowed, label %sizes, label %otherwise
sizes:
  %count.at = getelementptr inbounds i64, ptr %frame, i64 5
  %count = load i64, ptr %count.at
  %given.at = getelementptr inbounds i64, ptr %frame, i64 6
  %given = load ptr, ptr %given.at
  %values = alloca i64, i64 %count
  %overflow = alloca i32
  %nameless = icmp eq ptr %names, null
  br i1 %nameless, label %sized, label %measure
measure:
  %size = call i64 @PyTuple_Size(ptr %names)
  br label %sized
sized:
  %many = phi i64 [ 0, %sizes ], [ %size, %measure ]
  %fits = icmp eq i64 %many, %count
  br i1 %fits, label %next, label %otherwise
next:
  %n = phi i64 [ 0, %sized ], [ %following, %inside ]
  %more = icmp slt i64 %n, %count
  br i1 %more, label %one, label %run
one:
  %following = add i64 %n, 1
  %name = call ptr @PyTuple_GetItem(ptr %names, i64 %n)
  %row = mul i64 %n, 3
  %expected.at = getelementptr inbounds i64, ptr %given, i64 %row
  %expected = load ptr, ptr %expected.at
  %same = icmp eq ptr %name, %expected
  br i1 %same, label %kind, label %otherwise
kind:
  %value.at = getelementptr inbounds ptr, ptr %args, i64 %n
  %value = load ptr, ptr %value.at
  %type = call ptr @PyObject_Type(ptr %value)
  call void @Py_DecRef(ptr %type)
  %whole = icmp eq ptr %type, @PyLong_Type
  br i1 %whole, label %read, label %otherwise
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
  %good = and i1 %small, %between
  br i1 %good, label %inside, label %otherwise
inside:
  %place = getelementptr inbounds i64, ptr %values, i64 %n
  store i64 %number, ptr %place
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
otherwise:
  %other = call ptr @PyTuple_GetItem(ptr %self, i64 1)
  %result = call ptr @PyObject_Vectorcall(ptr %other, ptr %args, i64 %positional, ptr %names)
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
