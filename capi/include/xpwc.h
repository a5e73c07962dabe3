// xpwc: a cache for XNNPACK's packed weights. C API, C99.
//
// XNNPACK packs every weight matrix when a runtime is created. Given a session's provider, xnn_create_runtime_v4 packs
// into a memory-mapped file, and the next process that opens the file packs nothing.
//
//   xpwc_cache cache;
//   xpwc_open("model.xpwc", NULL, &cache);
//
//   xpwc_session session; // one for each runtime xpwc_session_begin(cache, &data_map, &session); options.packing =
//   &packing; // operator, shape, types: all that decides the packed bytes xpwc_session_load(session,
//   "layers.0.weight", &options, &weights, &size); // weights go to xnn_define_tensor_value
//   xpwc_session_provider(session, &provider); xnn_create_runtime_v4(subgraph, provider, workspace, threadpool, flags,
//   &runtime); xpwc_session_finalize(session); // frees the sources; the disk is written afterwards ...
//   xnn_setup_runtime_v2, xnn_invoke_runtime, as often as needed ... xnn_delete_runtime(runtime);
//   xpwc_session_end(session);
//
//   xpwc_close(cache);                                       // waits for the disk
//
// Errors. Functions return a status; xpwc_last_error returns a sentence about it. Each function's comment lists its
// statuses without the prefix XPWC_STATUS_. Every function may also return INTERNAL and FORKED. No function aborts,
// throws or exits. A NULL pointer is XPWC_STATUS_INVALID_ARGUMENT unless the comment allows it. A function that fails
// sets its output parameters to zero. An open cache never makes a model fail that runs without one: if the file is
// damaged or cannot be written, the disk is full, or another process packs for too long, weights are packed into
// private memory. xpwc_cache_stats counts them and the log reports them. xpwc_open fails if the path cannot be opened
// (its directory is missing, another user could change the file), unless XPWC_OPEN_OR_MEMORY is set.
//
// Handles. A handle is a number, not an address. Every call with a closed handle, or with a number that is no handle,
// returns XPWC_STATUS_INVALID_HANDLE. Numbers are not reused, and 0 is never a handle.
//
// Ownership and lifetime. A cache lives until xpwc_close, which fails while the cache has sessions. A session lives
// until xpwc_session_end. The session owns the memory that the library returns, unless the function's comment names
// another owner. Arguments are read or copied during the call. Exceptions are functions in structs, their contexts, and
// the contents of tensors; the comments of the members define their lifetimes.
//
// Threads. All functions may be called from any thread, at the same time and with the same handle. XNNPACK may call a
// provider from any thread. Executing runtimes never wait for the cache. If runtimes are created in parallel, one packs
// an entry and the others wait for it: hold no lock that the host's callbacks need.
//
// Callbacks. The host's functions are called on the thread that called the library or that creates the runtime, unless
// their comments name another. They must return: no exceptions, no longjmp. They must not open a cache, call this
// library with the same cache or its sessions, or wait for a thread that does. Such calls on the callback's own thread
// return XPWC_STATUS_INVALID_ARGUMENT.
//
// Structs begin with their size in bytes, so that they can grow. Members missing from a shorter struct count as zero.
// Members of a longer struct that the library does not know must be zero; otherwise, and for sizes of 0 and above
// 4,096, the call returns XPWC_STATUS_INVALID_ARGUMENT.
//
// Strings are NUL-terminated bytes in any encoding.
//
// Linking. The library contains no XNNPACK: it calls the host's, and must be compiled against the same xnnpack.h as the
// host. The structs of XNNPACK's weights cache have grown twice. A host compiled against another header does not link:
// the linker misses xpwc_open_xnnpack_key24_provider56 or a similar name. If the library is loaded with dlopen, or the
// XNNPACK at run time does not match the header, xpwc_open returns XPWC_STATUS_OTHER_XNNPACK. The first xpwc_open with
// a path initialises XNNPACK on a thread of the library. A host with its own allocator must call xnn_initialize
// earlier.
//
// Processes and signals. The library is written in Go. The first call that needs Go's runtime starts it; earlier the
// library has no threads, memory or signal handlers. A static initialiser of the host may make that call. If the
// runtime cannot start (ulimit -u, -v, -d), the call returns XPWC_STATUS_OUT_OF_MEMORY or XPWC_STATUS_SYSTEM_ERROR and
// can be retried. If the running runtime cannot get memory or a thread, the process ends. The library does not read the
// host's environment. It works only during calls, except for commits and XPWC_VERIFY_BACKGROUND, which continue in the
// background. It handles SIGSEGV, SIGBUS, SIGFPE and SIGPIPE from the first call on, until the host installs handlers.
// It forwards signals that it did not cause to the handlers installed earlier. An earlier handler of SIGURG may also be
// called for interrupts of Go's runtime. The library's threads block all signals except these, SIGURG and SIGPROF.
// Handlers that the host installs after the first call must have SA_ONSTACK; the next call sets it on a handler of
// SIGPROF that lacks it. The host must not block the signals that the library handles.
//
// Fork. A child of fork can use the library if its parent had not used it. Otherwise every call in the child returns
// XPWC_STATUS_FORKED without effect, even to close a handle. Runtimes of the parent can execute there, but
// XNNPACK cannot create one with the parent's provider. Call xpwc_cache_save before fork: a child keeps the writer's
// lock of a parent that ends while it packs.
//
// Not supported: unloading the library (dlclose), and a second library written in Go in the same process, unless both
// are linked statically as one archive.
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

// Version of this header and its library, as text and as a number to compare: major * 10000 + minor * 100 + patch.
// Until 1.0 a minor version may change this interface, so the library's SONAME contains it.
#define XPWC_VERSION "0.6.0"
#define XPWC_VERSION_NUMBER 600

// The result of a call. Statuses are never renumbered; later versions may add some.
typedef enum xpwc_status {
  XPWC_STATUS_OK = 0,
  // A pointer is NULL, a struct_size is invalid, a value is unknown to the function, or a callback of the cache made
  // the call.
  XPWC_STATUS_INVALID_ARGUMENT = 1,
  // The cache or session is closed, or the number is no handle.
  XPWC_STATUS_INVALID_HANDLE = 2,
  // The data map has no tensor with that name.
  XPWC_STATUS_UNKNOWN_TENSOR = 3,
  // The session was begun without a data map.
  XPWC_STATUS_NO_DATA_MAP = 4,
  // XNNPACK packed a computed tensor that had not been computed: load it with XPWC_LOAD_EAGER. The runtime must not be
  // used.
  XPWC_STATUS_NOT_EAGER = 5,
  // The call must come before xpwc_session_finalize.
  XPWC_STATUS_FINALIZED = 6,
  // The cache still has sessions, whose runtimes use its memory. It stays open.
  XPWC_STATUS_IN_USE = 7,
  // The file was written neither by xpwc nor by ExecuTorch. It is left unchanged.
  XPWC_STATUS_NOT_CACHE = 8,
  // Another user could change the file, or it is not a regular file. Correct its owner and mode, or set
  // XPWC_OPEN_ALLOW_UNSAFE_FILE.
  XPWC_STATUS_UNSAFE_FILE = 9,
  // The file is a damaged cache. Without XPWC_OPEN_STRICT it is renamed, and all weights are packed again.
  XPWC_STATUS_DAMAGED = 10,
  // With XPWC_OPEN_STRICT: ExecuTorch wrote the file, which does not record the CPU it was packed for.
  XPWC_STATUS_FOREIGN = 11,
  // With XPWC_OPEN_STRICT: the file has the format of another version of xpwc. Without the flag a newer file is left
  // unchanged, and an older one is replaced when weights are packed.
  XPWC_STATUS_VERSION_MISMATCH = 12,
  // The path is open in this process with other options.
  XPWC_STATUS_OTHER_OPTIONS = 13,
  // Another process is writing to the file; try again later.
  XPWC_STATUS_BUSY = 14,
  // The file was removed or replaced while it was written.
  XPWC_STATUS_REPLACED = 15,
  // The file cannot be written to, or XPWC_OPEN_READ_ONLY was set.
  XPWC_STATUS_READ_ONLY = 16,
  // Memory is exhausted.
  XPWC_STATUS_OUT_OF_MEMORY = 17,
  // The system reported an error; xpwc_last_error has its text.
  XPWC_STATUS_SYSTEM_ERROR = 18,
  // A callback of the host returned a status that is not in this list.
  XPWC_STATUS_CALLBACK_FAILED = 19,
  // xnn_initialize failed, or the library caught a defect of its own.
  XPWC_STATUS_INTERNAL = 20,
  // A source of tensors, for example their file, changed in place while they were packed. The packed weights are
  // discarded, and the runtime must not be used: load the model again.
  XPWC_STATUS_SOURCE_CHANGED = 21,
  // The disk lost packed weights of a runtime before the commit, or the cache file was overwritten or truncated in
  // place. The runtime must not be used: delete it and create it again.
  XPWC_STATUS_LOST = 22,
  // This process is a child of fork, and its parent used the library. Call the library after exec.
  XPWC_STATUS_FORKED = 23,
  // The structs of the program's XNNPACK differ from the header that the library was built with. xpwc_last_error names
  // both. Build the library with the header of the program's XNNPACK.
  XPWC_STATUS_OTHER_XNNPACK = 24
} xpwc_status;

// Returns the status' name, for example "XPWC_STATUS_IN_USE"; never NULL. Static storage.
const char* xpwc_status_string(xpwc_status status);

// Returns a sentence about the last failed call on this thread, with its path or name and the remedy. A call that
// succeeded only because of XPWC_OPEN_OR_MEMORY counts as failed. Never NULL; empty until the first failure. The thread
// owns the string, which is valid until the thread's next call of this library.
const char* xpwc_last_error(void);

// Return the XPWC_VERSION and the XPWC_VERSION_NUMBER that the library was built with. Static storage.
const char* xpwc_version(void);
uint32_t xpwc_version_number(void);

// Returns the XNNPACK that the library was built for, for example "XNNPACK of March 2026 or later (look-up key of 32
// bytes, provider of 64)". Static storage.
const char* xpwc_xnnpack(void);

// A handle of a cache: the packed weights of one path. Valid after xpwc_open returned XPWC_STATUS_OK, until xpwc_close.
typedef struct xpwc_cache {
  uint64_t id;
} xpwc_cache;

// A handle of a session, which serves one xnn_runtime_t. Valid after xpwc_session_begin returned XPWC_STATUS_OK, until
// xpwc_session_end.
typedef struct xpwc_session {
  uint64_t id;
} xpwc_session;

// Levels of the log.
enum {
  XPWC_LOG_DEBUG = 0,
  // An operation succeeded, for example a commit.
  XPWC_LOG_INFO = 1,
  // The library continues without the cache, or repaired it: weights are in private memory, a damaged file was renamed.
  XPWC_LOG_WARNING = 2,
  // A call failed, with the text of xpwc_last_error; or the disk lost packed weights that a runtime uses.
  XPWC_LOG_ERROR = 3
};

// The progress of a session whose runtime is being created: xpwc_options.progress.
typedef struct xpwc_progress {
  // sizeof(struct xpwc_progress) in the library. Members beyond it must not be read.
  size_t struct_size;
  // The entry's name: the weights' name followed by the bias' name without a separator; empty for unnamed weights.
  // Valid during the call.
  const char* name;
  // Bytes packed for this entry.
  uint64_t bytes;
  // Bytes of the session's unpacked tensors: packed or found in the cache so far (done), and loaded (total).
  uint64_t done;
  uint64_t total;
} xpwc_progress;

// How packed weights are checked. Opening a file always checks its whole structure.
enum {
  // A background thread verifies the checksums of the packed weights that a session uses, once, after
  // xpwc_session_finalize; it sleeps nine tenths of the time. A runtime may use damaged weights until then. The log
  // reports them and xpwc_cache_stats counts them. The next session packs them again, and they are dropped from the
  // file.
  XPWC_VERIFY_BACKGROUND = 0,
  // Checksums are verified by the first look-up that finds packed weights. Damaged weights are packed again.
  XPWC_VERIFY_ON_USE = 1,
  // Checksums are not verified.
  XPWC_VERIFY_STRUCTURE = 2
};

// Flags of xpwc_options.
enum {
  // Use the file's entries; never write to the file.
  XPWC_OPEN_READ_ONLY = 1 << 0,
  // A damaged file or one written by ExecuTorch is an error and is not replaced.
  XPWC_OPEN_STRICT = 1 << 1,
  // Open the file even if another user owns it or may write to it, or to the directory of a symbolic link to it.
  XPWC_OPEN_ALLOW_UNSAFE_FILE = 1 << 2,
  // Read the whole file into memory when it is opened.
  XPWC_OPEN_PREFETCH = 1 << 3,
  // If the file cannot be used, open a cache in memory instead, which lives until its last handle is closed. The log
  // and xpwc_last_error report the reason; xpwc_stats.unusable is the status that the call would have returned.
  XPWC_OPEN_OR_MEMORY = 1 << 4
};

// Options of xpwc_open and xpwc_open_fd. Zero-initialise it and set struct_size to sizeof(struct xpwc_options);
// zeroes mean the defaults.
typedef struct xpwc_options {
  size_t struct_size;
  // XPWC_OPEN_ flags. An unknown flag is XPWC_STATUS_INVALID_ARGUMENT.
  uint32_t flags;
  // One of XPWC_VERIFY_.
  uint32_t verify;
  // Milliseconds that a session waits for another process that packs into the file, and then packs into private memory;
  // and for another session of this process that packs the same entry, and then packs it too. 0 means 10,000; a
  // negative value means no wait.
  int64_t writer_wait_ms;
  // Maximum size of the file in bytes: the least recently used entries are evicted. 0 means no limit.
  uint64_t max_bytes;
  // Lowest level to log, one of XPWC_LOG_.
  uint32_t log_level;
  // Called with each message, one line that is valid during the call; or NULL. A failing call logs on its own thread,
  // before it returns. Other events are logged in the order they occur, also between calls, by one thread of the
  // library that holds no lock: commits and their failures, packed weights that are damaged or lost, and each
  // xpwc_reason of a load once. Both threads may call log at the same time, so it must be thread-safe. The rules for
  // callbacks above apply. It should be quick: the next message and xpwc_close wait for it.
  void (*log)(void* context, uint32_t level, const char* message);
  // Called after each packed entry of a session that was begun with this handle, on the thread that creates the
  // runtime; or NULL.
  void (*progress)(void* context, const struct xpwc_progress* progress);
  // Passed to log and progress. All three must stay valid until xpwc_close of this handle returned.
  void* context;
} xpwc_options;

// Opens the cache file at path. If there is no file, the first weights that are packed create it, with mode 0600. Its
// directory must exist. An empty path opens a cache in memory. Opening a path again in this process returns another
// handle of the same cache; the options must be the same, otherwise XPWC_STATUS_OTHER_OPTIONS. log_level, log, progress
// and context are set for each handle. options may be NULL. Close *cache with xpwc_close. The first call opens two or
// three file descriptors for Go's runtime, which keeps them. If too few are free it returns XPWC_STATUS_SYSTEM_ERROR
// and can be retried.
// Statuses: OK, INVALID_ARGUMENT, NOT_CACHE, UNSAFE_FILE, OTHER_OPTIONS, OUT_OF_MEMORY, SYSTEM_ERROR, OTHER_XNNPACK;
// with XPWC_OPEN_STRICT also DAMAGED, FOREIGN, VERSION_MISMATCH. With XPWC_OPEN_OR_MEMORY: OK, INVALID_ARGUMENT,
// OTHER_OPTIONS, OUT_OF_MEMORY, OTHER_XNNPACK, and SYSTEM_ERROR for too few descriptors.
xpwc_status xpwc_open(const char* path, const struct xpwc_options* options, xpwc_cache* cache);

// Opens the cache in an open file, for a host in a sandbox that has a descriptor and can open no path. The cache
// duplicates the descriptor; the host keeps its own and may close it at once. An empty file is a cache without entries.
// The cache writes to the file if the descriptor is open for reading and writing and the library can reopen the file
// through /proc, since a duplicated descriptor shares the writer's lock with its original. Otherwise the cache is
// read-only, as with XPWC_OPEN_READ_ONLY. The file is never renamed or replaced. So a damaged file, one written by
// ExecuTorch and one of an older format stay unchanged, and misses are packed into private memory; xpwc_cache_compact
// fails, dead bytes stay, and max_bytes has no effect. If a flush of the file fails, uncommitted weights are lost
// (XPWC_STATUS_LOST); the cache writes to the file again after a minute, once the sessions that use these weights are
// closed. Each call opens a separate cache: two caches of one file behave like two processes. Close *cache with
// xpwc_close.
// Statuses: OK, INVALID_ARGUMENT, NOT_CACHE, UNSAFE_FILE, OUT_OF_MEMORY, SYSTEM_ERROR, OTHER_XNNPACK; with
// XPWC_OPEN_STRICT also DAMAGED, FOREIGN, VERSION_MISMATCH.
xpwc_status xpwc_open_fd(int file_descriptor, const struct xpwc_options* options, xpwc_cache* cache);

// Calls of xpwc_open and xpwc_open_fd go to a name with the sizes of the host's structs, as on 64-bit systems. The
// library exports only the names of its own sizes. Define XPWC_DLOPEN in a host that loads the library with dlopen and
// looks xpwc_open up with dlsym.
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

// Waits until the weights packed by finalized sessions are on stable storage, and closes the handle. Returns
// XPWC_STATUS_IN_USE while sessions of the handle are open; the handle stays valid then. With any other error it is
// closed.
// Statuses: OK, INVALID_ARGUMENT, INVALID_HANDLE, IN_USE, and the same as xpwc_cache_save.
xpwc_status xpwc_close(xpwc_cache cache);

// Waits until the weights packed by finalized sessions are on stable storage. Each error is returned once. If a flush
// failed, uncommitted weights are lost, as xpwc_session_check reports: the flush is not retried, and the file is
// renamed. If there was no room for the file's index, the weights stay usable, and the next call commits them.
// Statuses: OK, INVALID_ARGUMENT, INVALID_HANDLE, NOT_CACHE, UNSAFE_FILE, DAMAGED, BUSY, REPLACED, READ_ONLY,
// OUT_OF_MEMORY, SYSTEM_ERROR; with XPWC_OPEN_STRICT also FOREIGN, VERSION_MISMATCH.
xpwc_status xpwc_cache_save(xpwc_cache cache);

// Writes a copy of the file without dead bytes and renames it to the file's path. Runtimes keep the old file mapped.
// Waits until no session of this process packs, so a thread that creates a runtime must not call it until
// xpwc_session_finalize. Returns XPWC_STATUS_BUSY if another process packs into the file for longer than
// writer_wait_ms.
// Statuses: as xpwc_cache_save.
xpwc_status xpwc_cache_compact(xpwc_cache cache);

// Evicts the packed weights that no session uses from a cache in memory, and frees them. No effect on a cache with a
// file.
// Statuses: OK, INVALID_ARGUMENT, INVALID_HANDLE, OUT_OF_MEMORY, SYSTEM_ERROR.
xpwc_status xpwc_cache_trim(xpwc_cache cache);

// Returns the sorted names of the packed weights that this machine can use, in the file and in sessions. Each is the
// weights' name followed by the bias' name without a separator. The host owns *names, an array of *count strings: free
// it with xpwc_names_free.
// Statuses: OK, INVALID_ARGUMENT, INVALID_HANDLE, OUT_OF_MEMORY.
xpwc_status xpwc_cache_names(xpwc_cache cache, const char* const** names, size_t* count);

// Frees the names that xpwc_cache_names or xpwc_session_names returned. NULL has no effect.
void xpwc_names_free(const char* const* names);

// Why a load took longer than mapping a file. Reasons are never renumbered; later versions may add some.
// docs/operations.md has the remedies.
typedef enum xpwc_reason {
  // Weights that no look-up found, and XNNPACK packed.

  // The cache has no file, or cannot use it.
  XPWC_REASON_IN_MEMORY = 0,
  // There was no file, or the file was empty.
  XPWC_REASON_NO_FILE = 1,
  // The file was written by ExecuTorch, or has an older format.
  XPWC_REASON_FOREIGN = 2,
  // The file, or this payload, was damaged.
  XPWC_REASON_DAMAGED = 3,
  // The file has no weights with these names.
  XPWC_REASON_NAME = 4,
  // The file has the weights in another layout: of another CPU or another XNNPACK.
  XPWC_REASON_LAYOUT = 5,
  // The file has the weights in the layout that another build of XNNPACK has on this CPU.
  XPWC_REASON_XNNPACK = 6,
  // The file has the weights with another fingerprint_id of XNNPACK's key.
  XPWC_REASON_FINGERPRINT = 7,
  // The file has the weights with another packing.
  XPWC_REASON_PACKING = 8,
  // The file has weights with these names and different content.
  XPWC_REASON_CONTENT = 9,
  // The payload's size is not the one that the operator reads.
  XPWC_REASON_SIZE = 10,
  // The file has no entry with the key. Its index is too large or too damaged for a better reason.
  XPWC_REASON_KEY = 11,

  // Weights that XNNPACK packed for comparison.

  // XPWC_LOAD_COMPARE is set for the kernel.
  XPWC_REASON_COMPARE = 12,
  // The host gave no packing.
  XPWC_REASON_NO_PACKING = 13,
  // The file has several payloads with the key.
  XPWC_REASON_VARIANT = 14,
  // The file has the weights with another seed.
  XPWC_REASON_SEED = 15,
  // The model uses the key a second time.
  XPWC_REASON_REPEATED = 16,
  // The host gave several packings for the kernel.
  XPWC_REASON_AMBIGUOUS = 17,
  // XNNPACK does not report how many bytes it packs.
  XPWC_REASON_UNSIZED = 18,
  // XNNPACK packed the weight without a look-up.
  XPWC_REASON_UNASKED = 19,

  // Tensors that were read in full to compute their digests.

  // The file has another stamp of the same tensor: the model has another path, inode or time.
  XPWC_REASON_STAMP = 20,
  // The tensor has no stamp.
  XPWC_REASON_UNSTAMPED = 21,
  // A program has the model open for writing, or wrote it just before.
  XPWC_REASON_WRITTEN = 22,
  // The model changed recently, and the system does not show this user its writers.
  XPWC_REASON_OWNER = 23,
  // The times of the model's file system do not show every change.
  XPWC_REASON_FILE_SYSTEM = 24,

  // Packed weights in private memory.

  // XNNPACK packed from an address that xpwc_session_load did not return.
  XPWC_REASON_UNNAMED = 25,
  // The file or its directory cannot be written to, or XPWC_OPEN_READ_ONLY is set.
  XPWC_REASON_READ_ONLY = 26,
  // Another process was packing into the file for longer than writer_wait_ms.
  XPWC_REASON_BUSY = 27,
  // The file has a newer format, and is left unchanged for programs that know it.
  XPWC_REASON_VERSION = 28,
  // Reserving or mapping file space failed; the log has the error.
  XPWC_REASON_DISK = 29,

  // Waits; bytes is 0.

  // Another process was packing into the file.
  XPWC_REASON_PROCESS = 30,
  // Another session was packing the weight.
  XPWC_REASON_SESSION = 31,

  // Packed weights that make the file grow.

  // The file has the same content for this kind of machine three times or more.
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

// Counts of a cache since it was opened in this process, and the state of its file. Sizes are in bytes.
typedef struct xpwc_stats {
  // The host sets it to sizeof(struct xpwc_stats). The library sets the members within that size, and leaves members
  // that it does not know unchanged.
  size_t struct_size;
  // Cache hits with the bytes they returned, and cache misses.
  xpwc_count hits;
  uint64_t misses;
  // Entries that were packed and inserted.
  xpwc_count packed;
  // Packed weights that equal an entry, which is used instead: XNNPACK packs some operators without a look-up.
  xpwc_count reused;
  // Payloads whose checksums are right, and the number of payloads whose checksums are wrong.
  xpwc_count verified;
  uint64_t damaged_payloads;
  // Weights packed into private memory: they have no name, the file cannot be written, another process packed into it
  // for too long, or no file space could be allocated.
  xpwc_count private_unnamed;
  xpwc_count private_read_only;
  xpwc_count private_busy;
  xpwc_count private_disk;
  // Bytes that open sessions use now, mapped from the file and in private memory.
  uint64_t mapped_bytes;
  uint64_t private_bytes;
  // Number of the latest commit, 0 if there is none, and the file as of that commit.
  uint64_t generation;
  uint64_t entries;
  uint64_t file_bytes;
  uint64_t payload_bytes;
  uint64_t dead_bytes;
  // Bytes that this process wrote to the file, and the number of compactions.
  uint64_t written_bytes;
  uint64_t compactions;
  // 1 if a damaged file was renamed.
  uint64_t damaged;
  // Weights packed into private memory because the file has a newer format.
  xpwc_count private_version;
  // Payloads that may have been lost while a session used them, because the disk failed or the file was overwritten:
  // see xpwc_session_check.
  uint64_t lost_payloads;
  // Sources that xpwc_data_map.changed reported as changed while a session packed, once for each source and session.
  uint64_t sources_changed;
  // Payloads of open sessions whose checksums XPWC_VERIFY_BACKGROUND has not verified.
  xpwc_count unverified;
  // Look-ups that waited for another session of this process to pack the same entry, and the waits that reached
  // xpwc_options.writer_wait_ms, after which the session packed the entry itself.
  uint64_t waits;
  uint64_t wait_timeouts;
  // With XPWC_OPEN_OR_MEMORY: the xpwc_status for which the cache is in memory and not in its file. Otherwise
  // XPWC_STATUS_OK.
  uint64_t unusable;
  // What made loads longer than mapping, indexed by xpwc_reason: weights with the bytes packed, tensors with the bytes
  // read, or waits. xpwc_session_finalize adds a session's counts.
  xpwc_count reasons[XPWC_REASONS];
} xpwc_stats;

// Fills in *stats, whose struct_size the host must set.
// Statuses: OK, INVALID_ARGUMENT, INVALID_HANDLE.
xpwc_status xpwc_cache_stats(xpwc_cache cache, struct xpwc_stats* stats);

// An unpacked tensor of the host's data map.
typedef struct xpwc_tensor {
  // sizeof(struct xpwc_tensor). Set by the library before it calls xpwc_data_map.get, and by the host in a table.
  size_t struct_size;
  // The tensor's name in a table. Ignored otherwise.
  const char* name;
  // The content. It must stay readable and unchanged until release is called, or without release until
  // xpwc_session_end. NULL if fill is set or there are no bytes.
  const void* data;
  // Size of the content in bytes.
  size_t size;
  // Computes the content (widens, decompresses): writes all size bytes of dst, which the session owns. Called at most
  // once, and not at all if the cache has all weights packed from the tensor. xpwc_session_load or
  // xpwc_session_finalize returns any status except XPWC_STATUS_OK. May be NULL.
  xpwc_status (*fill)(void* context, void* dst, size_t size);
  // Called when the content was read for packing or for its digest, and probably will not be read again. A host that
  // maps a file drops the pages here (madvise), so that only one tensor is resident at a time. The content must stay
  // readable. Called from any thread, again if the content is read again, and never after release. Not called for
  // tensors with fill, or loaded with XPWC_LOAD_RETAIN. May be NULL.
  void (*evict)(void* context, const void* data, size_t size);
  // Called once, when the session no longer needs data and context: by xpwc_session_finalize if packing consumed the
  // tensor, otherwise by xpwc_session_end. Called for every tensor that get returned with XPWC_STATUS_OK, at once if
  // the tensor is invalid, and for every loaded tensor of a table. May be NULL.
  void (*release)(void* context, const void* data, size_t size);
  // Passed to fill, evict and release.
  void* context;
  // The origin of the tensor, for example the model's absolute path; NULL for none. source, stamp and digest identify
  // the content: packed weights are used only for the content they were packed from. The file stores a digest of source
  // and its last path element, which xpwc inspect shows.
  const char* source;
  // A text that changes whenever the content does and costs nothing: a content hash stored in the model's file, or the
  // result of xpwc_file_stamp, unless that is empty, and the tensor's position in the file. NULL or empty if there is
  // none or it is not certain; then digests are compared. It counts only for the same source. A stamp that begins with
  // XPWC_FILE_STAMP, followed by xpwc_file_stamp and the position, counts for every path of the file, also if a
  // directory was renamed, and through links.
  const char* stamp;
  // 16 bytes: xpwc_digest of the content, or of the bytes it is computed from (the compressed bytes). Compared if there
  // is no stamp or it changed. If NULL, the library reads the content and computes the digest.
  const uint8_t* digest;
} xpwc_tensor;

// The host's unpacked tensors by name. Zero-initialise it and set struct_size to sizeof(struct xpwc_data_map).
typedef struct xpwc_data_map {
  size_t struct_size;
  // Fills in *tensor, which is zero except for struct_size. Returns XPWC_STATUS_UNKNOWN_TENSOR if there is no tensor
  // with that name; xpwc_session_load returns any other failure. A session calls it at most once for each name, until
  // xpwc_session_finalize, or xpwc_session_end if the session is not finalized. If NULL, the table is used.
  xpwc_status (*get)(void* context, const char* name, struct xpwc_tensor* tensor);
  // Passed to get and changed. All three must stay valid until xpwc_session_finalize or xpwc_session_end returned.
  void* context;
  // A table of tensor_count tensors, used without get. All have the same struct_size, which is their distance in bytes;
  // all names differ. xpwc_session_begin copies the table, its strings and digests, but not the contents.
  const struct xpwc_tensor* tensors;
  size_t tensor_count;
  // Sets *changed to 1 if the content of tensors with that source (xpwc_tensor.source, "" for NULL) may have changed in
  // place since the host read or mapped it, otherwise to 0: see xpwc_file_changed. After a 0, it must detect every
  // later change. Any status except XPWC_STATUS_OK counts as a change. Called for each source when its first tensor is
  // loaded, and by xpwc_session_finalize (or xpwc_session_end of a session that is not finalized) if weights were
  // packed, also by another session that is not finalized, or a tensor has no stamp. May be NULL: if a file is then
  // overwritten while weights are packed from it, they may be stored under the identity of the wrong content. Parallel
  // sessions share the weights they pack from tensors without stamps only if their changed and context are equal.
  xpwc_status (*changed)(void* context, const char* source, int* changed);
} xpwc_data_map;

// Begins a session. data may be NULL if the host loads no tensor: all weights are then unnamed and packed into private
// memory. The session sees the file's latest commit, also of another process. End *session with xpwc_session_end.
// Statuses: OK, INVALID_ARGUMENT, INVALID_HANDLE, OUT_OF_MEMORY; with XPWC_OPEN_STRICT also NOT_CACHE, UNSAFE_FILE,
// DAMAGED, FOREIGN, VERSION_MISMATCH, REPLACED, SYSTEM_ERROR.
xpwc_status xpwc_session_begin(xpwc_cache cache, const struct xpwc_data_map* data, xpwc_session* session);

// Flags of xpwc_load_options.
enum {
  // The content is in memory when xpwc_session_load returns. Set it for computed tensors that XNNPACK reads without a
  // look-up: weights of depthwise convolution, deconvolution and NCHW convolution, the bias of operators with
  // dynamically quantised input, weights that XNNPACK of 2026 converts (f16 and bf16 if the CPU has no arithmetic for
  // them), and tensors that inference reads.
  XPWC_LOAD_EAGER = 1 << 0,
  // Only packing reads the content. xpwc_session_finalize releases it even if XNNPACK packed it without a look-up.
  XPWC_LOAD_PACK_ONLY = 1 << 1,
  // The content is kept until xpwc_session_end, for tensors that inference also reads (PReLU slopes, constants of
  // elementwise operators).
  XPWC_LOAD_RETAIN = 1 << 2,
  // XNNPACK packs the kernel in each process, and the cache compares the result with its entries, whatever
  // xpwc_load_options.packing and XPWC_LOAD_BELIEVE are. Equal bytes are shared, different bytes are inserted. Results
  // are right and the weights are in memory once, but each start packs.
  XPWC_LOAD_COMPARE = 1 << 3,
  // For a kernel whose xpwc_load_options.packing is NULL or opaque: the host guarantees that every host of this cache
  // packs a tensor of this name and content in the same way. Look-ups can then hit, and a warm start packs nothing. If
  // shape, groups, operator, scales or a hidden bias differ, the runtime computes wrong numbers and reads out of
  // bounds.
  XPWC_LOAD_BELIEVE = 1 << 4
};

// Operators that pack weights, with the functions of xnnpack.h that define them.
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
  // The convolution has explicit padding (not XNN_FLAG_TENSORFLOW_SAME_PADDING).
  XPWC_PACKING_PADDED = 1 << 1,
  // The runtime is created with XNN_FLAG_HINT_FP16_INFERENCE or XNN_FLAG_FORCE_FP16_INFERENCE.
  XPWC_PACKING_HALF_PRECISION = 1 << 2,
  // The runtime is created with XNN_FLAG_HINT_SPARSE_INFERENCE.
  XPWC_PACKING_SPARSE_INFERENCE = 1 << 3,
  // The node or the runtime has XNN_FLAG_SLOW_CONSISTENT_ARITHMETIC.
  XPWC_PACKING_CONSISTENT_ARITHMETIC = 1 << 4
};

// A tensor of a node: its type and quantisation. Members that the type does not use are ignored. Pointers must be
// aligned to their types, and may be NULL if the count is 0. No count may exceed the number of the kernel's elements.
typedef struct xpwc_operand {
  // The type, a value of enum xnn_datatype. 0 (xnn_datatype_invalid) means that the node has no such tensor.
  uint32_t datatype;
  // The stored value that means zero.
  int32_t zero_point;
  // The scale of qint8, quint8 and qint32.
  float scale;
  // The dimension that scales and block_scales index: 0 for [output channels, ...].
  uint32_t channel_dim;
  // For types quantised per channel: a scale for each index of channel_dim; for the second input of a batch matrix
  // multiplication, repeated for each matrix of the batch.
  const float* scales;
  size_t scale_count;
  // For types quantised in blocks: the scales as the bits of bfloat16 numbers, channel by channel.
  const uint16_t* block_scales;
  size_t block_scale_count;
  // Number of a channel's elements that share a block scale.
  uint32_t block_size;
  // For types quantised at inference: the number of trailing dimensions that share a scale.
  uint32_t non_batch_dims;
} xpwc_operand;

// How XNNPACK will pack a kernel: all that decides the packed bytes, except the contents of the kernel and of a bias
// that is in XNNPACK's key. Zero-initialise it and set struct_size to sizeof(struct xpwc_packing). The struct and the
// memory it points to are read only during the call.
typedef struct xpwc_packing {
  size_t struct_size;
  // One of XPWC_OPERATOR_; 0 with opaque.
  uint32_t operator_type;
  // XPWC_PACKING_ flags. An unknown flag is XPWC_STATUS_INVALID_ARGUMENT.
  uint32_t flags;
  // Groups of a convolution or deconvolution, or the depth multiplier of a depthwise convolution. 0 means 1.
  uint32_t groups;
  // Strides and dilations in pixels, of convolutions and deconvolutions. 0 means 1.
  uint32_t stride_height;
  uint32_t stride_width;
  uint32_t dilation_height;
  uint32_t dilation_width;
  // The kernel's shape in the subgraph: 1 to XNN_MAX_TENSOR_DIMS dimensions, outermost first. The tensor must have that
  // number of elements, of the kernel's type or another one.
  uint32_t dim_count;
  const size_t* dims;
  // The node's tensors, with their types in the subgraph. bias is zero if there is none.
  struct xpwc_operand input;
  struct xpwc_operand kernel;
  struct xpwc_operand bias;
  struct xpwc_operand output;
  // The content of a bias that is packed but not in XNNPACK's key, and its size in bytes. Required if there is a bias
  // and input is quantised at inference (qdint8, qduint8, qpint8). Otherwise it may be NULL.
  const void* hidden_bias;
  size_t hidden_bias_size;
  // For a host without a node's parameters: bytes in any format that differ if the host's knowledge of the node
  // differs. All other members must be zero then. NULL otherwise. If a tensor is loaded with several, they are parts of
  // one description. The library cannot tell whether they cover all that decides the packing, so it compares the packed
  // weights at each start, unless XPWC_LOAD_BELIEVE is set.
  const void* opaque;
  size_t opaque_size;
} xpwc_packing;

// How a tensor is loaded. Zero-initialise it and set struct_size to sizeof(struct xpwc_load_options).
typedef struct xpwc_load_options {
  size_t struct_size;
  // XPWC_LOAD_ flags. An unknown flag is XPWC_STATUS_INVALID_ARGUMENT.
  uint32_t flags;
  // How XNNPACK will pack the tensor. XNNPACK's key has almost none of this, so set it for every kernel, floats
  // included, and load the kernel again for each further use. Without it every look-up of the kernel misses: each start
  // packs it and compares the result with the cache, as with XPWC_LOAD_COMPARE. NULL for tensors that are not kernels.
  // If it is inconsistent, the call returns XPWC_STATUS_INVALID_ARGUMENT and xpwc_last_error names the member.
  const struct xpwc_packing* packing;
} xpwc_load_options;

// Returns in *data the address of a tensor for xnn_define_tensor_value, and in *size its size in bytes. A computed
// tensor is filled in when XNNPACK is about to pack it. The session owns the memory, until xpwc_session_finalize if
// packing consumed the tensor, otherwise until xpwc_session_end. Loading a name again returns the same address and adds
// the options. options and size may be NULL.
// Statuses: OK, INVALID_ARGUMENT, INVALID_HANDLE, UNKNOWN_TENSOR, NO_DATA_MAP, FINALIZED, OUT_OF_MEMORY, SYSTEM_ERROR,
// CALLBACK_FAILED, and the statuses that the host's get and fill return.
xpwc_status xpwc_session_load(
    xpwc_session session, const char* name, const struct xpwc_load_options* options, const void** data, size_t* size);

// Registers alias, size bytes, as the host's copy or conversion of the loaded tensor at original; the host passes alias
// to XNNPACK. Weights packed from alias have a name that begins with original's. alias must stay readable and unchanged
// until xpwc_session_finalize. conversion names the conversion, for example "f32 to f16". Only this word distinguishes
// the copies of a tensor, so all hosts of a cache must use one word for one conversion. If it is NULL or empty, the
// library computes the digest of alias each time instead. XNNPACK of March 2026 and later reports its own copies.
// Returns XPWC_STATUS_UNKNOWN_TENSOR if xpwc_session_load did not return original, XPWC_STATUS_NOT_EAGER if its content
// is not computed yet.
// Statuses: OK, INVALID_ARGUMENT, INVALID_HANDLE, UNKNOWN_TENSOR, NOT_EAGER, FINALIZED.
xpwc_status xpwc_session_alias(
    xpwc_session session, const void* alias, size_t size, const void* original, const char* conversion);

// Returns in *provider the weights cache (xnn_weights_cache_t) for xnn_create_runtime_v4. It serves one runtime. The
// session owns it; it is valid until xpwc_session_end, which must follow xnn_delete_runtime.
// Statuses: OK, INVALID_ARGUMENT, INVALID_HANDLE.
xpwc_status xpwc_session_provider(xpwc_session session, struct xnn_weights_cache_provider** provider);

// Ends the creation of the runtime: call it when xnn_create_runtime_v4 has returned, before the runtime is set up, also
// if it failed. It frees the unpacked tensors that packing consumed. It does not wait for the disk: packed weights are
// committed in the background. After an error the runtime must not be used; if XNNPACK failed to create it, the error
// is the cause. Errors that do not affect the runtime are logged. The session is finalized in any case. Calling it
// again returns the same status.
// Statuses: OK, INVALID_ARGUMENT, INVALID_HANDLE, NOT_EAGER, FINALIZED, SOURCE_CHANGED, LOST, OUT_OF_MEMORY,
// SYSTEM_ERROR, CALLBACK_FAILED, and the statuses that the host's fill returns; with XPWC_OPEN_STRICT also DAMAGED,
// FOREIGN, VERSION_MISMATCH.
xpwc_status xpwc_session_finalize(xpwc_session session);

// Returns the sorted names of the packed weights that the session's runtime uses so far, without unnamed weights. Each
// is the weights' name followed by the bias' name without a separator. The host owns *names, an array of *count
// strings: free it with xpwc_names_free.
// Statuses: OK, INVALID_ARGUMENT, INVALID_HANDLE, OUT_OF_MEMORY.
xpwc_status xpwc_session_names(xpwc_session session, const char* const** names, size_t* count);

// Capacity in bytes that suffices for every text of xpwc_session_explain.
#define XPWC_EXPLANATION_SIZE 8192

// Writes to text, a buffer of capacity bytes, why the creation of the session's runtime took longer than mapping, in
// English: the number of cache hits, then each reason with its weights and the remedy. A longer text is truncated. Call
// it between xpwc_session_finalize and xpwc_session_end.
// Statuses: OK, INVALID_ARGUMENT, INVALID_HANDLE.
xpwc_status xpwc_session_explain(xpwc_session session, char* text, size_t capacity);

// Returns XPWC_STATUS_LOST if packed weights of the session's runtime may be lost: the disk failed before the commit,
// or another program overwrote or truncated the cache file. Returns XPWC_STATUS_SOURCE_CHANGED if another session
// packed some of them and its source changed. The runtime must not be used then. Call it after each inference, before
// the outputs are used; it takes some microseconds. Systems other than Linux, and overlayfs, report write errors only
// at the commit: there XPWC_STATUS_OK is final after xpwc_cache_save. The log reports losses too.
// Statuses: OK, INVALID_ARGUMENT, INVALID_HANDLE, SOURCE_CHANGED, LOST.
xpwc_status xpwc_session_check(xpwc_session session);

// Ends the session and invalidates its handle, also if it returns an error. The runtime must be deleted by then.
// Statuses: OK, INVALID_ARGUMENT, INVALID_HANDLE, OUT_OF_MEMORY, SYSTEM_ERROR.
xpwc_status xpwc_session_end(xpwc_session session);

// Computes the 128-bit digest (XXH3) of size bytes, for xpwc_tensor.digest and xpwc_packing.opaque. data may be NULL if
// size is 0. The digest is not cryptographic.
// Statuses: OK, INVALID_ARGUMENT, OUT_OF_MEMORY, SYSTEM_ERROR.
xpwc_status xpwc_digest(const void* data, size_t size, uint8_t digest[16]);

// Prefix of an xpwc_tensor.stamp that identifies the file and the tensor's position in it, and so counts for every
// source.
#define XPWC_FILE_STAMP "file "

// Capacity in bytes that suffices for xpwc_file_stamp.
#define XPWC_FILE_STAMP_SIZE 128

// Writes to stamp, a buffer of capacity bytes, a text that changes when the open file's content does: device, inode,
// size, mtime and ctime. A tensor's stamp is this text followed by the tensor's position. The host keeps the
// descriptor. Returns XPWC_STATUS_INVALID_ARGUMENT if capacity is too small or the file is not a regular one. If the
// text would not be reliable it is empty, with XPWC_STATUS_OK, and xpwc_tensor.stamp must be empty too: on file systems
// that do not set ctime themselves (squashfs, EROFS, ISO 9660, FAT, FUSE, network and unknown file systems; on
// overlayfs if mtime equals ctime), if ctime is the time at which an image was made, and within 50 milliseconds of a
// change, since another change could get the same time. On Linux it is also empty while a process, the host included,
// has the file open for writing, and for a writable file of another user (without CAP_LEASE) until a day after its last
// change, or 15 minutes on ext4 (docs/operations.md). The call flushes (fsync) files that changed within a day.
// Statuses: OK, INVALID_ARGUMENT, OUT_OF_MEMORY, SYSTEM_ERROR.
xpwc_status xpwc_file_stamp(int file_descriptor, char* stamp, size_t capacity);

// The state of a file, for xpwc_file_changed. The host must not read or change it.
typedef struct xpwc_file_state {
  uint64_t opaque[8];
} xpwc_file_state;

// Fills in *state for an open file. Call it before the file is read or mapped. The host keeps the descriptor. Returns
// XPWC_STATUS_INVALID_ARGUMENT if the file is not a regular one. On Linux the descriptor must be open for reading: file
// times change only at the start of a long write, so this function and xpwc_file_changed read the whole file if a
// process has it open for writing, if it changed within 50 milliseconds, and, if the system does not show its writers
// (another user's file, network file systems), as long as it has no stamp: see xpwc_file_stamp.
// Statuses: OK, INVALID_ARGUMENT, OUT_OF_MEMORY, SYSTEM_ERROR.
xpwc_status xpwc_file_look(int file_descriptor, struct xpwc_file_state* state);

// Sets *changed to 1 if the content of the open file may have changed since state before was filled in, otherwise to 0,
// for xpwc_data_map.changed. The host keeps the descriptor open until then. Works on any file system. Changes of owner,
// mode or name also count; replacing or removing the file does not. If the file was written just before that state, the
// call waits until a further change would be visible: some tens of milliseconds, or 2 seconds if the file system's
// times are whole seconds.
// Statuses: OK, INVALID_ARGUMENT, OUT_OF_MEMORY, SYSTEM_ERROR.
xpwc_status xpwc_file_changed(int file_descriptor, const struct xpwc_file_state* before, int* changed);

#ifdef __cplusplus
}
#endif

#endif
