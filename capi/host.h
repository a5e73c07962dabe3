// The host's structs and callbacks, for the Go side.
#ifndef XPWC_HOST_H
#define XPWC_HOST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "include/xpwc.h"

// Names for types of xpwc.h, which cgo needs.
typedef const char xpwc_const_char;
typedef const struct xpwc_tensor xpwc_const_tensor;
typedef const char* const* xpwc_strings;
typedef const void* xpwc_const_pointer;

#pragma GCC visibility push(hidden)

// The largest struct_size. It detects sizes that were never set.
enum { xpwc_greatest_struct = 4096 };

// Copies a host's struct of src_size bytes into the library's of dst_size bytes; missing members become zero. Structs
// of other versions are longer or shorter. Returns false if src_size is invalid or a member that the library does not
// know is not zero.
bool xpwc_read_struct(void* dst, size_t dst_size, const void* src, size_t src_size);

// The host's options, with the addresses of its functions and their context as numbers. All members are zero unless
// valid is set.
struct xpwc_options_view {
  bool valid;
  uint32_t flags;
  uint32_t verify;
  int64_t writer_wait_ms;
  uint64_t max_bytes;
  uint32_t log_level;
  uintptr_t log;
  uintptr_t progress;
  uintptr_t context;
};

// A tensor of the host. Values that only go back to the host, or may be no address, are numbers.
struct xpwc_tensor_view {
  const char* name;
  const void* data; // NULL if there are no bytes to read
  size_t size;
  bool both; // data and fill are both set
  uintptr_t address;
  uintptr_t fill;
  uintptr_t evict;
  uintptr_t release;
  uintptr_t context;
  const char* source;
  const char* stamp;
  const uint8_t* digest;
};

// Fills in view from the tensor at an index of a table whose elements are distance bytes apart. Returns false if its
// struct_size is wrong.
bool xpwc_view_table(const struct xpwc_tensor* tensors, size_t distance, size_t index, struct xpwc_tensor_view* view);

// Copies a packing of the host like xpwc_read_struct. Pointers into the first page become NULL.
bool xpwc_read_packing(struct xpwc_packing* dst, const struct xpwc_packing* src);

// A function of the host with its context, and the cache it belongs to.
struct xpwc_callback {
  uintptr_t function; // 0 if there is none
  uintptr_t context;
  uintptr_t cache;
};

xpwc_status xpwc_call_get(struct xpwc_callback get, const char* name, struct xpwc_tensor_view* view);
xpwc_status xpwc_call_changed(struct xpwc_callback changed, const char* source, int* result);
xpwc_status xpwc_call_fill(struct xpwc_callback fill, void* dst, size_t size);
// Also calls evict.
void xpwc_call_release(struct xpwc_callback release, uintptr_t data, size_t size);
void xpwc_call_log(struct xpwc_callback log, uint32_t level, const char* message);
void xpwc_call_progress(
    struct xpwc_callback progress, const char* name, uint64_t bytes, uint64_t done, uint64_t total);

// Returns whether the calling thread is in a callback of that cache, or of any cache if 0. The library may then hold
// locks.
bool xpwc_in_callback(uintptr_t cache);

// Returns address, or NULL for the first page, which Go refuses as a pointer.
void* xpwc_go_address(const void* address);

// Begins a call that needs Go: starts Go's runtime once, or returns an error and sets the message. xpwc_ready_for is
// for calls with a handle, which fail if the runtime has not started.
xpwc_status xpwc_ready(void);
xpwc_status xpwc_ready_for(uint64_t handle);

// Restores the host's handler of SIGURG and its limit of open files, which Go's runtime changed. Returns whether it
// succeeded.
bool xpwc_restore(void);

// The calling thread's error message.
enum { xpwc_last_error_size = 1024 };
char* xpwc_last_error_buffer(void);

// Allocates an array of count pointers and, in the same block, *text of the given bytes. Returns NULL if memory is
// exhausted. The caller frees the array.
char** xpwc_strings_new(size_t count, size_t bytes, char** text);

#pragma GCC visibility pop

#endif
