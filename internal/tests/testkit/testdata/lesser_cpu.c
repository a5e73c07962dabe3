// A library to preload: XNNPACK of the program chooses its kernels as on a lesser CPU, of the level whose number is in LESSER_CPU. It hides
// what cpuinfo finds, before anybody reads it. Programs without cpuinfo are as they were.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>

#include <cpuinfo.h>
#pragma weak cpuinfo_isa

#include "../../../../xnnpack/limit_cpu.c"

static pthread_once_t once = PTHREAD_ONCE_INIT;
static bool initialized;

static void initialize(void) {
  bool (*real)(void) = (bool (*)(void)) dlsym(RTLD_NEXT, "cpuinfo_initialize");
  initialized = real != NULL && real();
  if (initialized && &cpuinfo_isa != NULL) {
    xpwc_limit_cpu(atoi(getenv("LESSER_CPU")));
  }
}

bool cpuinfo_initialize(void) {
  pthread_once(&once, initialize);
  return initialized;
}
