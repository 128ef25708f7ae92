// Instruction sets between Highway's targets: functions that ask for them name one of these as their target. Each has
// all that Highway asks for at the target below, of any of its versions; else its functions could not be inlined.
#pragma once

#define ANTIPHON_AVX2_SETS "avx,avx2,bmi,bmi2,fma,f16c,sse4.1,sse4.2,pclmul,aes"
#define ANTIPHON_AVX512_SETS ANTIPHON_AVX2_SETS ",avx512f,avx512cd,avx512vl,avx512dq,avx512bw"
#define ANTIPHON_TARGET_AVX_VNNI __attribute__((target(ANTIPHON_AVX2_SETS ",avxvnni")))
#define ANTIPHON_TARGET_AVX512_VNNI __attribute__((target(ANTIPHON_AVX512_SETS ",avx512vnni")))
#define ANTIPHON_TARGET_AVX512_BF16 __attribute__((target(ANTIPHON_AVX512_SETS ",avx512bf16")))
#define ANTIPHON_TARGET_AVX512_POPCNT __attribute__((target(ANTIPHON_AVX512_SETS ",avx512vpopcntdq")))

// Sums stay in registers only if these loops are written out.
#define ANTIPHON_UNROLL _Pragma("GCC unroll 16")
