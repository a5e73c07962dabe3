// xpwc: a cache for XNNPACK's packed weights. C API, C99.
//
// XNNPACK packs every weight matrix when a runtime is created. With a session's provider given to
// xnn_create_runtime_v4 it packs into a memory-mapped file instead, and the next process that opens the file packs
// nothing.
//
//   xpwc_cache cache;
//   xpwc_open("model.xpwc", NULL, &cache);
//
//   xpwc_session session;                                    // one for each runtime
//   xpwc_session_begin(cache, &data_map, &session);
//   options.packing = &packing;                              // operator, shape, types: what decides how it is packed
//   xpwc_session_load(session, "layers.0.weight", &options, &weights, &size); // weights go to xnn_define_tensor_value
//   xpwc_session_provider(session, &provider);
//   xnn_create_runtime_v4(subgraph, provider, workspace, threadpool, flags, &runtime);
//   xpwc_session_finalize(session);                          // frees the sources; the disk is written afterwards
//   ... xnn_setup_runtime_v2, xnn_invoke_runtime, as often as needed ...
//   xnn_delete_runtime(runtime);
//   xpwc_session_end(session);
//
//   xpwc_close(cache);                                       // waits for the disk
//
// Errors. Functions return a status, and xpwc_last_error has a sentence about it. The comment of each function lists
// its statuses, without their prefix XPWC_STATUS_; INTERNAL and FORKED are possible everywhere and not listed. No function
// aborts, throws or exits. A pointer that must not be NULL but is NULL is XPWC_STATUS_INVALID_ARGUMENT. When a
// function fails, what it returns through pointers is zero. A cache that is open never makes a model fail that would run
// without it: if the file cannot be written or is damaged, the disk is full, or another process packs for too long, then
// weights are packed into private memory. xpwc_cache_stats counts that, and the log reports it. A path that cannot be
// opened (its directory is missing, another user could change the file) is an error of xpwc_open, for the host to
// correct; with XPWC_OPEN_OR_MEMORY it is none either.
//
// Handles. A handle is a number, not an address. A number that was closed, or was never given out, is
// XPWC_STATUS_INVALID_HANDLE in every call, also in the one that closes. No number is given out twice, and 0 never.
//
// Ownership and lifetime. A cache lives until xpwc_close, which fails while the cache has sessions. A session lives
// until xpwc_session_end. What the library returns belongs to the library: to the session, unless the function's
// comment names another owner. What the host passes in a call is read or copied during the call. Exceptions are the
// functions in structs, their contexts, and the contents of tensors; the members' comments say how long these must
// last.
//
// Threads. All functions may be called from any thread, at the same time and with the same handle. XNNPACK may call a
// provider from any thread. Runtimes that execute never wait for the cache. Of runtimes that are created in parallel one
// packs an entry, and the others wait for it: hold no lock meanwhile that the host's functions need.
//
// Callbacks. The host's functions are called on the thread that called the library, or on the one that creates the
// runtime, unless their comments say otherwise. They must return: no exceptions, no longjmp. They must not open a
// cache, and must not call this library with the same cache or its sessions, nor wait for a thread that does. Such
// calls on the callback's own thread are XPWC_STATUS_INVALID_ARGUMENT.
//
// Structs begin with their size, so that they can grow. In a host's shorter struct the missing members count as zero.
// In a longer one the members that the library does not know must be zero, otherwise it is
// XPWC_STATUS_INVALID_ARGUMENT. So are sizes of 0 and above 4,096.
//
// Strings end with a NUL. They are UTF-8, or any other bytes.
//
// Linking. The library contains no XNNPACK. It was compiled against the host's header and calls the host's XNNPACK. The
// structs of XNNPACK's weights cache have grown twice, so a host that is compiled against another header does not link:
// the linker lacks xpwc_open_xnnpack_key24_provider56 or its like. A library that is loaded with dlopen, or meets another
// XNNPACK than the host's header is of, reports XPWC_STATUS_OTHER_XNNPACK.
// The first xpwc_open with a path initialises XNNPACK on a thread of the library. A host that gives xnn_initialize an
// allocator calls it before.
//
// Processes and signals. The library is written in Go. Go's runtime starts with the first call that needs it: until then
// the library has no thread, no memory and no handler, and a static initialiser of the host may make that call. If the
// runtime cannot start (ulimit -u, -v, -d), the call is XPWC_STATUS_OUT_OF_MEMORY or XPWC_STATUS_SYSTEM_ERROR and can be
// tried again; a thread or memory that the runtime itself cannot have later ends the process. It reads nothing of the
// host's environment. The library works only when it is called; commits and XPWC_VERIFY_BACKGROUND go on after the
// call. It handles SIGSEGV, SIGBUS, SIGFPE and SIGPIPE from the first call on, until the host installs handlers.
// Signals that are not its own go to the handlers that were installed before. A handler of SIGURG that was installed
// before may also be called for interrupts of Go's runtime. The library's own threads block all signals but those,
// SIGURG and SIGPROF. Handlers that the host installs after the first call must have SA_ONSTACK; a handler of SIGPROF
// that has it not is given it by the next call. The host must not block the signals that the library handles. A child
// of fork can use the library if its parent had not. Otherwise runtimes that exist there may execute, and every call is
// XPWC_STATUS_FORKED and does nothing, also those that close and end; XNNPACK cannot create a runtime with the parent's
// provider. Save before the fork: a child keeps the writer's lock of a parent that ends amid packing. Not supported
// are: unloading the library (dlclose); a second library written in Go in the same process, unless both are linked
// statically as one archive.
#ifndef XPWC_H
#define XPWC_H

#include <stddef.h>
#include <stdint.h>

#if defined(__has_include)
#if !__has_include(<xnnpack.h>)
#error "XNNPACK is not found. xpwc calls the XNNPACK of the program: add its directory to the include path (-I/its/include), or link its target, such as XNNPACK of CMake, to what includes this file."
#include "./xnnpack.h"  // ends the compilation, where #include <xnnpack.h> would not: it has failed before
#endif
#endif
#include <xnnpack.h>

#ifdef __cplusplus
extern "C" {
#endif

// Version of this header and of the library it came with, as text and as a number that can be compared: major * 10000
// + minor * 100 + patch. Before 1.0 a minor version may change this interface, and so the library's SONAME has it.
#define XPWC_VERSION "0.6.0"
#define XPWC_VERSION_NUMBER 600

// The result of a call. Statuses are never renumbered; later versions may add some.
typedef enum xpwc_status {
  XPWC_STATUS_OK = 0,
  // A pointer is NULL, a struct_size makes no sense, a value is not one of those that the function knows, or the call
  // was made by a callback of the cache.
  XPWC_STATUS_INVALID_ARGUMENT = 1,
  // The cache or session was closed before, or was never given out.
  XPWC_STATUS_INVALID_HANDLE = 2,
  // The data map has no tensor of that name.
  XPWC_STATUS_UNKNOWN_TENSOR = 3,
  // The session was begun without a data map.
  XPWC_STATUS_NO_DATA_MAP = 4,
  // XNNPACK packed a computed tensor before its content was there: load it with XPWC_LOAD_EAGER. The runtime must not
  // be used.
  XPWC_STATUS_NOT_EAGER = 5,
  // The call must come before xpwc_session_finalize.
  XPWC_STATUS_FINALIZED = 6,
  // The cache still has sessions, whose runtimes use its memory. It stays open.
  XPWC_STATUS_IN_USE = 7,
  // The file was written neither by xpwc nor by ExecuTorch. It is never touched.
  XPWC_STATUS_NOT_CACHE = 8,
  // Another user could change the file, or it is not a regular file. Correct its owner and mode, or set
  // XPWC_OPEN_ALLOW_UNSAFE_FILE.
  XPWC_STATUS_UNSAFE_FILE = 9,
  // The file is a cache, but damaged. Without XPWC_OPEN_STRICT it is set aside instead, and everything is packed
  // afresh.
  XPWC_STATUS_DAMAGED = 10,
  // With XPWC_OPEN_STRICT: ExecuTorch wrote the file, so nothing says which CPU it was packed for.
  XPWC_STATUS_FOREIGN = 11,
  // With XPWC_OPEN_STRICT: the file has the format of another version of xpwc. Without it a newer file is left alone,
  // and an older one is replaced when something is packed.
  XPWC_STATUS_VERSION_MISMATCH = 12,
  // The path is open in this process with other options.
  XPWC_STATUS_OTHER_OPTIONS = 13,
  // Another process is writing to the file; try again later.
  XPWC_STATUS_BUSY = 14,
  // The file was removed or replaced while it was written.
  XPWC_STATUS_REPLACED = 15,
  // The file cannot be written to, or XPWC_OPEN_READ_ONLY was set.
  XPWC_STATUS_READ_ONLY = 16,
  // There is no memory.
  XPWC_STATUS_OUT_OF_MEMORY = 17,
  // The system reported an error; xpwc_last_error has its text.
  XPWC_STATUS_SYSTEM_ERROR = 18,
  // A callback of the host failed with a status that is not in this list.
  XPWC_STATUS_CALLBACK_FAILED = 19,
  // xnn_initialize failed, or a defect of this library was contained.
  XPWC_STATUS_INTERNAL = 20,
  // A source of tensors, for example their file, was changed in place while they were packed. Nothing of it is kept,
  // and the runtime must not be used: load the model again.
  XPWC_STATUS_SOURCE_CHANGED = 21,
  // The disk lost packed weights before they were committed, or the cache file was overwritten or cut off in place, and
  // a runtime uses them. The runtime must not be used: delete it and create it again.
  XPWC_STATUS_LOST = 22,
  // This process is a child of fork, and its parent had called the library before. Call it after exec.
  XPWC_STATUS_FORKED = 23,
  // The program is linked with an XNNPACK whose weights cache has other structs than the one that the library was built
  // for. xpwc_last_error names both. Build the library with the header of the program's XNNPACK.
  XPWC_STATUS_OTHER_XNNPACK = 24
} xpwc_status;

// Returns the status' name, for example "XPWC_STATUS_IN_USE"; never NULL. Static storage.
const char* xpwc_status_string(xpwc_status status);

// Returns a sentence about the last call on this thread that failed, or would have without XPWC_OPEN_OR_MEMORY, with the
// path or name concerned and what to do.
// Never NULL; empty before the first failure. The thread owns it: it is valid until the thread's next call of this
// library.
const char* xpwc_last_error(void);

// Return the XPWC_VERSION and the XPWC_VERSION_NUMBER that the library was built with. Static storage.
const char* xpwc_version(void);
uint32_t xpwc_version_number(void);

// Returns which XNNPACK the library was built for, for example "XNNPACK of March 2026 or later (look-up key of 32 bytes,
// provider of 64)". Static storage.
const char* xpwc_xnnpack(void);

// A handle of a cache, which has the packed weights of one path. Valid once xpwc_open has returned XPWC_STATUS_OK.
typedef struct xpwc_cache {
  uint64_t id;
} xpwc_cache;

// A session: it spans one xnn_runtime_t. Valid once xpwc_session_begin has returned XPWC_STATUS_OK.
typedef struct xpwc_session {
  uint64_t id;
} xpwc_session;

// Levels of the log.
enum {
  XPWC_LOG_DEBUG = 0,
  // What was done, for example a commit.
  XPWC_LOG_INFO = 1,
  // The library went on without the cache, or repaired it: weights are in private memory, a damaged file was set aside.
  XPWC_LOG_WARNING = 2,
  // A call failed, and xpwc_last_error has the same text; or the disk lost packed weights that a runtime uses.
  XPWC_LOG_ERROR = 3
};

// The progress of a session whose runtime is being created: xpwc_options.progress.
typedef struct xpwc_progress {
  // sizeof(struct xpwc_progress) in the library; the members after it are not there.
  size_t struct_size;
  // The entry's name: the weights' name directly followed by the bias' name; empty for unnamed weights. Valid during
  // the call.
  const char* name;
  // Bytes packed for this entry.
  uint64_t bytes;
  // Bytes of unpacked tensors of the session: those that were packed or found in the cache so far, and all that were
  // loaded.
  uint64_t done;
  uint64_t total;
} xpwc_progress;

// How the content of the file is checked. Opening always checks all of the file's structure.
enum {
  // The checksums of the packed weights that a session uses are checked once, some time after xpwc_session_finalize, on
  // a thread that rests nine tenths of its time. A runtime may have used damaged ones by then. xpwc_cache_stats
  // counts them and the log reports them when they are found. The next session packs them afresh, and the file loses
  // them.
  XPWC_VERIFY_BACKGROUND = 0,
  // Checksums are checked when packed weights are found for the first time. Damaged ones are packed afresh.
  XPWC_VERIFY_ON_USE = 1,
  // Packed weights are not read.
  XPWC_VERIFY_STRUCTURE = 2
};

// Flags of xpwc_options.
enum {
  // Use what is in the file, never write to it.
  XPWC_OPEN_READ_ONLY = 1 << 0,
  // A damaged file, or one written by ExecuTorch, is an error and is not replaced.
  XPWC_OPEN_STRICT = 1 << 1,
  // Open the file even if it belongs to another user, or others may write to it, or to the directory of a symbolic link
  // that leads to it.
  XPWC_OPEN_ALLOW_UNSAFE_FILE = 1 << 2,
  // Read the whole file into memory when it is opened.
  XPWC_OPEN_PREFETCH = 1 << 3,
  // A file that cannot be used is no error: the cache is in memory instead, until its last handle is closed. The log
  // reports why, xpwc_last_error has it after the call, and xpwc_stats.unusable has the status that it would have been.
  XPWC_OPEN_OR_MEMORY = 1 << 4
};

// Options of xpwc_open and xpwc_open_fd. Zero-initialise it and set struct_size to sizeof(struct xpwc_options);
// zeroes mean the defaults.
typedef struct xpwc_options {
  size_t struct_size;
  // XPWC_OPEN_READ_ONLY and its like. An unknown flag is XPWC_STATUS_INVALID_ARGUMENT.
  uint32_t flags;
  // XPWC_VERIFY_BACKGROUND and its like.
  uint32_t verify;
  // Milliseconds that a session which must pack waits for another process that packs into the file, before it packs
  // into private memory; and for another session of this process that packs the same entry, before it packs it, too.
  // 0 means 10,000; with a negative value it does not wait.
  int64_t writer_wait_ms;
  // The file is kept to this many bytes: entries that were used longest ago are dropped. 0 means no limit.
  uint64_t max_bytes;
  // XPWC_LOG_DEBUG and its like. Messages of lower levels are not logged.
  uint32_t log_level;
  // Called with each message, one line that is valid during the call; or NULL. A call that fails is logged before it
  // returns, on its own thread. Everything else is logged when it happens, also in the background and between calls: on
  // a thread of the library that holds no lock, one message after the other. Among it are commits and commits that
  // failed, packed weights found damaged or lost by the disk, and each xpwc_reason of a load once. So log must be
  // thread-safe, as the threads may call it at the same time. What is said of callbacks above holds for it. It should
  // be quick: the next message waits for it, and so does xpwc_close.
  void (*log)(void* context, uint32_t level, const char* message);
  // Called after each packed entry of a session that was begun with this handle, on the thread that creates the
  // runtime; or NULL.
  void (*progress)(void* context, const struct xpwc_progress* progress);
  // Passed to log and progress. All three must last until xpwc_close of this handle has returned; afterwards they are
  // not used any more.
  void* context;
} xpwc_options;

// Opens the cache file at path, which need not exist: it is created, for its owner only, when the first weights are
// packed. Its directory must exist. An empty path is a cache in memory. Opening a path again in this process gives
// another handle of the same cache, with the same options or XPWC_STATUS_OTHER_OPTIONS; log_level, log, progress and
// context are each handle's own. options may be NULL. *cache must be closed. The first call also takes two or three
// file descriptors for Go's runtime, which keeps them. If there are not so many left it is XPWC_STATUS_SYSTEM_ERROR,
// and can be tried again.
// Statuses: OK, INVALID_ARGUMENT, NOT_CACHE, UNSAFE_FILE, OTHER_OPTIONS, OUT_OF_MEMORY, SYSTEM_ERROR, OTHER_XNNPACK; with
// XPWC_OPEN_STRICT also DAMAGED, FOREIGN, VERSION_MISMATCH. With XPWC_OPEN_OR_MEMORY: OK, INVALID_ARGUMENT,
// OTHER_OPTIONS, OUT_OF_MEMORY, OTHER_XNNPACK, and SYSTEM_ERROR for too few descriptors.
xpwc_status xpwc_open(const char* path, const struct xpwc_options* options, xpwc_cache* cache);

// Opens the cache in an open file, for a host in a sandbox that has a descriptor and can open no path. The descriptor
// stays the host's: the cache duplicates it, and the host may close its own at once. An empty file is a cache without
// entries. The cache writes to the file if the descriptor was opened for reading and writing and the system can open
// the file once more, as Linux can where /proc is mounted and may be opened: the writer's lock belongs to one opening
// of a file, which a descriptor that was handed over shares. Otherwise it is as with XPWC_OPEN_READ_ONLY. Nothing can
// be renamed to the file's place, whatever its name leads to: a damaged file, one written by ExecuTorch and one of an
// older format stay as they are, and what they lack is packed into private memory; xpwc_cache_compact is an error, so
// that dead bytes stay and max_bytes has no effect. When a flush of the file has failed, what was not committed is lost
// (XPWC_STATUS_LOST), but the file stays where it is. It is written to again after a minute, when the sessions that use
// what was packed into it are closed. Each call gives a cache of its own: two of one file are to each other as those of
// two processes. *cache must be closed.
// Statuses: OK, INVALID_ARGUMENT, NOT_CACHE, UNSAFE_FILE, OUT_OF_MEMORY, SYSTEM_ERROR, OTHER_XNNPACK; with XPWC_OPEN_STRICT
// also DAMAGED, FOREIGN, VERSION_MISMATCH.
xpwc_status xpwc_open_fd(int file_descriptor, const struct xpwc_options* options, xpwc_cache* cache);

// Calls of xpwc_open and xpwc_open_fd go to a name with the sizes of the host's structs, as on 64-bit systems. The library
// has those of its own sizes alone. Define XPWC_DLOPEN where such names cannot be linked: in a host that loads the library
// with dlopen, and finds xpwc_open itself there.
#if defined(__GNUC__) && !defined(XPWC_DLOPEN)
#define XPWC_OPEN_FUNCTIONS(sizes)                                                                                  \
  xpwc_status xpwc_open_xnnpack_##sizes(const char* path, const struct xpwc_options* options, xpwc_cache* cache);   \
  xpwc_status xpwc_open_fd_xnnpack_##sizes(int file_descriptor, const struct xpwc_options* options, xpwc_cache* cache);
XPWC_OPEN_FUNCTIONS(key24_provider56)
XPWC_OPEN_FUNCTIONS(key32_provider56)
XPWC_OPEN_FUNCTIONS(key32_provider64)
XPWC_OPEN_FUNCTIONS(unknown)
#undef XPWC_OPEN_FUNCTIONS

#define XPWC_OPEN_BY_SIZES(function, arguments)                                                                        \
  {                                                                                                                    \
    enum {                                                                                                             \
      xpwc_key_words = sizeof(struct xnn_weights_cache_look_up_key) / sizeof(void*),                                   \
      xpwc_provider_words = sizeof(struct xnn_weights_cache_provider) / sizeof(void*)                                  \
    };                                                                                                                 \
    return xpwc_key_words == 3 && xpwc_provider_words == 7   ? function##_xnnpack_key24_provider56 arguments           \
           : xpwc_key_words == 4 && xpwc_provider_words == 7 ? function##_xnnpack_key32_provider56 arguments           \
           : xpwc_key_words == 4 && xpwc_provider_words == 8 ? function##_xnnpack_key32_provider64 arguments           \
                                                             : function##_xnnpack_unknown arguments;                   \
  }
extern __inline __attribute__((__gnu_inline__, __always_inline__)) xpwc_status
xpwc_open(const char* path, const struct xpwc_options* options, xpwc_cache* cache)
    XPWC_OPEN_BY_SIZES(xpwc_open, (path, options, cache))
extern __inline __attribute__((__gnu_inline__, __always_inline__)) xpwc_status
xpwc_open_fd(int file_descriptor, const struct xpwc_options* options, xpwc_cache* cache)
    XPWC_OPEN_BY_SIZES(xpwc_open_fd, (file_descriptor, options, cache))
#undef XPWC_OPEN_BY_SIZES
#endif

// Waits until everything that finalized sessions packed is on stable storage, and closes the handle.
// XPWC_STATUS_IN_USE, and the handle stays valid, while sessions that were begun with it are open. With any other
// error the handle is closed.
// Statuses: OK, INVALID_ARGUMENT, INVALID_HANDLE, IN_USE, and those of xpwc_cache_save.
xpwc_status xpwc_close(xpwc_cache cache);

// Waits until everything that finalized sessions packed is on stable storage. An error says why it is not, once. If a
// flush failed, what was packed is lost, as xpwc_session_check reports: nothing is tried again, and the file is set
// aside. If there was no room for the file's index, what was packed stays usable, and the next call has it committed.
// Statuses: OK, INVALID_ARGUMENT, INVALID_HANDLE, NOT_CACHE, UNSAFE_FILE, DAMAGED, BUSY, REPLACED, READ_ONLY,
// OUT_OF_MEMORY, SYSTEM_ERROR; with XPWC_OPEN_STRICT also FOREIGN, VERSION_MISMATCH.
xpwc_status xpwc_cache_save(xpwc_cache cache);

// Writes the file anew without dead bytes and puts it in the old one's place. Runtimes go on using the old one's
// memory. Waits until no session of this process packs, so it must not be called on the thread that creates a
// runtime, before xpwc_session_finalize. XPWC_STATUS_BUSY if another process packs into the file for longer than
// writer_wait_ms.
// Statuses: as xpwc_cache_save.
xpwc_status xpwc_cache_compact(xpwc_cache cache);

// Has a cache in memory forget the packed weights that no session uses, and gives their memory back. A cache with a file
// has no such memory.
// Statuses: OK, INVALID_ARGUMENT, INVALID_HANDLE, OUT_OF_MEMORY, SYSTEM_ERROR.
xpwc_status xpwc_cache_trim(xpwc_cache cache);

// Lists the sorted names of the packed weights that this machine can use, from the file and from sessions: each the
// weights' name directly followed by the bias' name. *names has *count strings, and belongs to the host: free it with
// xpwc_names_free.
// Statuses: OK, INVALID_ARGUMENT, INVALID_HANDLE, OUT_OF_MEMORY.
xpwc_status xpwc_cache_names(xpwc_cache cache, const char* const** names, size_t* count);

// Frees what xpwc_cache_names or xpwc_session_names returned. NULL is harmless.
void xpwc_names_free(const char* const* names);

// Why a load took longer than mapping. Reasons are never renumbered; later versions may add some. docs/operations.md has
// what to do about each.
typedef enum xpwc_reason {
  // Weights that no look-up found, and XNNPACK packed.

  // The cache has no file, or cannot use it.
  XPWC_REASON_IN_MEMORY = 0,
  // There was no file, or nothing in it.
  XPWC_REASON_NO_FILE = 1,
  // The file was of ExecuTorch, or of an older version of the format.
  XPWC_REASON_FOREIGN = 2,
  // The file, or this payload, was damaged.
  XPWC_REASON_DAMAGED = 3,
  // The file has no weights of these names.
  XPWC_REASON_NAME = 4,
  // The file has the weights in another layout: for another CPU, or of another XNNPACK.
  XPWC_REASON_LAYOUT = 5,
  // The file has the weights for such a CPU in another layout, of another build of XNNPACK.
  XPWC_REASON_XNNPACK = 6,
  // The file has the weights under another fingerprint_id of XNNPACK's key.
  XPWC_REASON_FINGERPRINT = 7,
  // The file has the weights under another packing.
  XPWC_REASON_PACKING = 8,
  // The file has weights of these names with other content.
  XPWC_REASON_CONTENT = 9,
  // The file's payload does not have the size that the operator reads.
  XPWC_REASON_SIZE = 10,
  // The file has no entry under the key. Its index is too large, or too damaged, to find out more.
  XPWC_REASON_KEY = 11,

  // Weights that XNNPACK packed to be compared.

  // XPWC_LOAD_COMPARE is set for the kernel.
  XPWC_REASON_COMPARE = 12,
  // The host gave no packing.
  XPWC_REASON_NO_PACKING = 13,
  // The file has several payloads under the key.
  XPWC_REASON_VARIANT = 14,
  // The file has the weights under another seed.
  XPWC_REASON_SEED = 15,
  // The model uses the key a second time.
  XPWC_REASON_REPEATED = 16,
  // The host gave several packings for the kernel.
  XPWC_REASON_AMBIGUOUS = 17,
  // XNNPACK does not tell how many bytes it packs.
  XPWC_REASON_UNSIZED = 18,
  // XNNPACK packed the weight without a look-up.
  XPWC_REASON_UNASKED = 19,

  // Tensors that were read in full, for their digests.

  // The file has another stamp of the same tensor: the model has another path, inode or time.
  XPWC_REASON_STAMP = 20,
  // The tensor has no stamp.
  XPWC_REASON_UNSTAMPED = 21,
  // The model was not at rest: a program can write to it, or has just done so.
  XPWC_REASON_WRITTEN = 22,
  // The model was changed not long ago, and the system does not tell this user who can write to it.
  XPWC_REASON_OWNER = 23,
  // The model's file system does not make times that show each change.
  XPWC_REASON_FILE_SYSTEM = 24,

  // Packed weights in private memory.

  // XNNPACK packed from a pointer that xpwc_session_load never gave out.
  XPWC_REASON_UNNAMED = 25,
  // The file or its directory cannot be written to, or XPWC_OPEN_READ_ONLY is set.
  XPWC_REASON_READ_ONLY = 26,
  // Another process was packing into the file for longer than writer_wait_ms.
  XPWC_REASON_BUSY = 27,
  // The file is of a newer version of the format. It is left to programs that know it.
  XPWC_REASON_VERSION = 28,
  // Reserving or mapping file space failed; the log has the error.
  XPWC_REASON_DISK = 29,

  // Waits; without bytes.

  // Another process was packing into the file.
  XPWC_REASON_PROCESS = 30,
  // Another session was packing the weight.
  XPWC_REASON_SESSION = 31,

  // What was packed and makes the file grow.

  // The file has the same content for such a machine three times or more.
  XPWC_REASON_GROWTH = 32
} xpwc_reason;

// A number that no xpwc_reason reaches.
#define XPWC_REASONS 64

// Returns the reason's name, for example "no-file": the label of a metric. Never NULL. Static storage.
const char* xpwc_reason_name(xpwc_reason reason);

// A number of entries and their bytes.
typedef struct xpwc_count {
  uint64_t entries;
  uint64_t bytes;
} xpwc_count;

// What a cache did since it was opened in this process, and its file.
typedef struct xpwc_stats {
  // The host sets it to sizeof(struct xpwc_stats). The members that it covers are filled in. Members that the library
  // does not know are left as they are.
  size_t struct_size;
  // Look-ups that the cache answered, with the bytes they returned; and the others.
  xpwc_count hits;
  uint64_t misses;
  // Entries that were packed and put into the cache.
  xpwc_count packed;
  // Packings that were equal to an entry of the cache: some operators are packed without a look-up.
  xpwc_count reused;
  // Packed weights that were verified and are right, and the number of those that are wrong.
  xpwc_count verified;
  uint64_t damaged_payloads;
  // Packings in private memory: because the weights have no name, the file cannot be written, another process packed
  // into it for too long, or file space could not be had.
  xpwc_count private_unnamed;
  xpwc_count private_read_only;
  xpwc_count private_busy;
  xpwc_count private_disk;
  // What open sessions use now, of the file and of private memory.
  uint64_t mapped_bytes;
  uint64_t private_bytes;
  // Number of the commit in force, 0 if there is none, and the file of that commit.
  uint64_t generation;
  uint64_t entries;
  uint64_t file_bytes;
  uint64_t payload_bytes;
  uint64_t dead_bytes;
  // Bytes that this process wrote to the file.
  uint64_t written_bytes;
  uint64_t compactions;
  // 1 if a damaged file was set aside.
  uint64_t damaged;
  // Packings in private memory because the file has a newer version of the format, and is left to programs that know
  // it.
  xpwc_count private_version;
  // Payloads that may have been lost while a session used them, by the disk or since the file was overwritten: see
  // xpwc_session_check.
  uint64_t lost_payloads;
  // Sources that xpwc_data_map.changed reported as changed while a session packed from them, once for each source and
  // session.
  uint64_t sources_changed;
  // Those of the payloads used by open sessions that XPWC_VERIFY_BACKGROUND has yet to check.
  xpwc_count unverified;
  // Waits of look-ups for another session of this process that was packing the same entry; and those that ended after
  // xpwc_options.writer_wait_ms: the session packed the entry itself.
  uint64_t waits;
  uint64_t wait_timeouts;
  // With XPWC_OPEN_OR_MEMORY: the xpwc_status that says why the cache is in memory and not in its file. Otherwise
  // XPWC_STATUS_OK.
  uint64_t unusable;
  // What made loads longer than mapping, each at the place of its xpwc_reason: weights with the bytes that were packed,
  // tensors with the bytes that were read, waits. A session is counted by xpwc_session_finalize.
  xpwc_count reasons[XPWC_REASONS];
} xpwc_stats;

// Fills in *stats, whose struct_size must be set.
// Statuses: OK, INVALID_ARGUMENT, INVALID_HANDLE.
xpwc_status xpwc_cache_stats(xpwc_cache cache, struct xpwc_stats* stats);

// An unpacked tensor, as the host's data map returns it.
typedef struct xpwc_tensor {
  // sizeof(struct xpwc_tensor). Set by the library before it calls xpwc_data_map.get, and by the host in a table.
  size_t struct_size;
  // In a table, the tensor's name. Otherwise it is ignored.
  const char* name;
  // The content. It must stay readable and unchanged until release is called, or without release until
  // xpwc_session_end. NULL if fill is set or there are no bytes.
  const void* data;
  // Bytes of the content.
  size_t size;
  // For content that must be computed (widened, decompressed): writes all size bytes of dst, memory that the session
  // owns. Called at most once, and not at all if everything packed from the tensor is found in the cache. A status
  // other than XPWC_STATUS_OK is returned by the xpwc_session_load or xpwc_session_finalize that called it. May be
  // NULL.
  xpwc_status (*fill)(void* context, void* dst, size_t size);
  // Called when the content was read, for packing or for its digest, and will hardly be read again: a host that maps a
  // file gives its pages back here, so that the pages of only one tensor at a time are in memory. The content must stay
  // readable. Called from any thread; again if the content is read again; not for tensors with fill or loaded with
  // XPWC_LOAD_RETAIN; never after release. May be NULL.
  void (*evict)(void* context, const void* data, size_t size);
  // Called once, when the session needs data and context no more: by xpwc_session_finalize if packing consumed the
  // tensor, by xpwc_session_end otherwise. It is called for every tensor that get returned with XPWC_STATUS_OK, at once
  // if the tensor made no sense, and for every tensor of a table that was loaded. May be NULL.
  void (*release)(void* context, const void* data, size_t size);
  // Passed to fill, evict and release.
  void* context;
  // Identity of the content: packed weights are used only for the content they were packed from.
  // The place where the tensor comes from, for example the model's absolute path. NULL for none. The file has its digest
  // and, for people, its last part: xpwc inspect shows it.
  const char* source;
  // A text that changes whenever the content does and costs nothing: a content hash that the model's file has, or
  // xpwc_file_stamp, unless that is empty, with the tensor's position in the file. NULL or empty if there is none or it
  // is not certain; then digests are compared. It holds for its source alone. If it is XPWC_FILE_STAMP, xpwc_file_stamp
  // and the position, it holds under every path of the file, also where a directory was renamed, and through a link.
  const char* stamp;
  // xpwc_digest of the content, or of what determines it (the compressed bytes), in case there is no stamp or it
  // changed. If NULL it is computed from the content, which then must be read.
  const uint8_t* digest;
} xpwc_tensor;

// The host's unpacked tensors by name. Zero-initialise it and set struct_size to sizeof(struct xpwc_data_map). A
// session asks for a name at most once.
typedef struct xpwc_data_map {
  size_t struct_size;
  // Fills in *tensor, which is zero except for struct_size. XPWC_STATUS_UNKNOWN_TENSOR if there is none of that name;
  // any other status except XPWC_STATUS_OK is returned by xpwc_session_load. It must last until xpwc_session_finalize,
  // or xpwc_session_end without it. If it is NULL, the table is used.
  xpwc_status (*get)(void* context, const char* name, struct xpwc_tensor* tensor);
  // Passed to get and changed.
  void* context;
  // A table of tensors instead of get. Their distance is tensors[0].struct_size, which all have; all names differ. The
  // table is copied with its strings and digests; what data points to is not.
  const struct xpwc_tensor* tensors;
  size_t tensor_count;
  // Sets *changed to 1 if the content of tensors with that source (xpwc_tensor.source, "" for NULL) may have changed in
  // place since the host read or mapped it, otherwise to 0: see xpwc_file_changed. After it has said 0, every later
  // change must show. Any status except XPWC_STATUS_OK counts as a change. Called for each source when its first tensor
  // is loaded; and again by xpwc_session_finalize (or xpwc_session_end without it), if something was packed, also by
  // another session that was not finalized, or a tensor has no stamp. May be NULL: then, if somebody overwrites a file
  // while weights are packed from it, these can be kept as those of another content. Sessions that are begun in
  // parallel share what they pack from tensors without stamps only if they have the same changed and context.
  xpwc_status (*changed)(void* context, const char* source, int* changed);
} xpwc_data_map;

// Begins a session. data may be NULL if nothing is loaded: then all weights are unnamed and packed into private
// memory. The session sees what other processes have committed to the file by now. *session must be ended.
// Statuses: OK, INVALID_ARGUMENT, INVALID_HANDLE, OUT_OF_MEMORY; with XPWC_OPEN_STRICT also NOT_CACHE, UNSAFE_FILE,
// DAMAGED, FOREIGN, VERSION_MISMATCH, REPLACED, SYSTEM_ERROR.
xpwc_status xpwc_session_begin(xpwc_cache cache, const struct xpwc_data_map* data, xpwc_session* session);

// Flags of xpwc_load_options.
enum {
  // The content is in memory when xpwc_session_load returns. Needed for computed tensors that XNNPACK reads without a
  // look-up that names them: weights of depthwise convolution, deconvolution and NCHW convolution, the bias of
  // operators with dynamically quantised input, weights that XNNPACK of 2026 converts first (f16 and bf16 where the CPU
  // has no arithmetic for them), and what is read at inference.
  XPWC_LOAD_EAGER = 1 << 0,
  // Only packing reads the content. xpwc_session_finalize releases it even if XNNPACK packed it without asking the
  // cache.
  XPWC_LOAD_PACK_ONLY = 1 << 1,
  // The content is kept until xpwc_session_end, for tensors that are also read at inference (PReLU slopes, constants of
  // elementwise operators).
  XPWC_LOAD_RETAIN = 1 << 2,
  // What XNNPACK packs of the kernel is compared in each process with what the cache has, whatever
  // xpwc_load_options.packing describes and XPWC_LOAD_BELIEVE vouches for. Equal bytes are shared, and others are kept
  // too. So answers are right and the weights are in memory once, but each start packs.
  XPWC_LOAD_COMPARE = 1 << 3,
  // The host vouches for a kernel without xpwc_load_options.packing, or with an opaque one: whoever packs it under this
  // name and these bytes into this cache packs it in the same way. Look-ups are answered then, and a warm start packs
  // nothing. If shape, groups, operator, scales or a hidden bias differ all the same, the runtime computes wrong numbers
  // and reads out of bounds.
  XPWC_LOAD_BELIEVE = 1 << 4
};

// Operators that pack weights, by the function of xnnpack.h that defines one.
enum {
  // xnn_define_fully_connected
  XPWC_OPERATOR_FULLY_CONNECTED = 1,
  // xnn_define_convolution_2d
  XPWC_OPERATOR_CONVOLUTION_2D = 2,
  // xnn_define_depthwise_convolution_2d
  XPWC_OPERATOR_DEPTHWISE_CONVOLUTION_2D = 3,
  // xnn_define_deconvolution_2d
  XPWC_OPERATOR_DECONVOLUTION_2D = 4,
  // xnn_define_batch_matrix_multiply
  XPWC_OPERATOR_BATCH_MATRIX_MULTIPLY = 5
};

// Flags of xpwc_packing.
enum {
  // The kernel is transposed (XNN_FLAG_TRANSPOSE_WEIGHTS, XNN_FLAG_TRANSPOSE_B).
  XPWC_PACKING_TRANSPOSED = 1 << 0,
  // Pixels are added around the images of a convolution, by numbers (not XNN_FLAG_TENSORFLOW_SAME_PADDING).
  XPWC_PACKING_PADDED = 1 << 1,
  // The runtime is created with XNN_FLAG_HINT_FP16_INFERENCE or XNN_FLAG_FORCE_FP16_INFERENCE.
  XPWC_PACKING_HALF_PRECISION = 1 << 2,
  // The runtime is created with XNN_FLAG_HINT_SPARSE_INFERENCE.
  XPWC_PACKING_SPARSE_INFERENCE = 1 << 3,
  // The node or the runtime has XNN_FLAG_SLOW_CONSISTENT_ARITHMETIC.
  XPWC_PACKING_CONSISTENT_ARITHMETIC = 1 << 4
};

// A tensor of a node: its type and its quantisation. The type decides which members count; the others are ignored.
// Pointers are aligned as their types are; they may be NULL where the count is 0, and no count exceeds the kernel's
// elements.
typedef struct xpwc_operand {
  // XNNPACK's number of the type (enum xnn_datatype). 0, xnn_datatype_invalid, means that there is no such tensor.
  uint32_t datatype;
  // The stored value of real zero.
  int32_t zero_point;
  // The one scale of qint8, quint8 and qint32.
  float scale;
  // The dimension that scales and block_scales run along: 0 for [output channels, ...].
  uint32_t channel_dim;
  // For types that are quantised for each channel: a scale for each index of channel_dim, and for the second factor of
  // a batch matrix multiplication as many again for each matrix of its batch.
  const float* scales;
  size_t scale_count;
  // For types that are quantised in blocks: the scales as the bits of bfloat16 numbers, those of the first channel
  // first.
  const uint16_t* block_scales;
  size_t block_scale_count;
  // How many elements of a channel share one of block_scales.
  uint32_t block_size;
  // For types that are quantised at inference: how many trailing dimensions share a scale.
  uint32_t non_batch_dims;
} xpwc_operand;

// How XNNPACK is going to pack a kernel: everything that decides the packed bytes, except the contents of the kernel
// and of a bias that XNNPACK names in its key. Zero-initialise it and set struct_size to sizeof(struct xpwc_packing).
// The struct and what it points to are read during the call that it is passed to, and not afterwards.
typedef struct xpwc_packing {
  size_t struct_size;
  // XPWC_OPERATOR_FULLY_CONNECTED and its like; 0 with opaque.
  uint32_t operator_type;
  // XPWC_PACKING_TRANSPOSED and its like. An unknown flag is XPWC_STATUS_INVALID_ARGUMENT.
  uint32_t flags;
  // The number of groups of a convolution or deconvolution, the depth multiplier of a depthwise convolution. 0 means 1.
  uint32_t groups;
  // Of the operators on images. 0 means 1.
  uint32_t stride_height;
  uint32_t stride_width;
  uint32_t dilation_height;
  uint32_t dilation_width;
  // The kernel's shape, as XNNPACK gets it: 1 to XNN_MAX_TENSOR_DIMS dimensions, outermost first. The tensor must have
  // so many elements, of the kernel's type or of another one.
  uint32_t dim_count;
  const size_t* dims;
  // The node's tensors, with the types they have in the subgraph. bias is zero if there is none.
  struct xpwc_operand input;
  struct xpwc_operand kernel;
  struct xpwc_operand bias;
  struct xpwc_operand output;
  // The content of a bias that XNNPACK packs without naming it. It must be set if there is a bias and input is
  // quantised at inference (qdint8 and its like). Otherwise it may be NULL.
  const void* hidden_bias;
  size_t hidden_bias_size;
  // For a host that does not know a node's parameters: bytes in any form that differ if what the host knows differs.
  // All other members must be zero then. Several that are set for one tensor are parts of one. NULL otherwise. The
  // library cannot see whether they describe all that decides the packing, so that what is packed is compared, unless
  // XPWC_LOAD_BELIEVE is set.
  const void* opaque;
  size_t opaque_size;
} xpwc_packing;

// How a tensor is loaded. Zero-initialise it and set struct_size to sizeof(struct xpwc_load_options).
typedef struct xpwc_load_options {
  size_t struct_size;
  // XPWC_LOAD_EAGER and its like. An unknown flag is XPWC_STATUS_INVALID_ARGUMENT.
  uint32_t flags;
  // How XNNPACK is going to pack the tensor. Set it for every kernel, also of floats, and for each use of the kernel:
  // load it once more for another use. XNNPACK's key has almost nothing of it. Without it, no look-up of the kernel is
  // answered: each start packs it, and compares what it packed with what the cache has, as with XPWC_LOAD_COMPARE. It is
  // NULL for what is not a kernel. If it makes no sense it is XPWC_STATUS_INVALID_ARGUMENT, and xpwc_last_error names
  // the member.
  const struct xpwc_packing* packing;
} xpwc_load_options;

// Returns the tensor of that name: the address to give to XNNPACK, and its size in bytes. The content of a computed
// tensor is there when XNNPACK is about to pack it. The session owns it: until xpwc_session_finalize if packing
// consumed it, otherwise until xpwc_session_end. Loading a name again returns the same address and adds to its
// options. options may be NULL; so may size.
// Statuses: OK, INVALID_ARGUMENT, INVALID_HANDLE, UNKNOWN_TENSOR, NO_DATA_MAP, FINALIZED, OUT_OF_MEMORY, SYSTEM_ERROR,
// CALLBACK_FAILED, and those that the data map's get and fill return.
xpwc_status xpwc_session_load(
    xpwc_session session, const char* name, const struct xpwc_load_options* options, const void** data, size_t* size);

// Says that the host has copied or converted a loaded tensor, and gives XNNPACK the copy's address instead. What is
// packed from alias goes by a name that begins with original's. alias, of size bytes, must stay readable and
// unchanged until xpwc_session_finalize. conversion is a word for what was done, for example "f32 to f16". It alone
// distinguishes this copy from others of the tensor, so hosts that share a cache must use one word for one conversion
// alone. If it is NULL or empty, all bytes of alias are digested instead, each time. XNNPACK of March 2026 and later
// reports its own copies itself. XPWC_STATUS_UNKNOWN_TENSOR if original is no address that xpwc_session_load
// returned, XPWC_STATUS_NOT_EAGER if its content is yet to be computed.
// Statuses: OK, INVALID_ARGUMENT, INVALID_HANDLE, UNKNOWN_TENSOR, NOT_EAGER, FINALIZED.
xpwc_status xpwc_session_alias(
    xpwc_session session, const void* alias, size_t size, const void* original, const char* conversion);

// Returns what to give to xnn_create_runtime_v4 (as xnn_weights_cache_t). It serves one runtime. The session owns it:
// it is valid until xpwc_session_end, which must come after xnn_delete_runtime.
// Statuses: OK, INVALID_ARGUMENT, INVALID_HANDLE.
xpwc_status xpwc_session_provider(xpwc_session session, struct xnn_weights_cache_provider** provider);

// Ends the creation of the runtime: call it when xnn_create_runtime_v4 has returned, before the runtime is set up. It
// frees the unpacked tensors that packing consumed. What was packed is written soon afterwards; it does not wait for
// the disk. An error means that the runtime must not be used, or says why XNNPACK could not create it. What went
// wrong without harm to the runtime is logged. The session is finalized in any case. Calling it again returns the
// same.
// Statuses: OK, INVALID_ARGUMENT, INVALID_HANDLE, NOT_EAGER, FINALIZED, SOURCE_CHANGED, LOST, OUT_OF_MEMORY,
// SYSTEM_ERROR, CALLBACK_FAILED, and those that fill returns; with XPWC_OPEN_STRICT also DAMAGED, FOREIGN,
// VERSION_MISMATCH.
xpwc_status xpwc_session_finalize(xpwc_session session);

// Lists the sorted names of the packed weights that the session's runtime uses so far, each the weights' name
// directly followed by the bias' name. Unnamed weights are not in it. *names has *count strings, and belongs to the
// host: free it with xpwc_names_free.
// Statuses: OK, INVALID_ARGUMENT, INVALID_HANDLE, OUT_OF_MEMORY.
xpwc_status xpwc_session_names(xpwc_session session, const char* const** names, size_t* count);

// A capacity that suffices for xpwc_session_explain with all reasons at once.
#define XPWC_EXPLANATION_SIZE 8192

// Writes to text, which has room for capacity bytes, what the creation of the session's runtime took beyond mapping, in
// English: how many weights were found, then each reason with what it concerns and what to do. A longer text is cut
// off. Call it between xpwc_session_finalize and xpwc_session_end.
// Statuses: OK, INVALID_ARGUMENT, INVALID_HANDLE.
xpwc_status xpwc_session_explain(xpwc_session session, char* text, size_t capacity);

// Returns XPWC_STATUS_LOST once packed weights that the session's runtime uses may be lost: the disk has failed before
// they were committed, or another program has written over the cache file or cut it off; and
// XPWC_STATUS_SOURCE_CHANGED if another session packed some of them and finds that its source changed meanwhile. The
// runtime must not be used any more. Call it after each inference, before the outputs are used; it takes some
// microseconds. Systems other than Linux, and overlayfs, say what the disk failed to take only when it is committed:
// there the answer is final after xpwc_cache_save. The log reports it too.
// Statuses: OK, INVALID_ARGUMENT, INVALID_HANDLE, SOURCE_CHANGED, LOST.
xpwc_status xpwc_session_check(xpwc_session session);

// Ends the session, also if it returns an error. The runtime must have been deleted.
// Statuses: OK, INVALID_ARGUMENT, INVALID_HANDLE, OUT_OF_MEMORY, SYSTEM_ERROR.
xpwc_status xpwc_session_end(xpwc_session session);

// Computes the 128-bit digest of size bytes, for xpwc_tensor.digest and xpwc_packing.opaque. data may be NULL if size
// is 0. It guards against accidents, not against an adversary.
// Statuses: OK, INVALID_ARGUMENT, OUT_OF_MEMORY, SYSTEM_ERROR.
xpwc_status xpwc_digest(const void* data, size_t size, uint8_t digest[16]);

// Begins an xpwc_tensor.stamp that names the file and the tensor's position in it, and so holds whatever the source is.
#define XPWC_FILE_STAMP "file "

// A capacity that suffices for xpwc_file_stamp.
#define XPWC_FILE_STAMP_SIZE 128

// Writes to stamp, which has room for capacity bytes, a text that changes when the open file's content does: device,
// inode, size and times of modification and change. The stamp of a tensor in the file is this with the tensor's
// position appended. The descriptor stays the host's. XPWC_STATUS_INVALID_ARGUMENT if capacity is too small, or the
// file is not a regular one. It is XPWC_STATUS_OK and an empty text where these do not suffice, and then
// xpwc_tensor.stamp must stay empty too, without a position: on a file system that does not make its change times
// itself (squashfs, EROFS, ISO 9660, FAT, FUSE, network file systems, and those that are not known to; on overlayfs a
// file whose two times are equal), for a file whose time of change is that of an image's making, and for one that was
// changed within the last 50 milliseconds, which could be changed again at the same time. On Linux it is empty too while
// somebody, the host included, has the file open for writing; and for another user's file (without CAP_LEASE) that could
// be changed, until a day after its last change, or 15 minutes on ext4 (docs/operations.md). What was changed within a
// day is brought to the disk first (fsync), there as well.
// Statuses: OK, INVALID_ARGUMENT, OUT_OF_MEMORY, SYSTEM_ERROR.
xpwc_status xpwc_file_stamp(int file_descriptor, char* stamp, size_t capacity);

// The state of a file, for xpwc_file_changed. Its content belongs to the library.
typedef struct xpwc_file_state {
  uint64_t opaque[8];
} xpwc_file_state;

// Fills in *state for an open file, before the file is read or mapped. The descriptor stays the host's.
// XPWC_STATUS_INVALID_ARGUMENT if the file is not a regular one. On Linux the descriptor must be open for reading: the
// times of a file show a long write only when it begins. So the file is read, here and by xpwc_file_changed, if somebody
// has it open for writing, if it was changed within the last 50 milliseconds, and, where the system does not say who
// writes to it (another user's file, network file systems), as long as it has no stamp for that: see xpwc_file_stamp.
// Statuses: OK, INVALID_ARGUMENT, OUT_OF_MEMORY, SYSTEM_ERROR.
xpwc_status xpwc_file_look(int file_descriptor, struct xpwc_file_state* state);

// Sets *changed to 1 if the content of the open file may have changed since before, otherwise to 0, as
// xpwc_data_map.changed must say it. For that the host keeps the descriptor open. Any file system will do. It is 1
// for a change of owner, mode or name too, but not if another file was put in this one's place, or it was removed.
// For a file that was written right before that state it waits until another change would show: some tens of
// milliseconds, or 2 seconds where the file system keeps whole seconds.
// Statuses: OK, INVALID_ARGUMENT, OUT_OF_MEMORY, SYSTEM_ERROR.
xpwc_status xpwc_file_changed(int file_descriptor, const struct xpwc_file_state* before, int* changed);

#ifdef __cplusplus
}
#endif

#endif
