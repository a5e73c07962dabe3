// The functions of xpwc.h. They set output parameters to zero first. Arguments that Go must not see as pointers become
// numbers.

#include "host.h"

#include <stdlib.h>
#include <string.h>

#include "_cgo_export.h"
#include "../internal/ask/key.h"
#include "reader/status.h"

static struct xpwc_options_view view_options(const struct xpwc_options* options) {
  struct xpwc_options o = {0};
  const bool valid = options == NULL || xpwc_read_struct(&o, sizeof(o), options, options->struct_size);
  return (struct xpwc_options_view){
      .valid = valid,
      .flags = o.flags,
      .verify = o.verify,
      .writer_wait_ms = o.writer_wait_ms,
      .max_bytes = o.max_bytes,
      .log_level = o.log_level,
      .log = (uintptr_t)o.log,
      .progress = (uintptr_t)o.progress,
      .context = (uintptr_t)o.context};
}

#define ZERO(pointer)                      \
  if ((pointer) != NULL) {                 \
    memset(pointer, 0, sizeof(*(pointer))); \
  }

// Begins a function that needs Go.
#define READY(ready)                                    \
  do {                                                  \
    const xpwc_status status = ready;                   \
    if (status != XPWC_STATUS_OK) return status; \
  } while (0)

// Functions without structs. zero sets the output parameters to zero.
#define FUNCTION(name, parameters, zero, ready, call) \
  xpwc_status name parameters {                       \
    zero;                                             \
    READY(ready);                                     \
    return call;                                      \
  }
#define OF_CACHE(name, parameters, zero, call) FUNCTION(name, parameters, zero, xpwc_ready_for(cache.id), call)
#define OF_SESSION(name, parameters, zero, call) FUNCTION(name, parameters, zero, xpwc_ready_for(session.id), call)

OF_CACHE(xpwc_close, (xpwc_cache cache), , xpwcClose(cache))
OF_CACHE(xpwc_cache_save, (xpwc_cache cache), , xpwcCacheSave(cache))
OF_CACHE(xpwc_cache_compact, (xpwc_cache cache), , xpwcCacheCompact(cache))
OF_CACHE(xpwc_cache_trim, (xpwc_cache cache), , xpwcCacheTrim(cache))
OF_CACHE(
    xpwc_cache_names, (xpwc_cache cache, const char* const** names, size_t* count), ZERO(names) ZERO(count),
    xpwcCacheNames(cache, names, count))
OF_SESSION(
    xpwc_session_provider, (xpwc_session session, struct xnn_weights_cache_provider** provider), ZERO(provider),
    xpwcSessionProvider(session, provider))
OF_SESSION(xpwc_session_finalize, (xpwc_session session), , xpwcSessionFinalize(session))
OF_SESSION(
    xpwc_session_names, (xpwc_session session, const char* const** names, size_t* count), ZERO(names) ZERO(count),
    xpwcSessionNames(session, names, count))
OF_SESSION(xpwc_session_check, (xpwc_session session), , xpwcSessionCheck(session))
OF_SESSION(
    xpwc_session_explain, (xpwc_session session, char* text, size_t capacity),
    if (text != NULL && capacity > 0) *text = 0, xpwcSessionExplain(session, text, capacity))
OF_SESSION(xpwc_session_end, (xpwc_session session), , xpwcSessionEnd(session))
OF_SESSION(
    xpwc_session_alias,
    (xpwc_session session, const void* alias, size_t size, const void* original, const char* conversion), ,
    xpwcSessionAlias(session, xpwc_go_address(alias), size, xpwc_go_address(original), conversion))
FUNCTION(
    xpwc_digest, (const void* data, size_t size, uint8_t digest[16]), if (digest != NULL) memset(digest, 0, 16),
    xpwc_ready(), xpwcDigest(xpwc_go_address(data), size, digest))
FUNCTION(
    xpwc_file_stamp, (int file_descriptor, char* stamp, size_t capacity), if (stamp != NULL && capacity > 0) *stamp = 0,
    xpwc_ready(), xpwcFileStamp(file_descriptor, stamp, capacity))
FUNCTION(
    xpwc_file_look, (int file_descriptor, struct xpwc_file_state* state), ZERO(state), xpwc_ready(),
    xpwcFileLook(file_descriptor, state))
FUNCTION(
    xpwc_file_changed, (int file_descriptor, const struct xpwc_file_state* before, int* changed), ZERO(changed),
    xpwc_ready(), xpwcFileChanged(file_descriptor, (struct xpwc_file_state*)before, changed))

// Functions that read structs of the host.

xpwc_status xpwc_open(const char* path, const struct xpwc_options* options, xpwc_cache* cache) {
  ZERO(cache)
  READY(xpwc_ready());
  struct xpwc_options_view o = view_options(options);
  return xpwcOpen(path, &o, cache);
}

xpwc_status xpwc_open_fd(int file_descriptor, const struct xpwc_options* options, xpwc_cache* cache) {
  ZERO(cache)
  READY(xpwc_ready());
  struct xpwc_options_view o = view_options(options);
  return xpwcOpenFD(file_descriptor, &o, cache);
}

xpwc_status xpwc_session_begin(xpwc_cache cache, const struct xpwc_data_map* data, xpwc_session* session) {
  ZERO(session)
  READY(xpwc_ready_for(cache.id));
  struct xpwc_data_map m = {0};
  const bool valid = data == NULL || xpwc_read_struct(&m, sizeof(m), data, data->struct_size);
  return xpwcSessionBegin(
      cache, data != NULL, valid, (uintptr_t)m.get, (uintptr_t)m.changed, (uintptr_t)m.context, m.tensors, m.tensor_count,
      session);
}

xpwc_status xpwc_session_load(
    xpwc_session session, const char* name, const struct xpwc_load_options* options, const void** data, size_t* size) {
  ZERO(data)
  ZERO(size)
  READY(xpwc_ready_for(session.id));
  struct xpwc_load_options o = {0};
  const bool valid = options == NULL || xpwc_read_struct(&o, sizeof(o), options, options->struct_size);
  struct xpwc_packing p;
  const bool packing_valid = o.packing == NULL || xpwc_read_packing(&p, o.packing);
  return xpwcSessionLoad(session, name, valid, o.flags, packing_valid, o.packing == NULL ? NULL : &p, data, size);
}

// The host's struct may be shorter or longer than the library's: see xpwc_read_struct.
xpwc_status xpwc_cache_stats(xpwc_cache cache, struct xpwc_stats* stats) {
  const bool valid = stats != NULL && stats->struct_size >= sizeof(size_t) && stats->struct_size <= xpwc_greatest_struct;
  struct xpwc_stats all = {0};
  const size_t size = valid ? stats->struct_size : 0, covered = size < sizeof(all) ? size : sizeof(all);
  if (valid) {
    all.struct_size = size;
    memcpy(stats, &all, covered);
  }
  READY(xpwc_ready_for(cache.id));
  const xpwc_status status = xpwcCacheStats(cache, stats, valid, &all);
  if (status == XPWC_STATUS_OK) {
    all.struct_size = size;
    memcpy(stats, &all, covered);
  }
  return status;
}

void xpwc_names_free(const char* const* names) { free((void*)names); }

// Defines xpwc_open and xpwc_open_fd under names with the sizes of this library's structs, which only the assembler can
// compose. A host that uses names of other sizes does not link, and GNU's linker then prints the warning.
__attribute__((used, noinline)) static void define_sized_names(void) {
#define WARNING(function, host_key, host_provider)                                                                      \
  ".ifne (%c0 - " #host_key ") * 256 + %c1 - " #host_provider "\n"                                                       \
  ".pushsection .gnu.warning." #function "_xnnpack_key" #host_key "_provider" #host_provider ",\"\",%%progbits\n"      \
  ".ascii \"libxpwc was built for an XNNPACK whose look-up key has %c0 bytes and whose provider has %c1; this program \"\n"     \
  ".asciz \"is compiled for one with " #host_key " and " #host_provider                                                 \
  ": build libxpwc for the program's XNNPACK (make lib XNNPACK=/its/prefix)\"\n"                                        \
  ".popsection\n"                                                                                                       \
  ".endif\n"
#define SIZED(function)                                                                                                  \
  ".globl " #function "_xnnpack_key%c0_provider%c1\n"                                                                   \
  ".type " #function "_xnnpack_key%c0_provider%c1, %%function\n"                                                        \
  ".set " #function "_xnnpack_key%c0_provider%c1, " #function "\n"                                                       \
  WARNING(function, 24, 56) WARNING(function, 32, 56) WARNING(function, 32, 64)
  __asm__ volatile(SIZED(xpwc_open) SIZED(xpwc_open_fd)
                   :
                   : "i"(sizeof(struct xnn_weights_cache_look_up_key) * 8 / sizeof(void*)),
                     "i"(sizeof(struct xnn_weights_cache_provider) * 8 / sizeof(void*)));
}

const char* xpwc_xnnpack(void) { return xpwc_abi_name(xpwc_header_abi()); }

const char* xpwc_version(void) { return XPWC_VERSION; }

uint32_t xpwc_version_number(void) { return XPWC_VERSION_NUMBER; }

const char* xpwc_reason_name(xpwc_reason reason) {
  static const char* const names[] = {
      [XPWC_REASON_IN_MEMORY] = "in-memory",
      [XPWC_REASON_NO_FILE] = "no-file",
      [XPWC_REASON_FOREIGN] = "foreign",
      [XPWC_REASON_DAMAGED] = "damaged",
      [XPWC_REASON_NAME] = "name",
      [XPWC_REASON_LAYOUT] = "layout",
      [XPWC_REASON_XNNPACK] = "xnnpack",
      [XPWC_REASON_FINGERPRINT] = "fingerprint",
      [XPWC_REASON_PACKING] = "packing",
      [XPWC_REASON_CONTENT] = "content",
      [XPWC_REASON_SIZE] = "size",
      [XPWC_REASON_KEY] = "key",
      [XPWC_REASON_COMPARE] = "compare",
      [XPWC_REASON_NO_PACKING] = "no-packing",
      [XPWC_REASON_VARIANT] = "variant",
      [XPWC_REASON_SEED] = "seed",
      [XPWC_REASON_REPEATED] = "repeated",
      [XPWC_REASON_AMBIGUOUS] = "ambiguous",
      [XPWC_REASON_UNSIZED] = "unsized",
      [XPWC_REASON_UNASKED] = "unasked",
      [XPWC_REASON_STAMP] = "stamp",
      [XPWC_REASON_UNSTAMPED] = "unstamped",
      [XPWC_REASON_WRITTEN] = "written",
      [XPWC_REASON_OWNER] = "owner",
      [XPWC_REASON_FILE_SYSTEM] = "file-system",
      [XPWC_REASON_UNNAMED] = "unnamed",
      [XPWC_REASON_READ_ONLY] = "read-only",
      [XPWC_REASON_BUSY] = "busy",
      [XPWC_REASON_VERSION] = "version",
      [XPWC_REASON_DISK] = "disk",
      [XPWC_REASON_PROCESS] = "process",
      [XPWC_REASON_SESSION] = "session",
      [XPWC_REASON_GROWTH] = "growth",
  };
  return (size_t)reason < sizeof(names) / sizeof(*names) ? names[reason] : "unknown xpwc_reason";
}

static _Thread_local char last_error[xpwc_last_error_size];

const char* xpwc_last_error(void) { return last_error; }

char* xpwc_last_error_buffer(void) { return last_error; }

const char* xpwc_status_string(xpwc_status status) { return xpwc_name_of_status(status); }
