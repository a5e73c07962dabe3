// The level of x86 CPU that XNNPACK chooses its kernels for, through the features that the cpuinfo library found.
#ifndef XPWC_XNNPACK_LIMIT_CPU_H
#define XPWC_XNNPACK_LIMIT_CPU_H

#include <cpuinfo.h>
#include <stdbool.h>

// x86 feature sets, each with everything below it.
enum xpwc_cpu_level {
  xpwc_cpu_sse2,
  xpwc_cpu_ssse3,
  xpwc_cpu_sse4_1,
  xpwc_cpu_avx,
  xpwc_cpu_fma3,
  xpwc_cpu_avx2,
  xpwc_cpu_avxvnni,
  xpwc_cpu_avx512,
  xpwc_cpu_avx512vnni,
  xpwc_cpu_avx512vnnigfni,
  xpwc_cpu_avx512fp16,
  xpwc_cpu_avx512amx,
};

// Returns whether the layout of cpuinfo_isa is the header's. False also if the processor has no levels. Comes before
// the first xpwc_limit_cpu; the next two count on it.
bool xpwc_knows_cpu(void);

// Whether cpuinfo_isa has what level adds to those below it.
bool xpwc_has_cpu_level(enum xpwc_cpu_level level);

// Clears in cpuinfo_isa what lies above level.
void xpwc_limit_cpu(enum xpwc_cpu_level level);

#endif
