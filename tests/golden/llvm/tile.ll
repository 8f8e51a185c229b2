; proc tile
;   w     : f32[2,9]  in
;   x     : f32[9,6]  in
;   y     : f32[2,6]  out
;   total : f32       inout

;   local acc: f32[2,6]
;   unrolled for u in 0..2:
;     vectorized for j in 0..6:
;       acc[u, j] = 0
;   for k in 0..9:
;     unrolled for v in 0..2:
;       let each = w[v, k]
;       vectorized for n in 0..6:
;         acc[v, n] += each * x[k, n]
;   unrolled for m in 0..2:
;     vectorized for o in 0..6:
;       y[m, o] = relu(acc[m, o])
;       total += y[m, o]
define void @ocannl.tile.1(ptr noalias %w, ptr noalias %x, ptr noalias %y, ptr noalias %total) nounwind "prefer-vector-width"="512" {
  %acc.1 = alloca [12 x float]
  %acc.2 = getelementptr inbounds float, ptr %acc.1, i64 6
  %k.5 = alloca i64
  store <6 x float> splat (float 0.0), ptr %acc.1, align 4
  store <6 x float> splat (float 0.0), ptr %acc.2, align 4
  store i64 0, ptr %k.5
  br label %k.3
k.3:
  %k.6 = load i64, ptr %k.5
  %ix.12 = mul nsw i64 %k.6, 6
  %ix.16 = add nsw i64 %k.6, 9
  %at.7 = getelementptr inbounds float, ptr %w, i64 %k.6
  %w.8 = load float, ptr %at.7
  %acc.9 = load <6 x float>, ptr %acc.1, align 4
  %v.10 = insertelement <6 x float> poison, float %w.8, i64 0
  %all.11 = shufflevector <6 x float> %v.10, <6 x float> poison, <6 x i32> zeroinitializer
  %at.13 = getelementptr inbounds float, ptr %x, i64 %ix.12
  %x.14 = load <6 x float>, ptr %at.13, align 4
  %v.15 = call <6 x float> @llvm.fmuladd.v6f32(<6 x float> %all.11, <6 x float> %x.14, <6 x float> %acc.9)
  store <6 x float> %v.15, ptr %acc.1, align 4
  %at.17 = getelementptr inbounds float, ptr %w, i64 %ix.16
  %w.18 = load float, ptr %at.17
  %acc.19 = load <6 x float>, ptr %acc.2, align 4
  %v.20 = insertelement <6 x float> poison, float %w.18, i64 0
  %all.21 = shufflevector <6 x float> %v.20, <6 x float> poison, <6 x i32> zeroinitializer
  %at.22 = getelementptr inbounds float, ptr %x, i64 %ix.12
  %x.23 = load <6 x float>, ptr %at.22, align 4
  %v.24 = call <6 x float> @llvm.fmuladd.v6f32(<6 x float> %all.21, <6 x float> %x.23, <6 x float> %acc.19)
  store <6 x float> %v.24, ptr %acc.2, align 4
  %k.25 = add nsw i64 %k.6, 1
  store i64 %k.25, ptr %k.5
  %more.26 = icmp slt i64 %k.25, 9
  br i1 %more.26, label %k.3, label %k.end.4
k.end.4:
  %acc.27 = load <6 x float>, ptr %acc.1, align 4
  %v.28 = fcmp olt <6 x float> %acc.27, splat (float 0.0)
  %v.29 = select <6 x i1> %v.28, <6 x float> splat (float 0.0), <6 x float> %acc.27
  store <6 x float> %v.29, ptr %y, align 4
  %y.30 = load <6 x float>, ptr %y, align 4
  %v.31 = extractelement <6 x float> %y.30, i64 0
  %v.32 = extractelement <6 x float> %y.30, i64 1
  %v.33 = extractelement <6 x float> %y.30, i64 2
  %v.34 = extractelement <6 x float> %y.30, i64 3
  %v.35 = extractelement <6 x float> %y.30, i64 4
  %v.36 = extractelement <6 x float> %y.30, i64 5
  %total.37 = load float, ptr %total
  %v.38 = fadd float %total.37, %v.31
  store float %v.38, ptr %total
  %total.39 = load float, ptr %total
  %v.40 = fadd float %total.39, %v.32
  store float %v.40, ptr %total
  %total.41 = load float, ptr %total
  %v.42 = fadd float %total.41, %v.33
  store float %v.42, ptr %total
  %total.43 = load float, ptr %total
  %v.44 = fadd float %total.43, %v.34
  store float %v.44, ptr %total
  %total.45 = load float, ptr %total
  %v.46 = fadd float %total.45, %v.35
  store float %v.46, ptr %total
  %total.47 = load float, ptr %total
  %v.48 = fadd float %total.47, %v.36
  store float %v.48, ptr %total
  %acc.49 = load <6 x float>, ptr %acc.2, align 4
  %v.50 = fcmp olt <6 x float> %acc.49, splat (float 0.0)
  %v.51 = select <6 x i1> %v.50, <6 x float> splat (float 0.0), <6 x float> %acc.49
  %at.52 = getelementptr inbounds float, ptr %y, i64 6
  store <6 x float> %v.51, ptr %at.52, align 4
  %at.53 = getelementptr inbounds float, ptr %y, i64 6
  %y.54 = load <6 x float>, ptr %at.53, align 4
  %v.55 = extractelement <6 x float> %y.54, i64 0
  %v.56 = extractelement <6 x float> %y.54, i64 1
  %v.57 = extractelement <6 x float> %y.54, i64 2
  %v.58 = extractelement <6 x float> %y.54, i64 3
  %v.59 = extractelement <6 x float> %y.54, i64 4
  %v.60 = extractelement <6 x float> %y.54, i64 5
  %total.61 = load float, ptr %total
  %v.62 = fadd float %total.61, %v.55
  store float %v.62, ptr %total
  %total.63 = load float, ptr %total
  %v.64 = fadd float %total.63, %v.56
  store float %v.64, ptr %total
  %total.65 = load float, ptr %total
  %v.66 = fadd float %total.65, %v.57
  store float %v.66, ptr %total
  %total.67 = load float, ptr %total
  %v.68 = fadd float %total.67, %v.58
  store float %v.68, ptr %total
  %total.69 = load float, ptr %total
  %v.70 = fadd float %total.69, %v.59
  store float %v.70, ptr %total
  %total.71 = load float, ptr %total
  %v.72 = fadd float %total.71, %v.60
  store float %v.72, ptr %total
  ret void
}

define i32 @ocannl.tile(ptr %addresses, ptr %syms, ptr %control) nounwind {
  %w.1 = load ptr, ptr %addresses
  %at.2 = getelementptr inbounds ptr, ptr %addresses, i64 1
  %x.3 = load ptr, ptr %at.2
  %at.4 = getelementptr inbounds ptr, ptr %addresses, i64 2
  %y.5 = load ptr, ptr %at.4
  %at.6 = getelementptr inbounds ptr, ptr %addresses, i64 3
  %total.7 = load ptr, ptr %at.6
  call void @ocannl.tile.1(ptr %w.1, ptr %x.3, ptr %y.5, ptr %total.7)
  ret i32 0
}

declare <6 x float> @llvm.fmuladd.v6f32(<6 x float>, <6 x float>, <6 x float>)
