// The functions of xpwc.h whose arguments must not all be seen by Go as pointers.

#include "host.h"

#include <stdlib.h>

#include "_cgo_export.h"

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

xpwc_status xpwc_open(const char* path, const struct xpwc_options* options, xpwc_cache* cache) {
  struct xpwc_options_view o = view_options(options);
  return xpwcOpen(path, &o, cache);
}

xpwc_status xpwc_open_fd(int file_descriptor, const struct xpwc_options* options, xpwc_cache* cache) {
  struct xpwc_options_view o = view_options(options);
  return xpwcOpenFD(file_descriptor, &o, cache);
}

xpwc_status xpwc_session_begin(xpwc_cache cache, const struct xpwc_data_map* data, xpwc_session* session) {
  struct xpwc_data_map m = {0};
  const bool valid = data == NULL || xpwc_read_struct(&m, sizeof(m), data, data->struct_size);
  return xpwcSessionBegin(
      cache, data != NULL, valid, (uintptr_t)m.get, (uintptr_t)m.changed, (uintptr_t)m.context, m.tensors, m.tensor_count,
      session);
}

xpwc_status xpwc_session_load(
    xpwc_session session, const char* name, const struct xpwc_load_options* options, const void** data, size_t* size) {
  struct xpwc_load_options o = {0};
  const bool valid = options == NULL || xpwc_read_struct(&o, sizeof(o), options, options->struct_size);
  struct xpwc_packing p;
  const bool packing_valid = o.packing == NULL || xpwc_read_packing(&p, o.packing);
  return xpwcSessionLoad(session, name, valid, o.flags, packing_valid, o.packing == NULL ? NULL : &p, data, size);
}

xpwc_status xpwc_session_alias(
    xpwc_session session, const void* alias, size_t size, const void* original, const char* conversion) {
  return xpwcSessionAlias(session, xpwc_go_address(alias), size, xpwc_go_address(original), conversion);
}

xpwc_status xpwc_digest(const void* data, size_t size, uint8_t digest[16]) {
  return xpwcDigest(xpwc_go_address(data), size, digest);
}

xpwc_status xpwc_file_changed(int file_descriptor, const struct xpwc_file_state* before, int* changed) {
  return xpwcFileChanged(file_descriptor, (struct xpwc_file_state*)before, changed);
}

void xpwc_names_free(const char* const* names) { free((void*)names); }

const char* xpwc_version(void) { return XPWC_VERSION; }

uint32_t xpwc_version_number(void) { return XPWC_VERSION_NUMBER; }

static _Thread_local char last_error[xpwc_last_error_size];

const char* xpwc_last_error(void) { return last_error; }

char* xpwc_last_error_buffer(void) { return last_error; }

const char* xpwc_status_string(xpwc_status status) {
  switch (status) {
#define NAME(status) \
  case status:       \
    return #status;
    NAME(XPWC_STATUS_OK)
    NAME(XPWC_STATUS_INVALID_ARGUMENT)
    NAME(XPWC_STATUS_INVALID_HANDLE)
    NAME(XPWC_STATUS_UNKNOWN_TENSOR)
    NAME(XPWC_STATUS_NO_DATA_MAP)
    NAME(XPWC_STATUS_NOT_EAGER)
    NAME(XPWC_STATUS_FINALIZED)
    NAME(XPWC_STATUS_IN_USE)
    NAME(XPWC_STATUS_NOT_CACHE)
    NAME(XPWC_STATUS_UNSAFE_FILE)
    NAME(XPWC_STATUS_DAMAGED)
    NAME(XPWC_STATUS_FOREIGN)
    NAME(XPWC_STATUS_VERSION_MISMATCH)
    NAME(XPWC_STATUS_OTHER_OPTIONS)
    NAME(XPWC_STATUS_BUSY)
    NAME(XPWC_STATUS_REPLACED)
    NAME(XPWC_STATUS_READ_ONLY)
    NAME(XPWC_STATUS_OUT_OF_MEMORY)
    NAME(XPWC_STATUS_SYSTEM_ERROR)
    NAME(XPWC_STATUS_CALLBACK_FAILED)
    NAME(XPWC_STATUS_INTERNAL)
    NAME(XPWC_STATUS_SOURCE_CHANGED)
    NAME(XPWC_STATUS_LOST)
#undef NAME
  }
  return "unknown xpwc_status";
}
