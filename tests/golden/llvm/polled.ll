; proc polled
;   x : f32[4,6]  inout

;   for i in 0..4:
;     poll
;     for j in 0..6:
;       x[i, j] *= 2
define i1 @ocannl.polled.1(ptr noalias %x, ptr %control) nounwind "prefer-vector-width"="512" {
  %i.3 = alloca i64
  %j.9 = alloca i64
  store i64 0, ptr %i.3
  br label %i.1
i.1:
  %i.4 = load i64, ptr %i.3
  %ix.11 = mul nsw i64 %i.4, 6
  %cancelled.6 = call i1 @ocannl-poll(ptr %control)
  br i1 %cancelled.6, label %leave, label %go.on.5
go.on.5:
  store i64 0, ptr %j.9
  br label %j.7
j.7:
  %j.10 = load i64, ptr %j.9
  %ix.12 = add nsw i64 %ix.11, %j.10
  %at.13 = getelementptr inbounds float, ptr %x, i64 %ix.12
  %x.14 = load float, ptr %at.13
  %v.15 = fmul float %x.14, 2.0
  store float %v.15, ptr %at.13
  %j.16 = add nsw i64 %j.10, 1
  store i64 %j.16, ptr %j.9
  %more.17 = icmp slt i64 %j.16, 6
  br i1 %more.17, label %j.7, label %j.end.8
j.end.8:
  %i.18 = add nsw i64 %i.4, 1
  store i64 %i.18, ptr %i.3
  %more.19 = icmp slt i64 %i.18, 4
  br i1 %more.19, label %i.1, label %i.end.2
i.end.2:
  ret i1 false
leave:
  ret i1 true
}

;   poll
define i1 @ocannl.polled.2(ptr %control) nounwind "prefer-vector-width"="512" {
  %cancelled.2 = call i1 @ocannl-poll(ptr %control)
  br i1 %cancelled.2, label %leave, label %go.on.1
go.on.1:
  ret i1 false
leave:
  ret i1 true
}

define i32 @ocannl.polled(ptr %addresses, ptr %syms, ptr %control) nounwind {
  %x.1 = load ptr, ptr %addresses
  %at.2 = getelementptr inbounds ptr, ptr %control, i64 2
  %release.3 = load ptr, ptr %at.2
  %thread.4 = call ptr %release.3()
  %cancelled.7 = call i1 @ocannl.polled.1(ptr %x.1, ptr %control)
  br i1 %cancelled.7, label %leave.5, label %after.6
after.6:
  %cancelled.9 = call i1 @ocannl.polled.2(ptr %control)
  br i1 %cancelled.9, label %leave.5, label %after.8
after.8:
  %at.10 = getelementptr inbounds ptr, ptr %control, i64 3
  %acquire.11 = load ptr, ptr %at.10
  call void %acquire.11(ptr %thread.4)
  ret i32 0
leave.5:
  %at.12 = getelementptr inbounds ptr, ptr %control, i64 3
  %acquire.13 = load ptr, ptr %at.12
  call void %acquire.13(ptr %thread.4)
  ret i32 1
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
