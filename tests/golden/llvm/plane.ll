; proc plane
;   x : f32[3,4]  in
;   z : f32[4,3]  in
;   y : f32[4,3]  out

;   vectorized for i in 0..3:
;     vectorized for j in 0..4:
;       y[j, i] = 2 * x[i, j] + z[j, i]
define void @ocannl.plane.1(ptr noalias %y, ptr noalias %x, ptr noalias %z) nounwind "prefer-vector-width"="512" {
  %z.1 = alloca [3 x <4 x float>]
  %y.2 = alloca [3 x <4 x float>]
  call void @ocannl-take.3.v4f32(ptr %z.1, i64 4, ptr %z, i64 3)
  %x.3 = load <4 x float>, ptr %x, align 4
  %v.4 = fmul <4 x float> splat (float 2.0), %x.3
  %at.5 = getelementptr inbounds <4 x float>, ptr %z.1, i64 0
  %row.6 = load <4 x float>, ptr %at.5
  %v.7 = fadd <4 x float> %v.4, %row.6
  %at.8 = getelementptr inbounds <4 x float>, ptr %y.2, i64 0
  store <4 x float> %v.7, ptr %at.8
  %at.9 = getelementptr inbounds float, ptr %x, i64 4
  %x.10 = load <4 x float>, ptr %at.9, align 4
  %v.11 = fmul <4 x float> splat (float 2.0), %x.10
  %at.12 = getelementptr inbounds <4 x float>, ptr %z.1, i64 1
  %row.13 = load <4 x float>, ptr %at.12
  %v.14 = fadd <4 x float> %v.11, %row.13
  %at.15 = getelementptr inbounds <4 x float>, ptr %y.2, i64 1
  store <4 x float> %v.14, ptr %at.15
  %at.16 = getelementptr inbounds float, ptr %x, i64 8
  %x.17 = load <4 x float>, ptr %at.16, align 4
  %v.18 = fmul <4 x float> splat (float 2.0), %x.17
  %at.19 = getelementptr inbounds <4 x float>, ptr %z.1, i64 2
  %row.20 = load <4 x float>, ptr %at.19
  %v.21 = fadd <4 x float> %v.18, %row.20
  %at.22 = getelementptr inbounds <4 x float>, ptr %y.2, i64 2
  store <4 x float> %v.21, ptr %at.22
  call void @ocannl-put.3.v4f32(ptr %y.2, i64 4, ptr %y, i64 3)
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

define void @ocannl-put.3.v4f32(ptr noalias %rows, i64 %apart, ptr noalias %cells, i64 %step) nounwind noinline "prefer-vector-width"="512" {
  %v.1 = mul nsw i64 %apart, 0
  %v.2 = mul nsw i64 %apart, 1
  %v.3 = mul nsw i64 %apart, 2
  %at.4 = getelementptr inbounds float, ptr %rows, i64 %v.1
  %at.5 = getelementptr inbounds float, ptr %rows, i64 %v.2
  %at.6 = getelementptr inbounds float, ptr %rows, i64 %v.3
  %v.7 = load <4 x float>, ptr %at.4, align 1
  %v.8 = load <4 x float>, ptr %at.5, align 1
  %v.9 = load <4 x float>, ptr %at.6, align 1
  %v.10 = shufflevector <4 x float> %v.7, <4 x float> %v.8, <4 x i32> <i32 0, i32 4, i32 2, i32 6>
  %v.11 = shufflevector <4 x float> %v.7, <4 x float> %v.8, <4 x i32> <i32 1, i32 5, i32 3, i32 7>
  %v.12 = shufflevector <4 x float> %v.9, <4 x float> poison, <4 x i32> <i32 0, i32 4, i32 2, i32 6>
  %v.13 = shufflevector <4 x float> %v.9, <4 x float> poison, <4 x i32> <i32 1, i32 5, i32 3, i32 7>
  %v.14 = shufflevector <4 x float> %v.10, <4 x float> %v.12, <4 x i32> <i32 0, i32 1, i32 4, i32 5>
  %v.15 = shufflevector <4 x float> %v.10, <4 x float> %v.12, <4 x i32> <i32 2, i32 3, i32 6, i32 7>
  %v.16 = shufflevector <4 x float> %v.11, <4 x float> %v.13, <4 x i32> <i32 0, i32 1, i32 4, i32 5>
  %v.17 = shufflevector <4 x float> %v.11, <4 x float> %v.13, <4 x i32> <i32 2, i32 3, i32 6, i32 7>
  %v.18 = shufflevector <4 x float> %v.14, <4 x float> poison, <3 x i32> <i32 0, i32 1, i32 2>
  %v.19 = shufflevector <4 x float> %v.16, <4 x float> poison, <3 x i32> <i32 0, i32 1, i32 2>
  %v.20 = shufflevector <4 x float> %v.15, <4 x float> poison, <3 x i32> <i32 0, i32 1, i32 2>
  %v.21 = shufflevector <4 x float> %v.17, <4 x float> poison, <3 x i32> <i32 0, i32 1, i32 2>
  %v.22 = mul nsw i64 %step, 0
  %v.23 = mul nsw i64 %step, 1
  %v.24 = mul nsw i64 %step, 2
  %v.25 = mul nsw i64 %step, 3
  %at.26 = getelementptr inbounds float, ptr %cells, i64 %v.22
  %at.27 = getelementptr inbounds float, ptr %cells, i64 %v.23
  %at.28 = getelementptr inbounds float, ptr %cells, i64 %v.24
  %at.29 = getelementptr inbounds float, ptr %cells, i64 %v.25
  store <3 x float> %v.18, ptr %at.26, align 1
  store <3 x float> %v.19, ptr %at.27, align 1
  store <3 x float> %v.20, ptr %at.28, align 1
  store <3 x float> %v.21, ptr %at.29, align 1
  ret void
}

define void @ocannl-take.3.v4f32(ptr noalias %rows, i64 %apart, ptr noalias %cells, i64 %step) nounwind noinline "prefer-vector-width"="512" {
  %v.1 = mul nsw i64 %step, 0
  %v.2 = mul nsw i64 %step, 1
  %v.3 = mul nsw i64 %step, 2
  %v.4 = mul nsw i64 %step, 3
  %at.5 = getelementptr inbounds float, ptr %cells, i64 %v.1
  %at.6 = getelementptr inbounds float, ptr %cells, i64 %v.2
  %at.7 = getelementptr inbounds float, ptr %cells, i64 %v.3
  %at.8 = getelementptr inbounds float, ptr %cells, i64 %v.4
  %v.9 = load <3 x float>, ptr %at.5, align 1
  %v.10 = load <3 x float>, ptr %at.6, align 1
  %v.11 = load <3 x float>, ptr %at.7, align 1
  %v.12 = load <3 x float>, ptr %at.8, align 1
  %v.13 = shufflevector <3 x float> %v.9, <3 x float> poison, <4 x i32> <i32 0, i32 1, i32 2, i32 0>
  %v.14 = shufflevector <3 x float> %v.10, <3 x float> poison, <4 x i32> <i32 0, i32 1, i32 2, i32 0>
  %v.15 = shufflevector <3 x float> %v.11, <3 x float> poison, <4 x i32> <i32 0, i32 1, i32 2, i32 0>
  %v.16 = shufflevector <3 x float> %v.12, <3 x float> poison, <4 x i32> <i32 0, i32 1, i32 2, i32 0>
  %v.17 = shufflevector <4 x float> %v.13, <4 x float> %v.14, <4 x i32> <i32 0, i32 4, i32 2, i32 6>
  %v.18 = shufflevector <4 x float> %v.13, <4 x float> %v.14, <4 x i32> <i32 1, i32 5, i32 3, i32 7>
  %v.19 = shufflevector <4 x float> %v.15, <4 x float> %v.16, <4 x i32> <i32 0, i32 4, i32 2, i32 6>
  %v.20 = shufflevector <4 x float> %v.15, <4 x float> %v.16, <4 x i32> <i32 1, i32 5, i32 3, i32 7>
  %v.21 = shufflevector <4 x float> %v.17, <4 x float> %v.19, <4 x i32> <i32 0, i32 1, i32 4, i32 5>
  %v.22 = shufflevector <4 x float> %v.17, <4 x float> %v.19, <4 x i32> <i32 2, i32 3, i32 6, i32 7>
  %v.23 = shufflevector <4 x float> %v.18, <4 x float> %v.20, <4 x i32> <i32 0, i32 1, i32 4, i32 5>
  %v.24 = shufflevector <4 x float> %v.18, <4 x float> %v.20, <4 x i32> <i32 2, i32 3, i32 6, i32 7>
  %v.25 = mul nsw i64 %apart, 0
  %v.26 = mul nsw i64 %apart, 1
  %v.27 = mul nsw i64 %apart, 2
  %at.28 = getelementptr inbounds float, ptr %rows, i64 %v.25
  %at.29 = getelementptr inbounds float, ptr %rows, i64 %v.26
  %at.30 = getelementptr inbounds float, ptr %rows, i64 %v.27
  store <4 x float> %v.21, ptr %at.28, align 1
  store <4 x float> %v.23, ptr %at.29, align 1
  store <4 x float> %v.22, ptr %at.30, align 1
  ret void
}
