; proc dense(n in 0..2)
;   x     : f32[2,5,4]  const
;   w     : f32[3,4]    in
;   b     : f32[3]      in
;   y     : f32[5,3]    out
;   calls : i32         inout

; y
;   # dense layer
;   for i in 0..5:
;     for j in 0..3:
;       local acc: f32 = 0
;       for k in 0..4:
;         acc += w[j, k] * x[n, i, k]
;       y[i, j] = relu(acc + b[j])
define void @ocannl.dense.1(ptr noalias %w, ptr noalias %x, ptr noalias %y, ptr noalias %b, i64 %n) nounwind "prefer-vector-width"="512" {
  %i.3 = alloca i64
  %j.7 = alloca i64
  %acc.9 = alloca float
  %k.12 = alloca i64
  %ix.19 = mul nsw i64 %n, 20
; dense layer
  store i64 0, ptr %i.3
  br label %i.1
i.1:
  %i.4 = load i64, ptr %i.3
  %ix.20 = mul nsw i64 %i.4, 4
  %ix.21 = add nsw i64 %ix.19, %ix.20
  %ix.34 = mul nsw i64 %i.4, 3
  store i64 0, ptr %j.7
  br label %j.5
j.5:
  %j.8 = load i64, ptr %j.7
  %ix.15 = mul nsw i64 %j.8, 4
  %ix.35 = add nsw i64 %ix.34, %j.8
  store float 0.0, ptr %acc.9
  store i64 0, ptr %k.12
  br label %k.10
k.10:
  %k.13 = load i64, ptr %k.12
  %ix.16 = add nsw i64 %ix.15, %k.13
  %ix.22 = add nsw i64 %ix.21, %k.13
  %acc.14 = load float, ptr %acc.9
  %at.17 = getelementptr inbounds float, ptr %w, i64 %ix.16
  %w.18 = load float, ptr %at.17
  %at.23 = getelementptr inbounds float, ptr %x, i64 %ix.22
  %x.24 = load float, ptr %at.23
  %v.25 = call float @llvm.fmuladd.f32(float %w.18, float %x.24, float %acc.14)
  store float %v.25, ptr %acc.9
  %k.26 = add nsw i64 %k.13, 1
  store i64 %k.26, ptr %k.12
  %more.27 = icmp slt i64 %k.26, 4
  br i1 %more.27, label %k.10, label %k.end.11
k.end.11:
  %acc.28 = load float, ptr %acc.9
  %at.29 = getelementptr inbounds float, ptr %b, i64 %j.8
  %b.30 = load float, ptr %at.29
  %v.31 = fadd float %acc.28, %b.30
  %v.32 = fcmp olt float %v.31, 0.0
  %v.33 = select i1 %v.32, float 0.0, float %v.31
  %at.36 = getelementptr inbounds float, ptr %y, i64 %ix.35
  store float %v.33, ptr %at.36
  %j.37 = add nsw i64 %j.8, 1
  store i64 %j.37, ptr %j.7
  %more.38 = icmp slt i64 %j.37, 3
  br i1 %more.38, label %j.5, label %j.end.6
j.end.6:
  %i.39 = add nsw i64 %i.4, 1
  store i64 %i.39, ptr %i.3
  %more.40 = icmp slt i64 %i.39, 5
  br i1 %more.40, label %i.1, label %i.end.2
i.end.2:
  ret void
}

; calls
;   calls += 1
define void @ocannl.dense.2(ptr noalias %calls) nounwind "prefer-vector-width"="512" {
  %calls.1 = load i32, ptr %calls
  %v.2 = add i32 %calls.1, 1
  store i32 %v.2, ptr %calls
  ret void
}

define i32 @ocannl.dense(ptr %addresses, ptr %syms, ptr %control) nounwind {
  %x.1 = load ptr, ptr %addresses
  %at.2 = getelementptr inbounds ptr, ptr %addresses, i64 1
  %w.3 = load ptr, ptr %at.2
  %at.4 = getelementptr inbounds ptr, ptr %addresses, i64 2
  %b.5 = load ptr, ptr %at.4
  %at.6 = getelementptr inbounds ptr, ptr %addresses, i64 3
  %y.7 = load ptr, ptr %at.6
  %at.8 = getelementptr inbounds ptr, ptr %addresses, i64 4
  %calls.9 = load ptr, ptr %at.8
  %n.10 = load i64, ptr %syms
  call void @ocannl.dense.1(ptr %w.3, ptr %x.1, ptr %y.7, ptr %b.5, i64 %n.10)
  call void @ocannl.dense.2(ptr %calls.9)
  ret i32 0
}

declare float @llvm.fmuladd.f32(float, float, float)
