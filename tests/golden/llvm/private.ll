; proc private
;   x : f32[6,3]  in
;   w : f32[3,2]  in
;   y : f32[6,2]  out

;   for o in 0..2:
;     for k in 0..3:
;       w_2[o, k] = w[k, o]
define void @ocannl.private.1(ptr noalias %w_2, ptr noalias %w) nounwind "prefer-vector-width"="512" {
  %o.3 = alloca i64
  %k.7 = alloca i64
  store i64 0, ptr %o.3
  br label %o.1
o.1:
  %o.4 = load i64, ptr %o.3
  %ix.13 = mul nsw i64 %o.4, 3
  store i64 0, ptr %k.7
  br label %k.5
k.5:
  %k.8 = load i64, ptr %k.7
  %ix.9 = mul nsw i64 %k.8, 2
  %ix.10 = add nsw i64 %o.4, %ix.9
  %ix.14 = add nsw i64 %ix.13, %k.8
  %at.11 = getelementptr inbounds float, ptr %w, i64 %ix.10
  %w.12 = load float, ptr %at.11
  %at.15 = getelementptr inbounds float, ptr %w_2, i64 %ix.14
  store float %w.12, ptr %at.15
  %k.16 = add nsw i64 %k.8, 1
  store i64 %k.16, ptr %k.7
  %more.17 = icmp slt i64 %k.16, 3
  br i1 %more.17, label %k.5, label %k.end.6
k.end.6:
  %o.18 = add nsw i64 %o.4, 1
  store i64 %o.18, ptr %o.3
  %more.19 = icmp slt i64 %o.18, 2
  br i1 %more.19, label %o.1, label %o.end.2
o.end.2:
  ret void
}

;   scope:
;     private w_2: f32[2,3]
;     for o in 0..2:
;       for k in 0..3:
;         w_2[o, k] = w[k, o]
;     parallel(chunk=2) for i in 0..6:
;       for j in 0..2:
;         y[i, j] = 0
;         for m in 0..3:
;           y[i, j] += x[i, m] * w_2[j, m]
define void @ocannl.private.2(ptr noalias %w, ptr noalias %y, ptr noalias %x, ptr noalias %w_2, i64 %first, i64 %limit) nounwind "prefer-vector-width"="512" {
  %i.3 = alloca i64
  %j.8 = alloca i64
  %m.15 = alloca i64
  store i64 %first, ptr %i.3
  %any.4 = icmp slt i64 %first, %limit
  br i1 %any.4, label %i.1, label %i.end.2
i.1:
  %i.5 = load i64, ptr %i.3
  %ix.10 = mul nsw i64 %i.5, 2
  %ix.19 = mul nsw i64 %i.5, 3
  store i64 0, ptr %j.8
  br label %j.6
j.6:
  %j.9 = load i64, ptr %j.8
  %ix.11 = add nsw i64 %ix.10, %j.9
  %ix.23 = mul nsw i64 %j.9, 3
  %at.12 = getelementptr inbounds float, ptr %y, i64 %ix.11
  store float 0.0, ptr %at.12
  store i64 0, ptr %m.15
  br label %m.13
m.13:
  %m.16 = load i64, ptr %m.15
  %ix.20 = add nsw i64 %ix.19, %m.16
  %ix.24 = add nsw i64 %ix.23, %m.16
  %at.17 = getelementptr inbounds float, ptr %y, i64 %ix.11
  %y.18 = load float, ptr %at.17
  %at.21 = getelementptr inbounds float, ptr %x, i64 %ix.20
  %x.22 = load float, ptr %at.21
  %at.25 = getelementptr inbounds float, ptr %w_2, i64 %ix.24
  %w_2.26 = load float, ptr %at.25
  %v.27 = call float @llvm.fmuladd.f32(float %x.22, float %w_2.26, float %y.18)
  store float %v.27, ptr %at.17
  %m.28 = add nsw i64 %m.16, 1
  store i64 %m.28, ptr %m.15
  %more.29 = icmp slt i64 %m.28, 3
  br i1 %more.29, label %m.13, label %m.end.14
m.end.14:
  %j.30 = add nsw i64 %j.9, 1
  store i64 %j.30, ptr %j.8
  %more.31 = icmp slt i64 %j.30, 2
  br i1 %more.31, label %j.6, label %j.end.7
j.end.7:
  %i.32 = add nsw i64 %i.5, 1
  store i64 %i.32, ptr %i.3
  %more.33 = icmp slt i64 %i.32, %limit
  br i1 %more.33, label %i.1, label %i.end.2
i.end.2:
  ret void
}

define i32 @ocannl.private.2.chunk(ptr %frame, i64 %chunk, i64 %thread) nounwind {
  %x.1 = load ptr, ptr %frame
  %at.2 = getelementptr inbounds ptr, ptr %frame, i64 1
  %x.3 = load ptr, ptr %at.2
  %at.4 = getelementptr inbounds ptr, ptr %frame, i64 2
  %x.5 = load ptr, ptr %at.4
  %at.6 = getelementptr inbounds ptr, ptr %frame, i64 3
  %control.7 = load ptr, ptr %at.6
  %caller.8 = icmp eq i64 %thread, 0
  %at.9 = getelementptr inbounds ptr, ptr %control.7, i64 11
  %without.signals.10 = load ptr, ptr %at.9
  %v.11 = select i1 %caller.8, ptr %control.7, ptr %without.signals.10
  %phase.15 = urem i64 %chunk, 71428
  %v.16 = icmp eq i64 %phase.15, 71427
  br i1 %v.16, label %poll.12, label %work.13
poll.12:
  %cancelled.17 = call i1 @ocannl-poll(ptr %v.11)
  br i1 %cancelled.17, label %leave.14, label %work.13
work.13:
  %at.18 = getelementptr inbounds i64, ptr %frame, i64 4
  %filled.19 = load i64, ptr %at.18
  %start.20 = mul nsw i64 %thread, 524288
  %at.21 = getelementptr inbounds ptr, ptr %control.7, i64 12
  %private.22 = load ptr, ptr %at.21
  %private.23 = getelementptr inbounds i8, ptr %private.22, i64 %start.20
  %w_2.24 = getelementptr inbounds i8, ptr %private.23, i64 64
  %last.27 = load i64, ptr %private.23
  %is.filled.28 = icmp eq i64 %last.27, %filled.19
  br i1 %is.filled.28, label %filled.26, label %fill.25
fill.25:
  call void @ocannl.private.1(ptr %w_2.24, ptr %x.1)
  store i64 %filled.19, ptr %private.23
  br label %filled.26
filled.26:
  %v.29 = mul nsw i64 %chunk, 2
  %first.30 = add nsw i64 %v.29, 0
  %end.31 = add nsw i64 %first.30, 2
  %v.32 = call i64 @llvm.smin.i64(i64 %end.31, i64 6)
  call void @ocannl.private.2(ptr %x.1, ptr %x.3, ptr %x.5, ptr %w_2.24, i64 %first.30, i64 %v.32)
  ret i32 0
leave.14:
  ret i32 1
}

define i32 @ocannl.private(ptr %addresses, ptr %syms, ptr %control) nounwind {
  %x.1 = load ptr, ptr %addresses
  %at.2 = getelementptr inbounds ptr, ptr %addresses, i64 1
  %w.3 = load ptr, ptr %at.2
  %at.4 = getelementptr inbounds ptr, ptr %addresses, i64 2
  %y.5 = load ptr, ptr %at.4
  %at.7 = getelementptr inbounds i64, ptr %control, i64 13
  %filled.8 = load i64, ptr %at.7
  %filled.9 = add i64 %filled.8, 1
  store i64 %filled.9, ptr %at.7
  %frame.10 = alloca [5 x i64]
  store ptr %w.3, ptr %frame.10
  %at.11 = getelementptr inbounds i64, ptr %frame.10, i64 1
  store ptr %y.5, ptr %at.11
  %at.12 = getelementptr inbounds i64, ptr %frame.10, i64 2
  store ptr %x.1, ptr %at.12
  %at.13 = getelementptr inbounds i64, ptr %frame.10, i64 3
  store ptr %control, ptr %at.13
  %at.14 = getelementptr inbounds i64, ptr %frame.10, i64 4
  store i64 %filled.9, ptr %at.14
  %cancelled.16 = call i1 @ocannl-parallel-for(ptr %control, ptr @ocannl.private.2.chunk, ptr %frame.10, i64 3)
  br i1 %cancelled.16, label %leave.6, label %after.15
after.15:
  ret i32 0
leave.6:
  ret i32 1
}

define i1 @ocannl-parallel-for(ptr %control, ptr %body, ptr %frame, i64 %num.chunks) nounwind {
  %pool.at = getelementptr inbounds ptr, ptr %control, i64 9
  %pool = load ptr, ptr %pool.at
  %threads.at = getelementptr inbounds ptr, ptr %control, i64 10
  %threads = load i64, ptr %threads.at
  %none = icmp eq ptr %pool, null
  br i1 %none, label %next, label %parallel
parallel:
  %parallel.for.at = getelementptr inbounds ptr, ptr %pool, i64 1
  %parallel.for = load ptr, ptr %parallel.for.at
  %status = call i32 %parallel.for(ptr %pool, ptr %body, ptr %frame, i64 %num.chunks, i64 %threads)
  %cancelled = icmp ne i32 %status, 0
  ret i1 %cancelled
next:
  %chunk = phi i64 [ 0, %0 ], [ %next.chunk, %run ]
  %more = icmp slt i64 %chunk, %num.chunks
  br i1 %more, label %run, label %done
run:
  %result = call i32 %body(ptr %frame, i64 %chunk, i64 0)
  %next.chunk = add i64 %chunk, 1
  %ok = icmp eq i32 %result, 0
  br i1 %ok, label %next, label %cancelled.chunk
done:
  ret i1 false
cancelled.chunk:
  ret i1 true
}

define i1 @ocannl-poll(ptr %control) nounwind noinline {
  %cancel.at = getelementptr inbounds ptr, ptr %control, i64 1
  %cancel = load ptr, ptr %cancel.at
  %flag = load volatile i32, ptr %cancel
  %cancelled = icmp ne i32 %flag, 0
  br i1 %cancelled, label %leave, label %uncancelled
uncancelled:
  %signals.at = getelementptr inbounds ptr, ptr %control, i64 6
  %signals = load ptr, ptr %signals.at
  %no.signals = icmp eq ptr %signals, null
  br i1 %no.signals, label %continue, label %clock.call
clock.call:
  %clock.at = getelementptr inbounds ptr, ptr %control, i64 7
  %clock = load ptr, ptr %clock.at
  %checked.at = getelementptr inbounds ptr, ptr %control, i64 8
  %checked = load i64, ptr %checked.at
  %id.at = getelementptr inbounds i32, ptr %control, i64 1
  %id = load i32, ptr %id.at
  %time = alloca [2 x i64]
  %status = call i32 %clock(i32 %id, ptr %time)
  %seconds = load i64, ptr %time
  %nanoseconds.at = getelementptr inbounds i64, ptr %time, i64 1
  %nanoseconds = load i64, ptr %nanoseconds.at
  %seconds.ns = mul i64 %seconds, 1000000000
  %now = add i64 %seconds.ns, %nanoseconds
  %since = sub i64 %now, %checked
  %long = icmp sge i64 %since, 20000000
  br i1 %long, label %check, label %continue
check:
  %ensure.at = getelementptr inbounds ptr, ptr %control, i64 4
  %ensure = load ptr, ptr %ensure.at
  %restore.at = getelementptr inbounds ptr, ptr %control, i64 5
  %restore = load ptr, ptr %restore.at
  store i64 %now, ptr %checked.at
  %state = call i32 %ensure()
  %raised = call i32 %signals()
  call void %restore(i32 %state)
  %interrupted = icmp ne i32 %raised, 0
  br i1 %interrupted, label %leave, label %continue
leave:
  ret i1 true
continue:
  ret i1 false
}

declare float @llvm.fmuladd.f32(float, float, float)
declare i64 @llvm.smin.i64(i64, i64)
