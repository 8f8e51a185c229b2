; proc shared(n in 0..4)
;   x     : f32[4,6]  in
;   first : f32[6]    out

;   parallel(chunk=2) for j in 1..6:
;     first[j] = 0
;     for i in n..4:
;       poll
;       first[j] += x[i, j]
define i1 @ocannl.shared.1(ptr noalias %first, ptr noalias %x, i64 %n, i64 %first_2, i64 %limit, ptr %control) nounwind "prefer-vector-width"="512" {
  %j.3 = alloca i64
  %i.9 = alloca i64
  store i64 %first_2, ptr %j.3
  %any.4 = icmp slt i64 %first_2, %limit
  br i1 %any.4, label %j.1, label %j.end.2
j.1:
  %j.5 = load i64, ptr %j.3
  %at.6 = getelementptr inbounds float, ptr %first, i64 %j.5
  store float 0.0, ptr %at.6
  store i64 %n, ptr %i.9
  %any.10 = icmp slt i64 %n, 4
  br i1 %any.10, label %i.7, label %i.end.8
i.7:
  %i.11 = load i64, ptr %i.9
  %ix.16 = mul nsw i64 %i.11, 6
  %ix.17 = add nsw i64 %j.5, %ix.16
  %cancelled.13 = call i1 @ocannl-poll(ptr %control)
  br i1 %cancelled.13, label %leave, label %go.on.12
go.on.12:
  %at.14 = getelementptr inbounds float, ptr %first, i64 %j.5
  %first.15 = load float, ptr %at.14
  %at.18 = getelementptr inbounds float, ptr %x, i64 %ix.17
  %x.19 = load float, ptr %at.18
  %v.20 = fadd float %first.15, %x.19
  store float %v.20, ptr %at.14
  %i.21 = add nsw i64 %i.11, 1
  store i64 %i.21, ptr %i.9
  %more.22 = icmp slt i64 %i.21, 4
  br i1 %more.22, label %i.7, label %i.end.8
i.end.8:
  %j.23 = add nsw i64 %j.5, 1
  store i64 %j.23, ptr %j.3
  %more.24 = icmp slt i64 %j.23, %limit
  br i1 %more.24, label %j.1, label %j.end.2
j.end.2:
  ret i1 false
leave:
  ret i1 true
}

define i32 @ocannl.shared.1.chunk(ptr %frame, i64 %chunk, i64 %thread) nounwind {
  %x.1 = load ptr, ptr %frame
  %at.2 = getelementptr inbounds ptr, ptr %frame, i64 1
  %x.3 = load ptr, ptr %at.2
  %at.4 = getelementptr inbounds i64, ptr %frame, i64 2
  %x.5 = load i64, ptr %at.4
  %at.6 = getelementptr inbounds ptr, ptr %frame, i64 3
  %control.7 = load ptr, ptr %at.6
  %caller.8 = icmp eq i64 %thread, 0
  %at.9 = getelementptr inbounds ptr, ptr %control.7, i64 11
  %without.signals.10 = load ptr, ptr %at.9
  %v.11 = select i1 %caller.8, ptr %control.7, ptr %without.signals.10
  %phase.15 = urem i64 %chunk, 142857
  %v.16 = icmp eq i64 %phase.15, 142856
  br i1 %v.16, label %poll.12, label %work.13
poll.12:
  %cancelled.17 = call i1 @ocannl-poll(ptr %v.11)
  br i1 %cancelled.17, label %leave.14, label %work.13
work.13:
  %v.18 = mul nsw i64 %chunk, 2
  %first.19 = add nsw i64 %v.18, 1
  %end.20 = add nsw i64 %first.19, 2
  %v.21 = call i64 @llvm.smin.i64(i64 %end.20, i64 6)
  %cancelled.22 = call i1 @ocannl.shared.1(ptr %x.1, ptr %x.3, i64 %x.5, i64 %first.19, i64 %v.21, ptr %v.11)
  %v.23 = zext i1 %cancelled.22 to i32
  ret i32 %v.23
leave.14:
  ret i32 1
}

define i32 @ocannl.shared(ptr %addresses, ptr %syms, ptr %control) nounwind {
  %x.1 = load ptr, ptr %addresses
  %at.2 = getelementptr inbounds ptr, ptr %addresses, i64 1
  %first.3 = load ptr, ptr %at.2
  %n.4 = load i64, ptr %syms
  %at.5 = getelementptr inbounds ptr, ptr %control, i64 2
  %release.6 = load ptr, ptr %at.5
  %thread.7 = call ptr %release.6()
  %frame.9 = alloca [4 x i64]
  store ptr %first.3, ptr %frame.9
  %at.10 = getelementptr inbounds i64, ptr %frame.9, i64 1
  store ptr %x.1, ptr %at.10
  %at.11 = getelementptr inbounds i64, ptr %frame.9, i64 2
  store i64 %n.4, ptr %at.11
  %at.12 = getelementptr inbounds i64, ptr %frame.9, i64 3
  store ptr %control, ptr %at.12
  %cancelled.14 = call i1 @ocannl-parallel-for(ptr %control, ptr @ocannl.shared.1.chunk, ptr %frame.9, i64 3)
  br i1 %cancelled.14, label %leave.8, label %after.13
after.13:
  %at.15 = getelementptr inbounds ptr, ptr %control, i64 3
  %acquire.16 = load ptr, ptr %at.15
  call void %acquire.16(ptr %thread.7)
  ret i32 0
leave.8:
  %at.17 = getelementptr inbounds ptr, ptr %control, i64 3
  %acquire.18 = load ptr, ptr %at.17
  call void %acquire.18(ptr %thread.7)
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

declare i64 @llvm.smin.i64(i64, i64)
