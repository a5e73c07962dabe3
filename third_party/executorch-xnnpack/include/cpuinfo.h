// What this project uses of the cpuinfo in ExecuTorch's wheel (libexecutorch_threadpool.so), as pytorch/cpuinfo has it at
// commit f9a03241.
#ifndef XPWC_EXECUTORCH_CPUINFO_H
#define XPWC_EXECUTORCH_CPUINFO_H

#if defined(__x86_64__)
#define CPUINFO_ARCH_X86_64 1

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

bool cpuinfo_initialize(void);

// The order is the library's ABI.
struct cpuinfo_x86_isa {
  bool rdtscp, rdpid, sysenter, msr, clzero, clflush, clflushopt, mwait, mwaitx, fxsave, xsave;
  bool three_d_now, three_d_now_plus, prefetch, prefetchw, prefetchwt1;
  bool sse3, ssse3, sse4_1, sse4_2, sse4a, misaligned_sse;
  bool avx, avxvnni, fma3, fma4, xop, f16c, avx2;
  bool avx512f, avx512pf, avx512er, avx512cd, avx512dq, avx512bw, avx512vl, avx512ifma, avx512vbmi, avx512vbmi2;
  bool avx512bitalg, avx512vpopcntdq, avx512vnni, avx512bf16, avx512fp16, avx512vp2intersect, avx512_4vnniw, avx512_4fmaps;
  bool avx10_1, avx10_2, amx_bf16, amx_tile, amx_int8, amx_fp16;
#ifdef XPWC_CPUINFO_KNOWS_AMX_FP8
  bool amx_fp8;
#endif
  bool avx_vnni_int8, avx_vnni_int16, avx_ne_convert;
  bool hle, rtm, xtest, mpx, cmpxchg16b, clwb, movbe, lahf_sahf, fs_gs_base, lzcnt, popcnt, tbm, bmi, bmi2, adx;
  bool aes, vaes, pclmulqdq, vpclmulqdq, gfni, rdrand, rdseed, sha, rng, ace, ace2, phe, pmm, lwp;
};

extern struct cpuinfo_x86_isa cpuinfo_isa;

#ifdef __cplusplus
}
#endif

#else
#define CPUINFO_ARCH_X86_64 0
#endif

#endif
