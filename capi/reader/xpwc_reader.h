// A reader of sealed cache files, in C99 and without Go: for a host whose models were packed ahead of time.
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
// It maps a file that xpwc pack --sealed or xpwc pull --sealed has made (docs/format.md), serves what is in it, and never
// writes to it. What is not in it is packed into memory of this process, and counted. Nothing is served that this
// machine's XNNPACK would not pack itself, and no file makes it read out of bounds where the host gives the packing.
// It reads any file of the format, also one that libxpwc has made: that has no digest of a model.
//
// Build: compile xpwc_reader.c with the host, with XNNPACK's directory and this one in the include path. It needs XNNPACK
// and libc, begins no thread, has no global state and handles no signal. It works before and after fork, and in a sandbox
// with a descriptor only. Whoever cuts the file off while it is mapped ends the process with SIGBUS: replace it by a
// rename. So does a disk that cannot read packed weights once they are mapped. With CMake, the target xpwc::reader is that
// source; pkg-config's xpwc-reader has its directory.
//
// Threads. One thread at a time may use a reader; the one that creates a runtime uses it. After xpwc_reader_finalize any
// number may execute runtimes.
#ifndef XPWC_READER_H
#define XPWC_READER_H

#include <stddef.h>
#include <stdint.h>

#include "xpwc.h" // xpwc_status, xpwc_count and xpwc_packing; nothing of the library is linked

#ifdef __cplusplus
extern "C" {
#endif

typedef struct xpwc_reader xpwc_reader;

// Returns the status' name, for example "XPWC_STATUS_DAMAGED", as xpwc_status_string does in the library. Static storage.
const char* xpwc_reader_status_string(xpwc_status status);

// Writes to text, which has room for capacity bytes, a sentence about a status that a function here has returned: its name,
// the cause and what to do. For SYSTEM_ERROR call it before errno changes.
void xpwc_reader_error(xpwc_status status, char* text, size_t capacity);

// Opens the file at path. model is the digest of the model that the host has, 32 hexadecimal digits: xpwc pack --sealed
// prints it, and xpwc_reader_digest computes it. What the file has of another model is not served. Without it (NULL), or
// where the file was not sealed, the content of each tensor is read and compared. *reader must be closed.
// Statuses: OK, INVALID_ARGUMENT, NOT_CACHE, VERSION_MISMATCH, DAMAGED, OUT_OF_MEMORY, OTHER_XNNPACK; SYSTEM_ERROR with errno
// if the system cannot open or read the file, of which nothing is known then; UNSAFE_FILE if the file is neither this user's
// nor root's, or others can write to it. xpwc_reader_error has a sentence about each.
xpwc_status xpwc_reader_open(const char* path, const char* model, xpwc_reader** reader);

// Opens a file by a descriptor, which stays the host's and may be closed at once: size bytes from offset on, for a file
// that lies in another one; 0 is all that follows. Whose file it is was for whoever opened it to see.
// Statuses: those of xpwc_reader_open without UNSAFE_FILE.
xpwc_status xpwc_reader_open_fd(int descriptor, uint64_t offset, uint64_t size, const char* model, xpwc_reader** reader);

// Closes the reader, which may be NULL, and unmaps the file: runtimes that use it must be deleted before.
void xpwc_reader_close(xpwc_reader* reader);

// Says that the tensor at data, of size bytes, has a name: that of the model, by which it was packed. data must stay
// readable until xpwc_reader_finalize. packing says how XNNPACK is going to pack it, as with xpwc_session_load: with each
// kernel, also of floats, once for each use of it. It is NULL for a bias and for what is not packed. A kernel without it, or
// with an opaque one, is packed, and the file's bytes are used if they are equal. It is read during the call alone. Another name for the address takes the place of the first.
// Statuses: OK, INVALID_ARGUMENT, FINALIZED, OUT_OF_MEMORY.
xpwc_status xpwc_reader_name(
    xpwc_reader* reader, const char* name, const void* data, size_t size, const struct xpwc_packing* packing);

// Names a tensor for a host that does not know how it is packed, as ExecuTorch's class. The packing comes from the file,
// which must be sealed for the program of xpwc_reader_set_program and pack the tensor in one way; then a look-up is
// answered. Any other kernel is packed at each start, compared, and used from the file where it is equal: XNNPACK's key has
// neither shapes nor scales, so a model that was exported again could get weights of another size or with other scales. A
// name that is the SHA-256 of the content, as ExecuTorch's exporter makes it, stands for the content; under another name
// the content is read and compared. Of several names at one address all packings count. Where the CPU has no half
// precision, XNNPACK converts a kernel of half precision first, and it is packed.
// Statuses: OK, INVALID_ARGUMENT, FINALIZED, OUT_OF_MEMORY.
xpwc_status xpwc_reader_name_as_sealed(xpwc_reader* reader, const char* name, const void* data, size_t size);

// Gives the bytes of the program whose tensors are named after it: those that ExecuTorch gives to its backend for a
// delegate, which have all shapes and scales. They are read during the call alone. A tensor that is named as sealed is
// believed if the file was sealed for these bytes; the digest of the model is not needed. If the kernel has scales, every
// name must be the hash of the content, since scales have names, too. Forgets all names, as xpwc_reader_forget, and a
// program that was given before: call it once a runtime, before its tensors are named.
// Statuses: OK, FINALIZED, INVALID_ARGUMENT for no bytes; after an error the program before stays.
xpwc_status xpwc_reader_set_program(xpwc_reader* reader, const void* data, size_t size);

// Forgets all names and the program, before the next of several runtimes: its tensors may lie where those of another did.
void xpwc_reader_forget(xpwc_reader* reader);

// Returns the provider for xnn_create_runtime_v4, which lives as long as the reader. Runtimes that are created one after
// the other may have the same.
xnn_weights_cache_t xpwc_reader_provider(xpwc_reader* reader);

// Says that all runtimes are created: they can be set up, and the tensors that only packing reads may go.
void xpwc_reader_finalize(xpwc_reader* reader);

// Why a look-up found nothing.
typedef enum xpwc_reader_miss {
  XPWC_READER_MISS_UNNAMED, // the kernel or its bias has no name
  XPWC_READER_MISS_LITTLE,  // the tensors have at most 64 KiB together: they are packed and compared
  XPWC_READER_MISS_PACKING, // no packing of the kernel, or an opaque one: it is packed and compared
  XPWC_READER_MISS_NO_PROGRAM, // a tensor named as sealed without xpwc_reader_set_program: it is packed and compared
  XPWC_READER_MISS_MODEL,   // a tensor named as sealed that the file has neither for the program nor for the model
  XPWC_READER_MISS_LAYOUT,  // the file has nothing for machines on which XNNPACK packs as here
  XPWC_READER_MISS_CONTENT, // the file has the tensor with another content or size
  XPWC_READER_MISS_ABSENT,  // the file does not have the tensor, packed so
  XPWC_READER_MISS_OFF,     // after xpwc_reader_finalize, or after damage was found
  XPWC_READER_MISSES
} xpwc_reader_miss;

// What a reader did.
typedef struct xpwc_reader_stats {
  xpwc_count hits;   // look-ups that the file answered
  uint64_t misses;   // and that it did not
  xpwc_count packed; // into memory of this process
  // Packed, and found equal to what the file has, which is used: of operators that do not look up, of tensors that have
  // at most 64 KiB together, and where XNNPACK does not say the size (NCHW convolution; half precision before November 2025).
  xpwc_count shared;
  uint64_t entries;  // that the file has
  int damaged;       // 1 if xpwc_reader_verify found damage: then the file answers no more
  int asked;         // 1 if XNNPACK was asked for its whole layout, which takes a millisecond or two
  uint64_t misses_by[XPWC_READER_MISSES]; // misses by their reasons
} xpwc_reader_stats;

void xpwc_reader_get_stats(const xpwc_reader* reader, xpwc_reader_stats* stats);

// Returns a sentence about the most frequent reason of misses, and what to do; "" if there were none. Static storage.
const char* xpwc_reader_reason(const xpwc_reader* reader);

// Compares the checksums of all that was served. It reads all of it.
// Statuses: OK, DAMAGED.
xpwc_status xpwc_reader_verify(xpwc_reader* reader);

// Computes the digest of bytes, XXH3 of 128 bits, as 32 hexadecimal digits and a NUL: of a model's file it is what
// xpwc_reader_open takes. Of a model in several files it is the digest of theirs one after the other, 16 bytes each.
void xpwc_reader_digest(const void* data, size_t size, char text[33]);

#ifdef __cplusplus
}
#endif

#endif
