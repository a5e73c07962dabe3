// The properties that XNNPACK may choose kernels by: the processor's model, and all features that it reports.

#include <string.h>

#include "ask.h"

#if defined(__x86_64__) && defined(__GNUC__)
#include <cpuid.h>

struct registers {
  uint32_t a, b, c, d;
};

static struct registers cpuid(uint32_t leaf, uint32_t subleaf) {
  struct registers r;
  __cpuid_count(leaf, subleaf, r.a, r.b, r.c, r.d);
  return r;
}

// Few leaves, since each is an exit to the host of a virtual machine. What differs from one core to another, as its
// number, is left out.
size_t xpwc_processor(uint32_t words[XPWC_PROCESSOR_WORDS]) {
  const struct registers none = {0, 0, 0, 0}, vendor = cpuid(0, 0), model = cpuid(1, 0);
  const struct registers more = vendor.a >= 7 ? cpuid(7, 0) : none, newer = more.a >= 1 ? cpuid(7, 1) : none,
                         avx10 = vendor.a >= 0x24 ? cpuid(0x24, 0) : none;
  uint32_t enabled = 0, upper = 0;
  if ((model.c & bit_OSXSAVE) != 0) { // registers that the system saves
    __asm__ volatile("xgetbv" : "=a"(enabled), "=d"(upper) : "c"(0));
  }
  const uint32_t all[] = {vendor.b, vendor.c, vendor.d, model.a, model.c, model.d, more.b,  more.c,
                          more.d,   newer.a,  newer.b,  newer.c, newer.d, avx10.b, enabled};
  memcpy(words, all, sizeof(all));
  return sizeof(all) / sizeof(all[0]);
}
#elif defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>

// Linux answers for the register that has the model.
size_t xpwc_processor(uint32_t words[XPWC_PROCESSOR_WORDS]) {
  enum { answered = 1 << 11 }; // HWCAP_CPUID
  const uint64_t features[] = {getauxval(AT_HWCAP), getauxval(AT_HWCAP2)};
  if ((features[0] & answered) == 0) {
    return 0;
  }
  uint64_t model;
  __asm__ volatile("mrs %0, midr_el1" : "=r"(model));
  memcpy(words, features, sizeof(features));
  memcpy(words + 4, &model, sizeof(model));
  return 6;
}
#else
size_t xpwc_processor(uint32_t words[XPWC_PROCESSOR_WORDS]) {
  (void)words;
  return 0;
}
#endif
