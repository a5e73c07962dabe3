// A reader of sealed cache files in C99, without Go, for hosts whose models are packed ahead of time.
//
//   xpwc_reader* reader;
//   xpwc_reader_open("model.xpwc", "0f3c…", &reader);                   // the digest that xpwc pack --sealed printed
//   xpwc_reader_name(reader, "layers.0.weight", weights, size, &packing); // each tensor that goes to xnn_define_...
//   xnn_create_runtime_v4(subgraph, xpwc_reader_provider(reader), workspace, threadpool, flags, &runtime);
//   xpwc_reader_finalize(reader);
//   ... xnn_setup_runtime_v2, xnn_invoke_runtime, as often as needed ...
//   xnn_delete_runtime(runtime);
//   xpwc_reader_close(reader);
//
// The reader maps a file that xpwc pack --sealed or xpwc pull --sealed wrote (docs/format.md), answers look-ups from
// it, and never writes to it. On a miss XNNPACK packs into private memory, and the miss is counted. Every hit has the
// bytes that this machine's XNNPACK would pack, and no file causes a read out of bounds if the host gives packings. The
// reader also reads the cache files of libxpwc, which have no digest of a model.
//
// Build: compile xpwc_reader.c with the host, with XNNPACK's directory and this one in the include path. It needs
// XNNPACK and libc, starts no thread, has no global state and handles no signal. It works after fork, and in a sandbox
// with only a descriptor. Replace the mapped file by a rename: truncating it in place ends the process with SIGBUS, and
// so does a disk that fails to read mapped weights. CMake's target xpwc::reader is that source; pkg-config's
// xpwc-reader has its directory.
//
// Threads. One thread at a time may use a reader; creating a runtime is a use. After xpwc_reader_finalize any number of
// threads may execute runtimes.
#ifndef XPWC_READER_H
#define XPWC_READER_H

#include <stddef.h>
#include <stdint.h>

#include "xpwc.h" // xpwc_status, xpwc_count and xpwc_packing; nothing of the library is linked

#ifdef __cplusplus
extern "C" {
#endif

typedef struct xpwc_reader xpwc_reader;

// Returns the status' name, for example "XPWC_STATUS_DAMAGED"; never NULL. Static storage.
const char* xpwc_reader_status_string(xpwc_status status);

// Writes to text, a buffer of capacity bytes, a sentence about a status that the reader returned: its name, the cause
// and the remedy. For SYSTEM_ERROR call it while errno is unchanged.
void xpwc_reader_error(xpwc_status status, char* text, size_t capacity);

// Opens the file at path. model is the digest of the host's model, 32 hexadecimal digits: xpwc pack --sealed prints it,
// and xpwc_reader_digest computes it. Entries of other models then never hit. If model is NULL or the file is not
// sealed, the reader computes and compares the digest of each tensor. Close *reader with xpwc_reader_close.
// Statuses: OK, INVALID_ARGUMENT, NOT_CACHE, VERSION_MISMATCH, DAMAGED, OUT_OF_MEMORY, OTHER_XNNPACK; SYSTEM_ERROR with
// errno if the system cannot open or read the file, which may be undamaged; UNSAFE_FILE if neither this user nor root
// owns the file, or others can write to it. xpwc_reader_error describes each.
xpwc_status xpwc_reader_open(const char* path, const char* model, xpwc_reader** reader);

// Opens the cache in size bytes from offset of an open file; size 0 means up to its end, and offset must be a multiple
// of 64. The host keeps the descriptor and may close it at once. Owner and mode are not checked.
// Statuses: as xpwc_reader_open, except UNSAFE_FILE.
xpwc_status xpwc_reader_open_fd(int descriptor, uint64_t offset, uint64_t size, const char* model, xpwc_reader** reader);

// Closes the reader and unmaps the file. Delete the runtimes that use it first. NULL has no effect.
void xpwc_reader_close(xpwc_reader* reader);

// Names the tensor at data, size bytes, as the model does: entries are found by name. data must stay readable until
// xpwc_reader_finalize. packing is how XNNPACK will pack the tensor, as in xpwc_load_options; it is read only during
// the call. Set it for every kernel, floats included, and call the function once for each use. It is NULL for a bias
// and for tensors that are not packed. A kernel without it, or with an opaque one, is packed at each start, and
// replaced by the file's bytes if they are equal. A new name for an address replaces the old one.
// Statuses: OK, INVALID_ARGUMENT, FINALIZED, OUT_OF_MEMORY.
xpwc_status xpwc_reader_name(
    xpwc_reader* reader, const char* name, const void* data, size_t size, const struct xpwc_packing* packing);

// Names a tensor for a host that does not know how it is packed, such as ExecuTorch's class. The packing comes from the
// file: look-ups hit if it is sealed for the program of xpwc_reader_set_program and has one packing of the tensor. Any
// other kernel is packed at each start, and replaced by the file's bytes if they are equal: XNNPACK's key has neither
// shapes nor scales, so a hit could return weights of another export, with another size or other scales. A name that is
// the SHA-256 of the content, as ExecuTorch's exporter makes it, replaces the content; otherwise the content is read
// and compared. If an address has several names, all their packings count. On a CPU without half precision XNNPACK
// converts half-precision kernels and packs them at each start.
// Statuses: OK, INVALID_ARGUMENT, FINALIZED, OUT_OF_MEMORY.
xpwc_status xpwc_reader_name_as_sealed(xpwc_reader* reader, const char* name, const void* data, size_t size);

// Sets the program of the tensors that are named next: the bytes that ExecuTorch passes to its backend for a delegate,
// which contain all shapes and scales. They are read only during the call. Tensors named as sealed can then hit if the
// file is sealed for these bytes; the digest of the model is not needed. If the kernel has scales, every name must be
// the hash of the content, since scales have names too. Forgets all names and the previous program, as
// xpwc_reader_forget does: call it once for each runtime, before its tensors are named.
// Statuses: OK, FINALIZED, INVALID_ARGUMENT if size is 0. After an error the previous program stays.
xpwc_status xpwc_reader_set_program(xpwc_reader* reader, const void* data, size_t size);

// Forgets all names and the program. Call it between runtimes: the next one's tensors may have the same addresses.
void xpwc_reader_forget(xpwc_reader* reader);

// Returns the provider for xnn_create_runtime_v4. The reader owns it. Runtimes that are created one after the other can
// share it.
xnn_weights_cache_t xpwc_reader_provider(xpwc_reader* reader);

// Call it when all runtimes are created, before they are set up. Tensors that only packing reads may then be freed.
void xpwc_reader_finalize(xpwc_reader* reader);

// Why a look-up missed.
typedef enum xpwc_reader_miss {
  XPWC_READER_MISS_UNNAMED, // the kernel or its bias has no name
  XPWC_READER_MISS_LITTLE,  // the tensors have at most 64 KiB in total: they are packed and compared
  XPWC_READER_MISS_PACKING, // no packing of the kernel, or an opaque one: it is packed and compared
  XPWC_READER_MISS_NO_PROGRAM, // a tensor named as sealed without xpwc_reader_set_program: it is packed and compared
  XPWC_READER_MISS_MODEL,   // a tensor named as sealed, in a file sealed for another program and model
  XPWC_READER_MISS_LAYOUT,  // the file has no entries in this machine's layout
  XPWC_READER_MISS_CONTENT, // the file has the tensor with other content or another size
  XPWC_READER_MISS_ABSENT,  // the file does not have the tensor with this packing
  XPWC_READER_MISS_OFF,     // after xpwc_reader_finalize, or after damage was found
  XPWC_READER_MISSES
} xpwc_reader_miss;

// Counts of a reader.
typedef struct xpwc_reader_stats {
  xpwc_count hits;   // look-ups that hit
  uint64_t misses;   // look-ups that missed
  xpwc_count packed; // weights packed into private memory
  // Packed weights that equal an entry of the file, which is used instead: of operators without a look-up, of tensors
  // of at most 64 KiB in total, and if XNNPACK does not report the size (NCHW convolution; half precision until
  // November 2025).
  xpwc_count shared;
  uint64_t entries;  // entries in the file
  int damaged;       // 1 if xpwc_reader_verify found damage: all look-ups miss then
  int asked;         // 1 if the reader probed XNNPACK's whole layout, which takes a millisecond or two
  uint64_t misses_by[XPWC_READER_MISSES]; // misses by reason
} xpwc_reader_stats;

void xpwc_reader_get_stats(const xpwc_reader* reader, xpwc_reader_stats* stats);

// Returns a sentence about the most frequent reason of misses, and what to do; "" if there were none. Static storage.
const char* xpwc_reader_reason(const xpwc_reader* reader);

// Verifies the checksums of all entries that hit. It reads these entries in full.
// Statuses: OK, DAMAGED.
xpwc_status xpwc_reader_verify(xpwc_reader* reader);

// Computes the 128-bit XXH3 digest of size bytes as 32 hexadecimal digits and a NUL. The digest of a model's file is
// the model argument of xpwc_reader_open; for a model in several files it is the digest of their concatenated digests,
// 16 bytes each.
void xpwc_reader_digest(const void* data, size_t size, char text[33]);

// Computes the digest of size bytes from offset of an open file, for a model that is a section of it: an asset of
// Android by its descriptor, or a member of a zip that is stored without compression. Size 0 means up to the file's
// end. It maps the section for the moment; nobody may truncate the file meanwhile. The host keeps the descriptor.
// Statuses: OK; INVALID_ARGUMENT if the section does not lie in the file; OUT_OF_MEMORY; SYSTEM_ERROR with errno.
xpwc_status xpwc_reader_digest_fd(int descriptor, uint64_t offset, uint64_t size, char text[33]);

#ifdef __cplusplus
}
#endif

#endif
