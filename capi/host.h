// What the Go side needs of C: the host's structs and callbacks.
#ifndef XPWC_HOST_H
#define XPWC_HOST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "include/xpwc.h"

// Types of xpwc.h that have no name there, as cgo needs one.
typedef const char xpwc_const_char;
typedef const struct xpwc_tensor xpwc_const_tensor;
typedef const char* const* xpwc_strings;
typedef const void* xpwc_const_pointer;

#pragma GCC visibility push(hidden)

// What no struct_size exceeds, so that a size never set does no harm.
enum { xpwc_greatest_struct = 4096 };

// Copies what a struct of the host covers of one that is known here; the rest is zero. A host of another version has
// a longer or a shorter one: what it sets and this library does not know must not be passed over. Returns false if
// there is such a thing, or if the size makes no sense.
bool xpwc_read_struct(void* to, size_t known, const void* from, size_t given);

// Options of the host, with the addresses of its functions and their context as numbers. All else is zero unless it
// is valid.
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

// A tensor of the host. What is only handed back to the host, or may be no address at all, is a number.
struct xpwc_tensor_view {
  const char* name;
  const void* data; // NULL unless it is the address of bytes to read
  size_t size;
  bool both; // data and fill are set
  uintptr_t address;
  uintptr_t fill;
  uintptr_t evict;
  uintptr_t release;
  uintptr_t context;
  const char* source;
  const char* stamp;
  const uint8_t* digest;
};

// Views the tensor at that index of a table with that distance. Returns false if its struct_size is wrong.
bool xpwc_view_table(const struct xpwc_tensor* tensors, size_t distance, size_t index, struct xpwc_tensor_view* view);

// Copies a packing of the host like xpwc_read_struct. What is no address in it becomes NULL.
bool xpwc_read_packing(struct xpwc_packing* to, const struct xpwc_packing* from);

// A function of the host with its context, for a cache.
struct xpwc_callback {
  uintptr_t function; // 0 if there is none, and then it must not be called
  uintptr_t context;
  uintptr_t cache;
};

xpwc_status xpwc_call_get(struct xpwc_callback get, const char* name, struct xpwc_tensor_view* view);
xpwc_status xpwc_call_changed(struct xpwc_callback changed, const char* source, int* says);
xpwc_status xpwc_call_fill(struct xpwc_callback fill, void* dst, size_t size);
// For evict too.
void xpwc_call_release(struct xpwc_callback release, uintptr_t data, size_t size);
void xpwc_call_log(struct xpwc_callback log, uint32_t level, const char* message);
void xpwc_call_progress(
    struct xpwc_callback progress, const char* name, uint64_t bytes, uint64_t done, uint64_t total);

// Returns whether the calling thread is in one of these functions for that cache, or if 0 for any: locks may be held
// meanwhile.
bool xpwc_in_callback(uintptr_t cache);

// Returns an address that may be anything as one that Go may take for a pointer: no memory lies in the first page.
void* xpwc_go_address(const void* address);

// Begins a call that needs Go: starts its runtime, once, or returns why there is none, with the message. The other is for
// calls with a handle, of which there is none before the start.
xpwc_status xpwc_ready(void);
xpwc_status xpwc_ready_for(uint64_t handle);

// Puts back what the host had before Go's runtime started: its handler of SIGURG and its limit of open files. Returns
// whether it could.
bool xpwc_restore(void);

// The calling thread's message.
enum { xpwc_last_error_size = 1024 };
char* xpwc_last_error_buffer(void);

// Returns an array of count pointers into bytes of text, which follows the array and is handed out too, or NULL. It is
// to be freed with free.
char** xpwc_strings_new(size_t count, size_t bytes, char** text);

#pragma GCC visibility pop

#endif
