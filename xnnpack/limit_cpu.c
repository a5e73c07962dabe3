#include "limit_cpu.h"

#include <string.h>

bool xpwc_knows_cpu(void) {
#if CPUINFO_ARCH_X86_64
  if (!cpuinfo_initialize()) {
    return false;
  }
  // A header of another cpuinfo may have other members: what is found here must be what the compiler finds.
  const struct cpuinfo_x86_isa* has = &cpuinfo_isa;
  __builtin_cpu_init();
  return has->ssse3 == !!__builtin_cpu_supports("ssse3") && has->avx == !!__builtin_cpu_supports("avx") &&
         has->avx2 == !!__builtin_cpu_supports("avx2") && has->avx512f == !!__builtin_cpu_supports("avx512f") &&
         has->avx512vl == !!__builtin_cpu_supports("avx512vl") &&
         has->avx512vnni == !!__builtin_cpu_supports("avx512vnni") && has->gfni == !!__builtin_cpu_supports("gfni");
#else
  return false;
#endif
}

bool xpwc_has_cpu_level(enum xpwc_cpu_level level) {
#if CPUINFO_ARCH_X86_64
  const struct cpuinfo_x86_isa* has = &cpuinfo_isa;
  switch (level) {
    case xpwc_cpu_sse2:
      return true;
    case xpwc_cpu_ssse3:
      return has->ssse3;
    case xpwc_cpu_sse4_1:
      return has->sse4_1;
    case xpwc_cpu_avx:
      return has->avx;
    case xpwc_cpu_fma3:
      return has->fma3 && has->f16c;
    case xpwc_cpu_avx2:
      return has->avx2;
    case xpwc_cpu_avxvnni:
      return has->avxvnni;
    case xpwc_cpu_avx512:
      return has->avx512f && has->avx512cd && has->avx512bw && has->avx512dq && has->avx512vl;
    case xpwc_cpu_avx512vnni:
      return has->avx512vnni;
    case xpwc_cpu_avx512vnnigfni:
      return has->gfni && has->avx512vbmi;
    case xpwc_cpu_avx512fp16:
      return has->avx512fp16 && has->avx512bf16;
    case xpwc_cpu_avx512amx:
      return has->amx_tile && has->amx_int8;
  }
#else
  (void) level;
#endif
  return false;
}

void xpwc_limit_cpu(enum xpwc_cpu_level level) {
#if CPUINFO_ARCH_X86_64
  // Only what the level keeps is named, so that features newer than this source are cleared too.
  const struct cpuinfo_x86_isa has = cpuinfo_isa;
  memset(&cpuinfo_isa, 0, sizeof(cpuinfo_isa));
  switch (level) {
    case xpwc_cpu_avx512amx:
      cpuinfo_isa.amx_tile = has.amx_tile;
      cpuinfo_isa.amx_int8 = has.amx_int8;
      cpuinfo_isa.amx_bf16 = has.amx_bf16;
      // fallthrough
    case xpwc_cpu_avx512fp16:
      cpuinfo_isa.avx512fp16 = has.avx512fp16;
      cpuinfo_isa.avx512bf16 = has.avx512bf16;
      // fallthrough
    case xpwc_cpu_avx512vnnigfni:
      cpuinfo_isa.gfni = has.gfni;
      cpuinfo_isa.avx512vbmi = has.avx512vbmi;
      // fallthrough
    case xpwc_cpu_avx512vnni:
      cpuinfo_isa.avx512vnni = has.avx512vnni;
      // fallthrough
    case xpwc_cpu_avx512:
      cpuinfo_isa.avx512f = has.avx512f;
      cpuinfo_isa.avx512cd = has.avx512cd;
      cpuinfo_isa.avx512bw = has.avx512bw;
      cpuinfo_isa.avx512dq = has.avx512dq;
      cpuinfo_isa.avx512vl = has.avx512vl;
      // fallthrough
    case xpwc_cpu_avxvnni:
      // The processors that AVX-512 levels stand for came before AVX-VNNI and do not have it. Those with AVX-VNNI have GFNI,
      // without which newer XNNPACKs do not use it.
      if (level == xpwc_cpu_avxvnni) {
        cpuinfo_isa.avxvnni = has.avxvnni;
        cpuinfo_isa.gfni = has.gfni;
      }
      // fallthrough
    case xpwc_cpu_avx2:
      cpuinfo_isa.avx2 = has.avx2;
      // fallthrough
    case xpwc_cpu_fma3:
      cpuinfo_isa.fma3 = has.fma3;
      cpuinfo_isa.f16c = has.f16c;
      // fallthrough
    case xpwc_cpu_avx:
      cpuinfo_isa.avx = has.avx;
      cpuinfo_isa.sse4_2 = has.sse4_2;
      // fallthrough
    case xpwc_cpu_sse4_1:
      cpuinfo_isa.sse4_1 = has.sse4_1;
      // fallthrough
    case xpwc_cpu_ssse3:
      cpuinfo_isa.sse3 = has.sse3;
      cpuinfo_isa.ssse3 = has.ssse3;
      // fallthrough
    case xpwc_cpu_sse2:
      break;
  }
#else
  (void) level;
#endif
}
