; proc narrow(n in -9..10)
;   w     : float8_e4m3fn[8]  in
;   x     : f64[8]            in
;   y     : f16[8]            inout
;   flags : u8[8]             out

;   for i in 0..8:
;     y[i] = y[i] * f16(w[i]) - f16(x[i])
;     flags[i] = where(u8(w[i]) && u8(i32(w[i]) < n), 7, -flags[i])
define void @ocannl.narrow.1(ptr noalias %y, ptr noalias %w, ptr noalias %x, ptr noalias %flags, i64 %n) nounwind "prefer-vector-width"="512" {
  %i.3 = alloca i64
  store i64 0, ptr %i.3
  br label %i.1
i.1:
  %i.4 = load i64, ptr %i.3
  %at.5 = getelementptr inbounds i16, ptr %y, i64 %i.4
  %y.6 = load i16, ptr %at.5
  %v.7 = bitcast i16 %y.6 to half
  %v.8 = fpext half %v.7 to float
  %at.9 = getelementptr inbounds i8, ptr %w, i64 %i.4
  %w.10 = load i8, ptr %at.9
  %v.11 = call float @ocannl-f8e4m3fn.to.f32(i8 %w.10)
  %v.12 = fptrunc float %v.11 to half
  %v.13 = bitcast half %v.12 to i16
  %v.14 = bitcast i16 %v.13 to half
  %v.15 = fpext half %v.14 to float
  %v.16 = fmul float %v.8, %v.15
  %v.17 = fptrunc float %v.16 to half
  %v.18 = bitcast half %v.17 to i16
  %v.19 = bitcast i16 %v.18 to half
  %v.20 = fpext half %v.19 to float
  %at.21 = getelementptr inbounds double, ptr %x, i64 %i.4
  %x.22 = load double, ptr %at.21
  %v.23 = call float @ocannl-f64.to.odd.f32(double %x.22)
  %v.24 = fptrunc float %v.23 to half
  %v.25 = bitcast half %v.24 to i16
  %v.26 = bitcast i16 %v.25 to half
  %v.27 = fpext half %v.26 to float
  %v.28 = fsub float %v.20, %v.27
  %v.29 = fptrunc float %v.28 to half
  %v.30 = bitcast half %v.29 to i16
  %at.31 = getelementptr inbounds i16, ptr %y, i64 %i.4
  store i16 %v.30, ptr %at.31
  %at.32 = getelementptr inbounds i8, ptr %w, i64 %i.4
  %w.33 = load i8, ptr %at.32
  %v.34 = call float @ocannl-f8e4m3fn.to.f32(i8 %w.33)
  %v.35 = fcmp ord float %v.34, %v.34
  %v.36 = select i1 %v.35, float %v.34, float 0.0
  %v.37 = fcmp ogt float %v.36, 0.0
  %v.38 = select i1 %v.37, float %v.36, float 0.0
  %v.39 = fcmp olt float %v.38, 0x406FFFFFE0000000
  %v.40 = select i1 %v.39, float %v.38, float 0x406FFFFFE0000000
  %v.41 = fptosi float %v.40 to i32
  %v.42 = trunc i32 %v.41 to i8
  %v.43 = icmp ne i8 %v.42, 0
  %at.44 = getelementptr inbounds i8, ptr %w, i64 %i.4
  %w.45 = load i8, ptr %at.44
  %v.46 = call float @ocannl-f8e4m3fn.to.f32(i8 %w.45)
  %v.47 = fcmp ord float %v.46, %v.46
  %v.48 = select i1 %v.47, float %v.46, float 0.0
  %v.49 = fcmp ogt float %v.48, 0xC1E0000000000000
  %v.50 = select i1 %v.49, float %v.48, float 0xC1E0000000000000
  %v.51 = fcmp olt float %v.50, 2147483520.0
  %v.52 = select i1 %v.51, float %v.50, float 2147483520.0
  %v.53 = fptosi float %v.52 to i32
  %v.54 = fcmp ogt float %v.46, 2147483520.0
  %v.55 = select i1 %v.54, i32 2147483647, i32 %v.53
  %v.56 = trunc i64 %n to i32
  %v.57 = icmp slt i32 %v.55, %v.56
  %v.58 = and i1 %v.43, %v.57
  %at.59 = getelementptr inbounds i8, ptr %flags, i64 %i.4
  %flags.60 = load i8, ptr %at.59
  %v.61 = sub i8 0, %flags.60
  %v.62 = select i1 %v.58, i8 7, i8 %v.61
  %at.63 = getelementptr inbounds i8, ptr %flags, i64 %i.4
  store i8 %v.62, ptr %at.63
  %i.64 = add nsw i64 %i.4, 1
  store i64 %i.64, ptr %i.3
  %more.65 = icmp slt i64 %i.64, 8
  br i1 %more.65, label %i.1, label %i.end.2
i.end.2:
  ret void
}

define i32 @ocannl.narrow(ptr %addresses, ptr %syms, ptr %control) nounwind {
  %w.1 = load ptr, ptr %addresses
  %at.2 = getelementptr inbounds ptr, ptr %addresses, i64 1
  %x.3 = load ptr, ptr %at.2
  %at.4 = getelementptr inbounds ptr, ptr %addresses, i64 2
  %y.5 = load ptr, ptr %at.4
  %at.6 = getelementptr inbounds ptr, ptr %addresses, i64 3
  %flags.7 = load ptr, ptr %at.6
  %n.8 = load i64, ptr %syms
  call void @ocannl.narrow.1(ptr %y.5, ptr %w.1, ptr %x.3, ptr %flags.7, i64 %n.8)
  ret i32 0
}

define float @ocannl-f64.to.odd.f32(double %x) nounwind memory(none) {
  %near = fptrunc double %x to float
  %back = fpext float %near to double
  %inexact = fcmp one double %back, %x
  %abs.back = call double @llvm.fabs.f64(double %back)
  %abs = call double @llvm.fabs.f64(double %x)
  %away = fcmp ogt double %abs.back, %abs
  %bits = bitcast float %near to i32
  %below = sub i32 %bits, 1
  %cut = select i1 %away, i32 %below, i32 %bits
  %sticky = zext i1 %inexact to i32
  %odd = or i32 %cut, %sticky
  %result = bitcast i32 %odd to float
  ret float %result
}

define float @ocannl-f8e4m3fn.to.f32(i8 %x) nounwind memory(none) {
  %bits = zext i8 %x to i32
  %signed = and i32 %bits, 128
  %sign = shl i32 %signed, 24
  %mag = and i32 %bits, 127
  %steps = uitofp i32 %mag to float
  %small = fmul float %steps, 0.001953125
  %small.bits = bitcast float %small to i32
  %shifted = shl i32 %mag, 20
  %normal = add i32 %shifted, 1006632960
  %special = or i32 %shifted, 2139095040
  %is.small = icmp ult i32 %mag, 8
  %is.special = icmp uge i32 %mag, 127
  %finite = select i1 %is.small, i32 %small.bits, i32 %normal
  %all = select i1 %is.special, i32 %special, i32 %finite
  %result = or i32 %all, %sign
  %float = bitcast i32 %result to float
  ret float %float
}

declare double @llvm.fabs.f64(double)
