// An XNNPACK that is initialized when it is loaded has chosen its kernels before LimitCPU can be called. Code that
// initializes it then calls by name, and a program's own function precedes its libraries' functions of that name: this
// one, which does nothing until all libraries are loaded.

#define _GNU_SOURCE // RTLD_NEXT

#include "shims.h"

#if defined(XPWC_XNNPACK_IS_INITIALIZED_WHEN_LOADED) && defined(__ELF__)

#include <dlfcn.h>

static bool loaded;
static bool deferred;

// A program's constructors run after its libraries' constructors.
__attribute__((constructor)) static void end_loading(void) { loaded = true; }

enum xnn_status xnn_initialize(const struct xnn_allocator* allocator) {
  if (!loaded) {
    deferred = true;
    return xnn_status_success;
  }
  enum xnn_status (*initialize)(const struct xnn_allocator*);
  *(void**)&initialize = dlsym(RTLD_NEXT, "xnn_initialize");
  return initialize == NULL ? xnn_status_uninitialized : initialize(allocator);
}

bool xpwc_initialized_when_loaded(void) { return !deferred; }

#else

bool xpwc_initialized_when_loaded(void) { return false; }

#endif
