; proc border
;   x : bfloat16[9]    in
;   s : f32[9]         arena at 64
;   y : bfloat16[5,5]  out

;   for c in 0..9:
;     s[c] = 0
define void @ocannl.border.1(ptr noalias %s) nounwind "prefer-vector-width"="512" {
  %c.3 = alloca i64
  store i64 0, ptr %c.3
  br label %c.1
c.1:
  %c.4 = load i64, ptr %c.3
  %at.5 = getelementptr inbounds float, ptr %s, i64 %c.4
  store float 0.0, ptr %at.5
  %c.6 = add nsw i64 %c.4, 1
  store i64 %c.6, ptr %c.3
  %more.7 = icmp slt i64 %c.6, 9
  br i1 %more.7, label %c.1, label %c.end.2
c.end.2:
  ret void
}

;   for d in 0..9:
;     for t in 0..3:
;       s[d] += f32(x[d+t-1]) if d+t-1 >= 0 && -d-t+9 >= 0 else 0.1
define void @ocannl.border.2(ptr noalias %s, ptr noalias %x) nounwind "prefer-vector-width"="512" {
  %d.3 = alloca i64
  %t.7 = alloca i64
  %when.19 = alloca float
  store i64 0, ptr %d.3
  br label %d.1
d.1:
  %d.4 = load i64, ptr %d.3
  %ix.14 = mul nsw i64 %d.4, -1
  store i64 0, ptr %t.7
  br label %t.5
t.5:
  %t.8 = load i64, ptr %t.7
  %ix.11 = add nsw i64 %d.4, %t.8
  %ix.12 = add nsw i64 %ix.11, -1
  %ix.15 = sub nsw i64 %ix.14, %t.8
  %ix.16 = add nsw i64 %ix.15, 9
  %at.9 = getelementptr inbounds float, ptr %s, i64 %d.4
  %s.10 = load float, ptr %at.9
  %if.13 = icmp sge i64 %ix.12, 0
  %if.17 = icmp sge i64 %ix.16, 0
  %if.18 = and i1 %if.13, %if.17
  br i1 %if.18, label %then.20, label %else.21
then.20:
  %at.23 = getelementptr inbounds i16, ptr %x, i64 %ix.12
  %x.24 = load i16, ptr %at.23
  %v.25 = zext i16 %x.24 to i32
  %v.26 = shl i32 %v.25, 16
  %v.27 = bitcast i32 %v.26 to float
  store float %v.27, ptr %when.19
  br label %end.22
else.21:
  store float 0x3FB99999A0000000, ptr %when.19
  br label %end.22
end.22:
  %when.28 = load float, ptr %when.19
  %v.29 = fadd float %s.10, %when.28
  store float %v.29, ptr %at.9
  %t.30 = add nsw i64 %t.8, 1
  store i64 %t.30, ptr %t.7
  %more.31 = icmp slt i64 %t.30, 3
  br i1 %more.31, label %t.5, label %t.end.6
t.end.6:
  %d.32 = add nsw i64 %d.4, 1
  store i64 %d.32, ptr %d.3
  %more.33 = icmp slt i64 %d.32, 9
  br i1 %more.33, label %d.1, label %d.end.2
d.end.2:
  ret void
}

;   for i in 0..5:
;     let half = s[2*i] / 2
;     for j in 0..5:
;       if i-j >= 0:
;         y[i, j] = bfloat16(half)
;       else:
;         y[i, j] = 0
define void @ocannl.border.3(ptr noalias %s, ptr noalias %y) nounwind "prefer-vector-width"="512" {
  %i.3 = alloca i64
  %j.11 = alloca i64
  store i64 0, ptr %i.3
  br label %i.1
i.1:
  %i.4 = load i64, ptr %i.3
  %ix.5 = mul nsw i64 %i.4, 2
  %ix.28 = mul nsw i64 %i.4, 5
  %at.6 = getelementptr inbounds float, ptr %s, i64 %ix.5
  %s.7 = load float, ptr %at.6
  %v.8 = fdiv float %s.7, 2.0
  store i64 0, ptr %j.11
  br label %j.9
j.9:
  %j.12 = load i64, ptr %j.11
  %ix.13 = sub nsw i64 %i.4, %j.12
  %ix.29 = add nsw i64 %ix.28, %j.12
  %if.14 = icmp sge i64 %ix.13, 0
  br i1 %if.14, label %then.15, label %else.17
then.15:
  %v.18 = bitcast float %v.8 to i32
  %v.19 = lshr i32 %v.18, 16
  %v.20 = and i32 %v.19, 1
  %v.21 = add i32 %v.18, 32767
  %v.22 = add i32 %v.21, %v.20
  %v.23 = or i32 %v.18, 4194304
  %v.24 = fcmp uno float %v.8, 0.0
  %v.25 = select i1 %v.24, i32 %v.23, i32 %v.22
  %v.26 = lshr i32 %v.25, 16
  %v.27 = trunc i32 %v.26 to i16
  %at.30 = getelementptr inbounds i16, ptr %y, i64 %ix.29
  store i16 %v.27, ptr %at.30
  br label %end.16
else.17:
  %at.31 = getelementptr inbounds i16, ptr %y, i64 %ix.29
  store i16 0, ptr %at.31
  br label %end.16
end.16:
  %j.32 = add nsw i64 %j.12, 1
  store i64 %j.32, ptr %j.11
  %more.33 = icmp slt i64 %j.32, 5
  br i1 %more.33, label %j.9, label %j.end.10
j.end.10:
  %i.34 = add nsw i64 %i.4, 1
  store i64 %i.34, ptr %i.3
  %more.35 = icmp slt i64 %i.34, 5
  br i1 %more.35, label %i.1, label %i.end.2
i.end.2:
  ret void
}

;   for m in 0..5:
;     for v in max(ceildiv(2*m-5, 3), 0)..floordiv(m+2, 2)+1:
;       y[v, m] = -1
define void @ocannl.border.4(ptr noalias %y) nounwind "prefer-vector-width"="512" {
  %m.3 = alloca i64
  %v.17 = alloca i64
  store i64 0, ptr %m.3
  br label %m.1
m.1:
  %m.4 = load i64, ptr %m.3
  %ix.5 = mul nsw i64 %m.4, 2
  %ix.6 = add nsw i64 %ix.5, -3
  %ix.13 = add nsw i64 %m.4, 4
  %v.7 = sdiv i64 %ix.6, 3
  %v.8 = srem i64 %ix.6, 3
  %v.9 = icmp slt i64 %v.8, 0
  %v.10 = sext i1 %v.9 to i64
  %v.11 = add i64 %v.7, %v.10
  %v.12 = call i64 @llvm.smax.i64(i64 %v.11, i64 0)
  %v.14 = ashr i64 %ix.13, 1
  store i64 %v.12, ptr %v.17
  %any.18 = icmp slt i64 %v.12, %v.14
  br i1 %any.18, label %v.15, label %v.end.16
v.15:
  %v.19 = load i64, ptr %v.17
  %ix.20 = mul nsw i64 %v.19, 5
  %ix.21 = add nsw i64 %m.4, %ix.20
  %at.22 = getelementptr inbounds i16, ptr %y, i64 %ix.21
  store i16 49024, ptr %at.22
  %v.23 = add nsw i64 %v.19, 1
  store i64 %v.23, ptr %v.17
  %more.24 = icmp slt i64 %v.23, %v.14
  br i1 %more.24, label %v.15, label %v.end.16
v.end.16:
  %m.25 = add nsw i64 %m.4, 1
  store i64 %m.25, ptr %m.3
  %more.26 = icmp slt i64 %m.25, 5
  br i1 %more.26, label %m.1, label %m.end.2
m.end.2:
  ret void
}

define i32 @ocannl.border(ptr %addresses, ptr %syms, ptr %control) nounwind {
  %x.1 = load ptr, ptr %addresses
  %at.2 = getelementptr inbounds ptr, ptr %addresses, i64 1
  %y.3 = load ptr, ptr %at.2
  %at.4 = getelementptr inbounds ptr, ptr %addresses, i64 2
  %arena.5 = load ptr, ptr %at.4
  %s.6 = getelementptr inbounds i8, ptr %arena.5, i64 64
  call void @ocannl.border.1(ptr %s.6)
  call void @ocannl.border.2(ptr %s.6, ptr %x.1)
  call void @ocannl.border.3(ptr %s.6, ptr %y.3)
  call void @ocannl.border.4(ptr %y.3)
  ret i32 0
}

declare i64 @llvm.smax.i64(i64, i64)
