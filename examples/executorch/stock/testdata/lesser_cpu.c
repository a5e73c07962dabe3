// Preloaded into a host, this library makes XNNPACK choose its kernels as on a lesser CPU, before the host's first line:
// the backend initializes XNNPACK when it is loaded, and XNNPACK asks cpuinfo, by name. LESSER_CPU is a level's number in
// enum xpwc_cpu_level. Compiled with xnnpack/limit_cpu.c.

#define _GNU_SOURCE // RTLD_NEXT

#include <dlfcn.h>
#include <stdlib.h>

#include "limit_cpu.h"

bool cpuinfo_initialize(void) {
  static bool limited;
  bool (*initialize)(void);
  *(void**)&initialize = dlsym(RTLD_NEXT, "cpuinfo_initialize");
  if (!initialize()) {
    return false;
  }
  if (!limited) {
    limited = true;
    const enum xpwc_cpu_level level = (enum xpwc_cpu_level)atoi(getenv("LESSER_CPU"));
    if (!xpwc_has_cpu_level(level)) {
      abort(); // where there is no such CPU, nothing would be hidden
    }
    xpwc_limit_cpu(level);
  }
  return true;
}
