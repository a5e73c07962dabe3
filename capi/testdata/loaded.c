// The functions of the library for a program that loads it with dlopen.
#define _GNU_SOURCE
#include <dlfcn.h>

#include "host.h"

extern void* library;

static void* find(const char* name) {
  void* function = library == NULL ? NULL : dlsym(library, name);
  if (function == NULL) {
    _Exit(8);
  }
  return function;
}

#define FORWARD(type, name, parameters, arguments) \
  type name parameters {                           \
    type(*function) parameters;                    \
    *(void**)&function = find(#name);              \
    return function arguments;                     \
  }

FORWARD(const char*, xpwc_status_string, (xpwc_status status), (status))
FORWARD(const char*, xpwc_last_error, (void), ())
FORWARD(xpwc_status, xpwc_open, (const char* path, const xpwc_options* options, xpwc_cache* cache), (path, options, cache))
FORWARD(xpwc_status, xpwc_close, (xpwc_cache cache), (cache))
FORWARD(xpwc_status, xpwc_cache_stats, (xpwc_cache cache, xpwc_stats* stats), (cache, stats))
FORWARD(xpwc_status, xpwc_session_begin, (xpwc_cache cache, const xpwc_data_map* data, xpwc_session* session), (cache, data, session))
FORWARD(
    xpwc_status, xpwc_session_load,
    (xpwc_session session, const char* name, const xpwc_load_options* options, const void** data, size_t* size),
    (session, name, options, data, size))
FORWARD(
    xpwc_status, xpwc_session_provider, (xpwc_session session, struct xnn_weights_cache_provider** provider), (session, provider))
FORWARD(xpwc_status, xpwc_session_finalize, (xpwc_session session), (session))
FORWARD(xpwc_status, xpwc_session_check, (xpwc_session session), (session))
FORWARD(xpwc_status, xpwc_session_end, (xpwc_session session), (session))
FORWARD(xpwc_status, xpwc_digest, (const void* data, size_t size, uint8_t digest[16]), (data, size, digest))
