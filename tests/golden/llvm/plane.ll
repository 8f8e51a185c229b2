; proc plane
;   x : f32[3,8]  in
;   z : f32[8,3]  in
;   y : f32[8,3]  out

;   for i in 0..3 lanes:
;     for j in 0..8 lanes:
;       y[j, i] = 2 * x[i, j] + z[j, i]
define internal void @ocannl.plane.1(ptr noalias %y, ptr noalias %x, ptr noalias %z) nounwind "prefer-vector-width"="512" {
  %z.1 = alloca [3 x <8 x float>]
  %y.2 = alloca [3 x <8 x float>]
  call void @ocannl.take.3.v8f32(ptr %z.1, ptr %z, i64 3)
  %x.3 = load <8 x float>, ptr %x, align 4
  %v.4 = fmul <8 x float> splat (float 2.0), %x.3
  %at.5 = getelementptr inbounds <8 x float>, ptr %z.1, i64 0
  %row.6 = load <8 x float>, ptr %at.5
  %v.7 = fadd <8 x float> %v.4, %row.6
  %at.8 = getelementptr inbounds <8 x float>, ptr %y.2, i64 0
  store <8 x float> %v.7, ptr %at.8
  %at.9 = getelementptr inbounds float, ptr %x, i64 8
  %x.10 = load <8 x float>, ptr %at.9, align 4
  %v.11 = fmul <8 x float> splat (float 2.0), %x.10
  %at.12 = getelementptr inbounds <8 x float>, ptr %z.1, i64 1
  %row.13 = load <8 x float>, ptr %at.12
  %v.14 = fadd <8 x float> %v.11, %row.13
  %at.15 = getelementptr inbounds <8 x float>, ptr %y.2, i64 1
  store <8 x float> %v.14, ptr %at.15
  %at.16 = getelementptr inbounds float, ptr %x, i64 16
  %x.17 = load <8 x float>, ptr %at.16, align 4
  %v.18 = fmul <8 x float> splat (float 2.0), %x.17
  %at.19 = getelementptr inbounds <8 x float>, ptr %z.1, i64 2
  %row.20 = load <8 x float>, ptr %at.19
  %v.21 = fadd <8 x float> %v.18, %row.20
  %at.22 = getelementptr inbounds <8 x float>, ptr %y.2, i64 2
  store <8 x float> %v.21, ptr %at.22
  call void @ocannl.put.3.v8f32(ptr %y, i64 3, ptr %y.2)
  ret void
}

define i32 @ocannl.plane(ptr %addresses, ptr %syms, ptr %control) nounwind {
  %x.1 = load ptr, ptr %addresses
  %at.2 = getelementptr inbounds ptr, ptr %addresses, i64 1
  %z.3 = load ptr, ptr %at.2
  %at.4 = getelementptr inbounds ptr, ptr %addresses, i64 2
  %y.5 = load ptr, ptr %at.4
  call void @ocannl.plane.1(ptr %y.5, ptr %x.1, ptr %z.3)
  ret i32 0
}

define internal void @ocannl.put.3.v8f32(ptr %y, i64 %step, ptr noalias %x) nounwind noinline "prefer-vector-width"="512" {
  %at.1 = getelementptr inbounds <8 x float>, ptr %x, i64 0
  %at.2 = getelementptr inbounds <8 x float>, ptr %x, i64 1
  %at.3 = getelementptr inbounds <8 x float>, ptr %x, i64 2
  %v.4 = load <8 x float>, ptr %at.1
  %v.5 = load <8 x float>, ptr %at.2
  %v.6 = load <8 x float>, ptr %at.3
  %v.7 = shufflevector <8 x float> %v.4, <8 x float> %v.5, <8 x i32> <i32 0, i32 8, i32 2, i32 10, i32 4, i32 12, i32 6, i32 14>
  %v.8 = shufflevector <8 x float> %v.4, <8 x float> %v.5, <8 x i32> <i32 1, i32 9, i32 3, i32 11, i32 5, i32 13, i32 7, i32 15>
  %v.9 = shufflevector <8 x float> %v.6, <8 x float> poison, <8 x i32> <i32 0, i32 8, i32 2, i32 10, i32 4, i32 12, i32 6, i32 14>
  %v.10 = shufflevector <8 x float> %v.6, <8 x float> poison, <8 x i32> <i32 1, i32 9, i32 3, i32 11, i32 5, i32 13, i32 7, i32 15>
  %v.11 = shufflevector <8 x float> %v.7, <8 x float> %v.9, <8 x i32> <i32 0, i32 1, i32 8, i32 9, i32 4, i32 5, i32 12, i32 13>
  %v.12 = shufflevector <8 x float> %v.7, <8 x float> %v.9, <8 x i32> <i32 2, i32 3, i32 10, i32 11, i32 6, i32 7, i32 14, i32 15>
  %v.13 = shufflevector <8 x float> %v.8, <8 x float> %v.10, <8 x i32> <i32 0, i32 1, i32 8, i32 9, i32 4, i32 5, i32 12, i32 13>
  %v.14 = shufflevector <8 x float> %v.8, <8 x float> %v.10, <8 x i32> <i32 2, i32 3, i32 10, i32 11, i32 6, i32 7, i32 14, i32 15>
  %v.15 = shufflevector <8 x float> %v.11, <8 x float> poison, <3 x i32> <i32 0, i32 1, i32 2>
  %v.16 = shufflevector <8 x float> %v.13, <8 x float> poison, <3 x i32> <i32 0, i32 1, i32 2>
  %v.17 = shufflevector <8 x float> %v.12, <8 x float> poison, <3 x i32> <i32 0, i32 1, i32 2>
  %v.18 = shufflevector <8 x float> %v.14, <8 x float> poison, <3 x i32> <i32 0, i32 1, i32 2>
  %v.19 = shufflevector <8 x float> %v.11, <8 x float> poison, <3 x i32> <i32 4, i32 5, i32 6>
  %v.20 = shufflevector <8 x float> %v.13, <8 x float> poison, <3 x i32> <i32 4, i32 5, i32 6>
  %v.21 = shufflevector <8 x float> %v.12, <8 x float> poison, <3 x i32> <i32 4, i32 5, i32 6>
  %v.22 = shufflevector <8 x float> %v.14, <8 x float> poison, <3 x i32> <i32 4, i32 5, i32 6>
  %v.23 = mul nsw i64 %step, 0
  %at.24 = getelementptr inbounds float, ptr %y, i64 %v.23
  store <3 x float> %v.15, ptr %at.24, align 1
  %v.25 = mul nsw i64 %step, 1
  %at.26 = getelementptr inbounds float, ptr %y, i64 %v.25
  store <3 x float> %v.16, ptr %at.26, align 1
  %v.27 = mul nsw i64 %step, 2
  %at.28 = getelementptr inbounds float, ptr %y, i64 %v.27
  store <3 x float> %v.17, ptr %at.28, align 1
  %v.29 = mul nsw i64 %step, 3
  %at.30 = getelementptr inbounds float, ptr %y, i64 %v.29
  store <3 x float> %v.18, ptr %at.30, align 1
  %v.31 = mul nsw i64 %step, 4
  %at.32 = getelementptr inbounds float, ptr %y, i64 %v.31
  store <3 x float> %v.19, ptr %at.32, align 1
  %v.33 = mul nsw i64 %step, 5
  %at.34 = getelementptr inbounds float, ptr %y, i64 %v.33
  store <3 x float> %v.20, ptr %at.34, align 1
  %v.35 = mul nsw i64 %step, 6
  %at.36 = getelementptr inbounds float, ptr %y, i64 %v.35
  store <3 x float> %v.21, ptr %at.36, align 1
  %v.37 = mul nsw i64 %step, 7
  %at.38 = getelementptr inbounds float, ptr %y, i64 %v.37
  store <3 x float> %v.22, ptr %at.38, align 1
  ret void
}

define internal void @ocannl.take.3.v8f32(ptr noalias %y, ptr %x, i64 %step) nounwind noinline "prefer-vector-width"="512" {
  %v.1 = mul nsw i64 %step, 0
  %at.2 = getelementptr inbounds float, ptr %x, i64 %v.1
  %v.3 = load <3 x float>, ptr %at.2, align 1
  %v.4 = mul nsw i64 %step, 1
  %at.5 = getelementptr inbounds float, ptr %x, i64 %v.4
  %v.6 = load <3 x float>, ptr %at.5, align 1
  %v.7 = mul nsw i64 %step, 2
  %at.8 = getelementptr inbounds float, ptr %x, i64 %v.7
  %v.9 = load <3 x float>, ptr %at.8, align 1
  %v.10 = mul nsw i64 %step, 3
  %at.11 = getelementptr inbounds float, ptr %x, i64 %v.10
  %v.12 = load <3 x float>, ptr %at.11, align 1
  %v.13 = mul nsw i64 %step, 4
  %at.14 = getelementptr inbounds float, ptr %x, i64 %v.13
  %v.15 = load <3 x float>, ptr %at.14, align 1
  %v.16 = mul nsw i64 %step, 5
  %at.17 = getelementptr inbounds float, ptr %x, i64 %v.16
  %v.18 = load <3 x float>, ptr %at.17, align 1
  %v.19 = mul nsw i64 %step, 6
  %at.20 = getelementptr inbounds float, ptr %x, i64 %v.19
  %v.21 = load <3 x float>, ptr %at.20, align 1
  %v.22 = mul nsw i64 %step, 7
  %at.23 = getelementptr inbounds float, ptr %x, i64 %v.22
  %v.24 = load <3 x float>, ptr %at.23, align 1
  %at.25 = getelementptr inbounds <8 x float>, ptr %y, i64 0
  %at.26 = getelementptr inbounds <8 x float>, ptr %y, i64 1
  %at.27 = getelementptr inbounds <8 x float>, ptr %y, i64 2
  %v.28 = shufflevector <3 x float> %v.3, <3 x float> poison, <8 x i32> <i32 0, i32 1, i32 2, i32 0, i32 0, i32 0, i32 0, i32 0>
  %v.29 = shufflevector <3 x float> %v.6, <3 x float> poison, <8 x i32> <i32 0, i32 1, i32 2, i32 0, i32 0, i32 0, i32 0, i32 0>
  %v.30 = shufflevector <3 x float> %v.9, <3 x float> poison, <8 x i32> <i32 0, i32 1, i32 2, i32 0, i32 0, i32 0, i32 0, i32 0>
  %v.31 = shufflevector <3 x float> %v.12, <3 x float> poison, <8 x i32> <i32 0, i32 1, i32 2, i32 0, i32 0, i32 0, i32 0, i32 0>
  %v.32 = shufflevector <3 x float> %v.15, <3 x float> poison, <8 x i32> <i32 0, i32 1, i32 2, i32 0, i32 0, i32 0, i32 0, i32 0>
  %v.33 = shufflevector <3 x float> %v.18, <3 x float> poison, <8 x i32> <i32 0, i32 1, i32 2, i32 0, i32 0, i32 0, i32 0, i32 0>
  %v.34 = shufflevector <3 x float> %v.21, <3 x float> poison, <8 x i32> <i32 0, i32 1, i32 2, i32 0, i32 0, i32 0, i32 0, i32 0>
  %v.35 = shufflevector <3 x float> %v.24, <3 x float> poison, <8 x i32> <i32 0, i32 1, i32 2, i32 0, i32 0, i32 0, i32 0, i32 0>
  %v.36 = shufflevector <8 x float> %v.28, <8 x float> %v.29, <8 x i32> <i32 0, i32 8, i32 2, i32 10, i32 4, i32 12, i32 6, i32 14>
  %v.37 = shufflevector <8 x float> %v.28, <8 x float> %v.29, <8 x i32> <i32 1, i32 9, i32 3, i32 11, i32 5, i32 13, i32 7, i32 15>
  %v.38 = shufflevector <8 x float> %v.30, <8 x float> %v.31, <8 x i32> <i32 0, i32 8, i32 2, i32 10, i32 4, i32 12, i32 6, i32 14>
  %v.39 = shufflevector <8 x float> %v.30, <8 x float> %v.31, <8 x i32> <i32 1, i32 9, i32 3, i32 11, i32 5, i32 13, i32 7, i32 15>
  %v.40 = shufflevector <8 x float> %v.32, <8 x float> %v.33, <8 x i32> <i32 0, i32 8, i32 2, i32 10, i32 4, i32 12, i32 6, i32 14>
  %v.41 = shufflevector <8 x float> %v.32, <8 x float> %v.33, <8 x i32> <i32 1, i32 9, i32 3, i32 11, i32 5, i32 13, i32 7, i32 15>
  %v.42 = shufflevector <8 x float> %v.34, <8 x float> %v.35, <8 x i32> <i32 0, i32 8, i32 2, i32 10, i32 4, i32 12, i32 6, i32 14>
  %v.43 = shufflevector <8 x float> %v.34, <8 x float> %v.35, <8 x i32> <i32 1, i32 9, i32 3, i32 11, i32 5, i32 13, i32 7, i32 15>
  %v.44 = shufflevector <8 x float> %v.36, <8 x float> %v.38, <8 x i32> <i32 0, i32 1, i32 8, i32 9, i32 4, i32 5, i32 12, i32 13>
  %v.45 = shufflevector <8 x float> %v.36, <8 x float> %v.38, <8 x i32> <i32 2, i32 3, i32 10, i32 11, i32 6, i32 7, i32 14, i32 15>
  %v.46 = shufflevector <8 x float> %v.37, <8 x float> %v.39, <8 x i32> <i32 0, i32 1, i32 8, i32 9, i32 4, i32 5, i32 12, i32 13>
  %v.47 = shufflevector <8 x float> %v.37, <8 x float> %v.39, <8 x i32> <i32 2, i32 3, i32 10, i32 11, i32 6, i32 7, i32 14, i32 15>
  %v.48 = shufflevector <8 x float> %v.40, <8 x float> %v.42, <8 x i32> <i32 0, i32 1, i32 8, i32 9, i32 4, i32 5, i32 12, i32 13>
  %v.49 = shufflevector <8 x float> %v.40, <8 x float> %v.42, <8 x i32> <i32 2, i32 3, i32 10, i32 11, i32 6, i32 7, i32 14, i32 15>
  %v.50 = shufflevector <8 x float> %v.41, <8 x float> %v.43, <8 x i32> <i32 0, i32 1, i32 8, i32 9, i32 4, i32 5, i32 12, i32 13>
  %v.51 = shufflevector <8 x float> %v.41, <8 x float> %v.43, <8 x i32> <i32 2, i32 3, i32 10, i32 11, i32 6, i32 7, i32 14, i32 15>
  %v.52 = shufflevector <8 x float> %v.44, <8 x float> %v.48, <8 x i32> <i32 0, i32 1, i32 2, i32 3, i32 8, i32 9, i32 10, i32 11>
  %v.53 = shufflevector <8 x float> %v.44, <8 x float> %v.48, <8 x i32> <i32 4, i32 5, i32 6, i32 7, i32 12, i32 13, i32 14, i32 15>
  %v.54 = shufflevector <8 x float> %v.46, <8 x float> %v.50, <8 x i32> <i32 0, i32 1, i32 2, i32 3, i32 8, i32 9, i32 10, i32 11>
  %v.55 = shufflevector <8 x float> %v.46, <8 x float> %v.50, <8 x i32> <i32 4, i32 5, i32 6, i32 7, i32 12, i32 13, i32 14, i32 15>
  %v.56 = shufflevector <8 x float> %v.45, <8 x float> %v.49, <8 x i32> <i32 0, i32 1, i32 2, i32 3, i32 8, i32 9, i32 10, i32 11>
  %v.57 = shufflevector <8 x float> %v.45, <8 x float> %v.49, <8 x i32> <i32 4, i32 5, i32 6, i32 7, i32 12, i32 13, i32 14, i32 15>
  %v.58 = shufflevector <8 x float> %v.47, <8 x float> %v.51, <8 x i32> <i32 0, i32 1, i32 2, i32 3, i32 8, i32 9, i32 10, i32 11>
  %v.59 = shufflevector <8 x float> %v.47, <8 x float> %v.51, <8 x i32> <i32 4, i32 5, i32 6, i32 7, i32 12, i32 13, i32 14, i32 15>
  store <8 x float> %v.52, ptr %at.25
  store <8 x float> %v.54, ptr %at.26
  store <8 x float> %v.56, ptr %at.27
  ret void
}
