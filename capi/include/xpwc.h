// xpwc: a cache for XNNPACK's packed weights. C API, C99.
//
// XNNPACK packs every weight matrix when a runtime is created. With a session's provider given to xnn_create_runtime_v4 it
// packs into a memory-mapped file instead, and the next process that opens the file packs nothing.
//
//   xpwc_cache cache;
//   xpwc_open("model.xpwc", NULL, &cache);
//
//   xpwc_session session;                                       // one for each runtime
//   xpwc_session_begin(cache, &data_map, &session);
//   options.packing = &packing;                                 // operator, shape, types: whatever decides how it is packed
//   xpwc_session_load(session, "layers.0.weight", &options, &weights, &size);   // weights go to xnn_define_tensor_value
//   xpwc_session_provider(session, &provider);
//   xnn_create_runtime_v4(subgraph, provider, workspace, threadpool, flags, &runtime);
//   xpwc_session_finalize(session, &names, &count);             // sources are freed, the disk is written in the background
//   ... xnn_setup_runtime_v2, xnn_invoke_runtime, as often as needed ...
//   xnn_delete_runtime(runtime);
//   xpwc_session_end(session);
//
//   xpwc_close(cache);                                          // waits for the disk
//
// Errors. Every function returns a status, and xpwc_last_error says more. No function aborts, throws or exits. A pointer
// that must not be NULL but is, is XPWC_INVALID_ARGUMENT. When a function fails, what it returns through pointers is zero.
// A cache never makes a model fail that would run without it: if the file cannot be written or is damaged, the disk is
// full, or another process is packing for too long, weights are packed into private memory, and xpwc_cache_stats and the
// log tell.
//
// Handles. A handle is a number, not an address. One that was closed, or never was, is XPWC_INVALID_HANDLE in every call,
// closing included; its number does not come again. A handle of zeroes is never valid.
//
// Threads. All functions may be called from any thread, also at the same time with the same handle; so may XNNPACK call a
// provider. Executing runtimes never wait for the cache. The host's callbacks are called on the thread that made the call,
// or that creates the runtime, unless said otherwise. They must return (no exceptions, no longjmp), and not open caches nor
// call this library with the same cache or its sessions, nor wait for a thread that does: locks may be held. On their own
// thread such calls are XPWC_INVALID_ARGUMENT.
//
// Structs begin with their size, so that they can grow. A host's shorter struct is one whose other members are zero; in a
// longer one the members that the library does not know must be zero, or it is XPWC_INVALID_ARGUMENT, as are sizes of 0 and
// above 4,096.
//
// Strings are UTF-8 or any other bytes, and end with a NUL. Those given to a function are copied before it returns.
//
// Linking. The library has no XNNPACK of its own: it was compiled against the header of the host's and calls the host's. The first
// xpwc_open initialises XNNPACK on a thread of the library's; a host that gives xnn_initialize an allocator does so before.
//
// Processes and signals. The library is written in Go: its runtime starts threads of its own when the library is loaded,
// and works on this library's behalf only when it is called; commits, and XPWC_VERIFY_BACKGROUND, go on after the call. It handles SIGSEGV, SIGBUS, SIGFPE and SIGPIPE until the host
// installs handlers of its own, and passes those on that are not its own to the handlers that were there before; a handler
// of SIGURG that was there before works from the first call on, and may be called for the library's own interrupts. The host
// must install its handlers with SA_ONSTACK and must not block these signals. Not supported: to unload the library (dlclose),
// to call it in a child of fork without exec (executing runtimes that exist is safe there), and a second library written in
// Go in the same process, unless both are linked into it statically as one archive.
#ifndef XPWC_H
#define XPWC_H

#include <stddef.h>
#include <stdint.h>

#include <xnnpack.h>

#ifdef __cplusplus
extern "C" {
#endif

// Version of this header and of the library it came with.
#define XPWC_VERSION "0.5.0"

// What a call came to. Statuses are never renumbered; later versions may add some.
typedef enum xpwc_status {
  XPWC_OK = 0,
  // A pointer is NULL, a struct_size makes no sense, a value is not among those the function knows, or a callback of the
  // cache's made the call.
  XPWC_INVALID_ARGUMENT = 1,
  // The cache or session was closed before, or never was.
  XPWC_INVALID_HANDLE = 2,
  // The data map has no tensor of that name.
  XPWC_UNKNOWN_TENSOR = 3,
  // The session was begun without a data map.
  XPWC_NO_DATA_MAP = 4,
  // XNNPACK packed a computed tensor before its content was there: load it with XPWC_LOAD_EAGER. The runtime must not be used.
  XPWC_NOT_EAGER = 5,
  // The call belongs before xpwc_session_finalize.
  XPWC_FINALIZED = 6,
  // The cache still has sessions, whose runtimes use its memory. It stays open.
  XPWC_IN_USE = 7,
  // The file is not one that xpwc or ExecuTorch wrote. It is never touched.
  XPWC_NOT_CACHE = 8,
  // Another user could change the file, or it is not a regular file. Correct its owner and mode, or XPWC_ALLOW_UNSAFE_FILE.
  XPWC_UNSAFE_FILE = 9,
  // The file is a cache, but damaged. Without XPWC_STRICT it is set aside and packed afresh instead.
  XPWC_CORRUPT = 10,
  // With XPWC_STRICT: ExecuTorch wrote the file, so nothing tells which CPU it was packed for.
  XPWC_FOREIGN = 11,
  // With XPWC_STRICT: the file was written in a format of another version of xpwc. Otherwise a newer one is left alone, and an older
  // one replaced when something is packed.
  XPWC_VERSION_MISMATCH = 12,
  // The path is open in this process with other options.
  XPWC_OTHER_OPTIONS = 13,
  // Another process is writing to the file; try again later.
  XPWC_BUSY = 14,
  // The file was removed or replaced while it was being written.
  XPWC_REPLACED = 15,
  // The file cannot be written to, or XPWC_READ_ONLY was set.
  XPWC_READ_ONLY_CACHE = 16,
  // There is no memory.
  XPWC_OUT_OF_MEMORY = 17,
  // The system reported an error; xpwc_last_error has its words.
  XPWC_SYSTEM_ERROR = 18,
  // A callback of the host failed with a status that is none of these.
  XPWC_CALLBACK_FAILED = 19,
  // xnn_initialize failed, or a defect of this library was contained.
  XPWC_INTERNAL = 20,
  // The file that tensors come from, say, was changed in place while they were packed. Nothing of it is kept, and the runtime must
  // not be used: load the model again.
  XPWC_SOURCE_CHANGED = 21,
  // The disk lost packed weights before they were committed, and a runtime uses them. It must not be used: delete it, and create it
  // again.
  XPWC_LOST = 22
} xpwc_status;

// Returns the status' name, for instance "XPWC_IN_USE"; never NULL. Static storage.
const char* xpwc_status_string(xpwc_status status);

// Returns what the last failing call on this thread had to say: a sentence with the path or name concerned, and what to
// do. Never NULL; empty before the first failure. The thread owns it: valid until the next call into this library on it.
const char* xpwc_last_error(void);

// Returns the XPWC_VERSION that the library was built with. Static storage.
const char* xpwc_version(void);

// A cache: the packed weights behind one path. Zero-initialise it; XPWC_OK makes it valid.
typedef struct xpwc_cache {
  uint64_t id;
} xpwc_cache;

// A session: what spans one xnn_runtime_t. Zero-initialise it; XPWC_OK makes it valid.
typedef struct xpwc_session {
  uint64_t id;
} xpwc_session;

// Levels of the log.
typedef enum xpwc_log_level {
  XPWC_LOG_DEBUG = 0,
  // What was done: opened, packed, committed.
  XPWC_LOG_INFO = 1,
  // Something was bridged: weights are in private memory, a damaged file was set aside.
  XPWC_LOG_WARNING = 2,
  // A call failed. xpwc_last_error has the same text.
  XPWC_LOG_ERROR = 3
} xpwc_log_level;

// What is told of each entry that was packed while a runtime is created.
typedef struct xpwc_progress {
  // sizeof(struct xpwc_progress) in the library; members behind it are not there.
  size_t struct_size;
  // The entry's name: the weights' directly followed by the bias'; empty for unnamed weights. Valid during the call.
  const char* name;
  // Bytes packed for this entry.
  uint64_t bytes;
  // Bytes of unpacked tensors of the session: those that were packed or found in the cache so far, and all that were loaded.
  uint64_t done;
  uint64_t total;
} xpwc_progress;

// How far what is in the file is checked. Opening always checks all of its structure.
typedef enum xpwc_verify {
  // The checksums of the packed weights that a session uses are checked once, some time after xpwc_session_finalize, by a thread of
  // the lowest priority that the system has. Runtimes have used damaged ones by then: xpwc_stats and the log tell, the next session
  // packs them afresh, and the file is rid of them.
  XPWC_VERIFY_BACKGROUND = 0,
  // Packed weights' checksums are checked when they are found first. Damaged ones are packed afresh.
  XPWC_VERIFY_ON_USE = 1,
  // Everything is packed once more and compared.
  XPWC_VERIFY_REPACK = 2,
  // Packed weights are not read.
  XPWC_VERIFY_STRUCTURE = 3
} xpwc_verify;

// Flags of xpwc_options.
enum {
  // Use what is in the file, never write to it.
  XPWC_READ_ONLY = 1 << 0,
  // A damaged file, or one of ExecuTorch's, is an error instead of being replaced.
  XPWC_STRICT = 1 << 1,
  // Open the file even if it is a symbolic link, belongs to another user, or others may write to it.
  XPWC_ALLOW_UNSAFE_FILE = 1 << 2,
  // Read the whole file into memory when it is opened.
  XPWC_PREFETCH = 1 << 3
};

// Options of xpwc_open. Zero-initialise it and set struct_size to sizeof(struct xpwc_options); zeroes mean the defaults.
typedef struct xpwc_options {
  size_t struct_size;
  // XPWC_READ_ONLY and its like. An unknown flag is XPWC_INVALID_ARGUMENT.
  uint32_t flags;
  xpwc_verify verify;
  // Milliseconds that a session which must pack waits for another process that is packing into the file, before it packs
  // into private memory. 0 means 10,000; a negative value does not wait.
  int64_t writer_wait_ms;
  // Bytes that the file is kept to, by dropping the entries used longest ago. 0 for no limit.
  uint64_t max_bytes;
  // Messages below it are not logged.
  xpwc_log_level log_level;
  // Called with each message, on any thread, maybe on several at once. message is valid during the call. May be NULL. Like
  // progress it must stay callable until xpwc_close of this handle has returned.
  void (*log)(void* context, xpwc_log_level level, const char* message);
  // Called after each packed entry, on the thread that creates the runtime. Where one path is opened several times, the
  // first opening's is called. May be NULL.
  void (*progress)(void* context, const struct xpwc_progress* progress);
  // Given to log and progress.
  void* context;
} xpwc_options;

// Opens the cache file at path, which need not exist: it is created, for its owner only, when the first weights are packed.
// Its directory must exist. An empty path is a cache in memory. Opening a path again in this process gives another handle
// for the same cache, with the same options or XPWC_OTHER_OPTIONS. options may be NULL. *cache is to be closed.
// The first one also takes two file descriptors, or three, for the Go runtime's own use, and keeps them; if there are not so
// many left it is XPWC_SYSTEM_ERROR, and can be tried again.
// Errors also: XPWC_NOT_CACHE, XPWC_UNSAFE_FILE, XPWC_SYSTEM_ERROR; XPWC_CORRUPT, XPWC_FOREIGN and XPWC_VERSION_MISMATCH
// with XPWC_STRICT.
xpwc_status xpwc_open(const char* path, const struct xpwc_options* options, xpwc_cache* cache);

// Waits until everything that finalized sessions packed is on stable storage, and gives up the handle. XPWC_IN_USE, and the
// handle stays valid, while sessions that were begun with it are open. With any other error the handle is closed.
xpwc_status xpwc_close(xpwc_cache cache);

// Waits until everything that finalized sessions packed is on stable storage. An error says what kept it from getting there.
// What was packed then stays usable in this process, in private memory, but for what xpwc_session_check reports; the next call tries
// again, and so does the library by itself, from time to time. XPWC_BUSY if another process is writing.
xpwc_status xpwc_cache_save(xpwc_cache cache);

// Writes the file anew without dead bytes and puts it in the old one's place. Runtimes go on using the old one's memory.
// Waits until no session of this process is packing: not to be called between a runtime's creation and
// xpwc_session_finalize on one thread. XPWC_BUSY if another process is packing into the file for longer than
// writer_wait_ms.
xpwc_status xpwc_cache_compact(xpwc_cache cache);

// Gives back the memory of packed weights that no session uses. A cache in memory forgets them; one with a file keeps
// them there and maps them again when they are looked up.
xpwc_status xpwc_cache_trim(xpwc_cache cache);

// Lists the sorted names of the packed weights that this machine can use, of the file and of sessions: each the weights'
// name directly followed by the bias'. *names has *count strings; it is to be freed with xpwc_names_free.
xpwc_status xpwc_cache_names(xpwc_cache cache, const char* const** names, size_t* count);

// Frees what xpwc_cache_names gave. NULL is harmless.
void xpwc_names_free(const char* const* names);

// A number of entries and their bytes.
typedef struct xpwc_count {
  uint64_t entries;
  uint64_t bytes;
} xpwc_count;

// What a cache has done since it was opened in this process, and what its file is like.
typedef struct xpwc_stats {
  // To be set to sizeof(struct xpwc_stats) by the host. The members it covers are filled in; those that the library does not
  // know are left as they are.
  size_t struct_size;
  // Look-ups answered from the cache, with the bytes they served; and the others.
  xpwc_count hits;
  uint64_t misses;
  // Entries packed and put into the cache.
  xpwc_count packed;
  // Packings that turned out equal to an entry the cache had: some operators are packed without a look-up.
  xpwc_count reused;
  // Of those packed, the ones that ExecuTorch's file at the path had in the same bytes.
  xpwc_count adopted;
  // Packed weights that verifying found right, and the number found wrong.
  xpwc_count verified;
  uint64_t damaged_payloads;
  // Packings in private memory: because the weights have no name, the file cannot be written, another process was packing
  // into it for too long, or file space could not be had.
  xpwc_count private_unnamed;
  xpwc_count private_read_only;
  xpwc_count private_busy;
  xpwc_count private_disk;
  // What packing took, from reserving space to handing it in.
  uint64_t packing_nanoseconds;
  // What open sessions use now, of the file and of private memory.
  uint64_t mapped_bytes;
  uint64_t private_bytes;
  // Number of the commit in force, 0 while there is none, and the file of that commit.
  uint64_t generation;
  uint64_t entries;
  uint64_t file_bytes;
  uint64_t payload_bytes;
  uint64_t dead_bytes;
  // Written to the file by this process.
  uint64_t written_bytes;
  uint64_t compactions;
  // 1 if a damaged file was set aside.
  uint64_t damaged;
  // Packings in private memory because the file is of a newer version of the format, and left to programs that know it.
  xpwc_count private_version;
  // Payloads that the disk lost before they were committed, while a session used them: see xpwc_session_check.
  uint64_t lost_payloads;
  // What waits in private memory for a commit, because the last one failed.
  xpwc_count pending;
  // What xpwc_data_map.changed said had changed while a session packed from it, once for each source and session.
  uint64_t sources_changed;
  // Of what open sessions use, what XPWC_VERIFY_BACKGROUND has yet to check.
  xpwc_count unverified;
} xpwc_stats;

// Fills in *stats, whose struct_size must be set.
xpwc_status xpwc_cache_stats(xpwc_cache cache, struct xpwc_stats* stats);

// An unpacked tensor, as the host's data map gives it.
typedef struct xpwc_tensor {
  // sizeof(struct xpwc_tensor). Set by the library before it calls xpwc_data_map.get, and by the host in a table.
  size_t struct_size;
  // In a table, the tensor's name. Otherwise not looked at.
  const char* name;
  // The content, which must stay readable and unchanged until release is called, or, without it, until xpwc_session_end. Must
  // be NULL if fill is set, and not if it is not and there are bytes.
  const void* data;
  // Bytes of the content.
  size_t size;
  // For content that must be computed (widened, decompressed): writes all size bytes of dst, memory that the session owns.
  // Called at most once, and not at all when everything packed from the tensor is found in the cache. Any status but
  // XPWC_OK is handed to the caller of xpwc_session_load or xpwc_session_finalize. May be NULL.
  xpwc_status (*fill)(void* context, void* dst, size_t size);
  // Called when the content was read, for packing or for its digest, and will hardly be read again: a mapping gives its
  // pages back here, so that only one tensor's at a time are in memory. The content must stay readable. Called from any thread,
  // again if it is read again, not for tensors with fill or loaded with XPWC_LOAD_RETAIN, and never after release. May be NULL.
  void (*evict)(void* context, const void* data, size_t size);
  // Called once, when the session needs data and context no more: by xpwc_session_finalize if packing consumed the tensor, by
  // xpwc_session_end otherwise. It is called for every tensor that get gave with XPWC_OK, also if that made no sense, and for
  // every tensor of a table that was loaded. May be NULL.
  void (*release)(void* context, const void* data, size_t size);
  // Given to fill, evict and release.
  void* context;
  // Identity of the content: packed weights are reused only for the content they were packed from.
  // Names where the tensor comes from, for instance the model's absolute path. NULL for nothing.
  const char* source;
  // Changes whenever the content does and costs nothing to obtain: a content hash that the model's file has, or
  // xpwc_file_stamp, unless that is empty, with the tensor's position in the file. NULL or empty if there is none, or it is not
  // certain: then digests are compared.
  const char* stamp;
  // xpwc_digest of the content, or of what determines it (the compressed bytes), for when there is no stamp, or it changed. If
  // NULL it is computed from the content, which then must be read.
  const uint8_t* digest;
} xpwc_tensor;

// The host's unpacked tensors by name. Zero-initialise it and set struct_size to sizeof(struct xpwc_data_map). A session asks
// at most once for a name.
typedef struct xpwc_data_map {
  size_t struct_size;
  // Fills in *tensor, which is zero but for struct_size. XPWC_UNKNOWN_TENSOR if there is none of that name; any other status
  // but XPWC_OK is handed to the caller of xpwc_session_load. Must stay callable until xpwc_session_finalize. If it is NULL,
  // the table is used.
  xpwc_status (*get)(void* context, const char* name, struct xpwc_tensor* tensor);
  // Given to get.
  void* context;
  // A table of tensors instead, whose distance is tensors[0].struct_size: all have the same, and names of their own. It is
  // copied with its strings and digests; what data points to is not.
  const struct xpwc_tensor* tensors;
  size_t tensor_count;
  // Sets *changed to 1 if the content of tensors with that source (xpwc_tensor.source, "" for NULL) may have changed in place since the
  // host read or mapped it, else to 0: see xpwc_file_changed. Once it has said 0, every later change must show. Any status but XPWC_OK is
  // taken for a change. Called for each source when its first tensor is loaded, and again by xpwc_session_finalize (or
  // xpwc_session_end without it) of this session, or of one that uses what this one packs, if something was packed. May be NULL: then
  // what is packed from a file while somebody overwrites it can be kept as what it is not.
  xpwc_status (*changed)(void* context, const char* source, int* changed);
} xpwc_data_map;

// Begins a session. data may be NULL if nothing is loaded: then all weights are unnamed and packed into private memory.
// What other processes committed to the file by now is picked up. *session is to be ended.
xpwc_status xpwc_session_begin(xpwc_cache cache, const struct xpwc_data_map* data, xpwc_session* session);

// Flags of xpwc_load_options.
enum {
  // The content is in memory when xpwc_session_load returns. Needed for computed tensors that XNNPACK reads without a look-up
  // that names them: weights of depthwise convolution, deconvolution and NCHW convolution, the bias of operators with
  // dynamically quantised input, weights that XNNPACK of 2026 converts first (f16 and bf16 where the CPU has no arithmetic for
  // them), and what is read at inference.
  XPWC_LOAD_EAGER = 1 << 0,
  // Nothing but packing reads the content, so that it can go with xpwc_session_finalize even if XNNPACK packed it without the
  // cache's knowledge.
  XPWC_LOAD_PACK_ONLY = 1 << 1,
  // The content is kept until xpwc_session_end, for tensors that are also read at inference (PReLU slopes, constants of
  // elementwise operators).
  XPWC_LOAD_RETAIN = 1 << 2
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

// A tensor of a node: its type, and what its integers mean. Which members count depends on the type; the others are ignored.
// Pointers are aligned as their types are; they may be NULL where the count is 0, and no count exceeds the kernel's elements.
typedef struct xpwc_operand {
  // XNNPACK's number of the type (enum xnn_datatype). 0, xnn_datatype_invalid, says that there is no such tensor.
  uint32_t datatype;
  // The stored value of real zero.
  int32_t zero_point;
  // The one scale of qint8, quint8 and qint32.
  float scale;
  // The dimension that scales and block_scales run along: 0 for [output channels, ...].
  uint32_t channel_dim;
  // Of types that are quantised for each channel: a scale for each index of channel_dim, and for the second factor of a batch
  // matrix multiplication as many again for each matrix of its batch.
  const float* scales;
  size_t scale_count;
  // Of types that are quantised in blocks: the scales as the bits of bfloat16 numbers, those of the first channel first.
  const uint16_t* block_scales;
  size_t block_scale_count;
  // How many elements of a channel share one of block_scales.
  uint32_t block_size;
  // Of types that are quantised at inference: how many trailing dimensions share a scale.
  uint32_t non_batch_dims;
} xpwc_operand;

// How XNNPACK is going to pack a kernel: everything that decides the packed bytes, besides the contents of the kernel and of
// a bias that XNNPACK names in its key. Zero-initialise it and set struct_size to sizeof(struct xpwc_packing). It and what it
// points to are read during the call that it is given to, and not afterwards.
typedef struct xpwc_packing {
  size_t struct_size;
  // XPWC_OPERATOR_FULLY_CONNECTED and its like; 0 with opaque.
  uint32_t operator_type;
  // XPWC_PACKING_TRANSPOSED and its like. An unknown flag is XPWC_INVALID_ARGUMENT.
  uint32_t flags;
  // The number of groups of a convolution or deconvolution, the depth multiplier of a depthwise convolution. 0 stands for 1.
  uint32_t groups;
  // Of the operators on images. 0 stands for 1.
  uint32_t stride_height;
  uint32_t stride_width;
  uint32_t dilation_height;
  uint32_t dilation_width;
  // The kernel's shape, as XNNPACK is given it: 1 to XNN_MAX_TENSOR_DIMS dimensions, outermost first.
  uint32_t dim_count;
  const size_t* dims;
  // The node's tensors, with the types they have in the subgraph. bias is zero if there is none.
  struct xpwc_operand input;
  struct xpwc_operand kernel;
  struct xpwc_operand bias;
  struct xpwc_operand output;
  // The content of a bias that XNNPACK packs in without naming it: it must be given if there is a bias and input is quantised
  // at inference (qdint8 and its like). Otherwise it may be NULL.
  const void* hidden_bias;
  size_t hidden_bias_size;
  // For a host that does not see a node's parameters: in place of all the other members, which must be zero, bytes in any form
  // that differ when what it does see differs. Several that are given for one tensor are parts of one. NULL otherwise.
  const void* opaque;
  size_t opaque_size;
} xpwc_packing;

// How a tensor is loaded. Zero-initialise it and set struct_size to sizeof(struct xpwc_load_options).
typedef struct xpwc_load_options {
  size_t struct_size;
  // XPWC_LOAD_EAGER and its like. An unknown flag is XPWC_INVALID_ARGUMENT.
  uint32_t flags;
  // How XNNPACK is going to pack the tensor, to be given for every kernel, of floats too, and for each use of it: load it once
  // more for another one. XNNPACK's key has next to nothing of it. A host that tells nothing risks that two uses of one name
  // and content in different shapes, groups or quantisations get each other's packed weights: wrong answers, and reads out of
  // bounds. NULL to tell nothing, and for what is not a kernel. If it makes no sense it is XPWC_INVALID_ARGUMENT, and
  // xpwc_last_error names the member.
  const struct xpwc_packing* packing;
} xpwc_load_options;

// Returns the tensor of that name: the address to give to XNNPACK, and its size in bytes. The content of a computed tensor is
// there once XNNPACK is about to pack it. The session owns it: until xpwc_session_finalize if packing consumed it, else until
// xpwc_session_end. Loading a name again gives the same address and adds to its options. options may be NULL; so may size.
// Errors also: XPWC_UNKNOWN_TENSOR, XPWC_NO_DATA_MAP, XPWC_FINALIZED, and what the data map's callbacks return.
xpwc_status xpwc_session_load(
    xpwc_session session, const char* name, const struct xpwc_load_options* options, const void** data, size_t* size);

// Says that the host has copied or converted a loaded tensor, and gives XNNPACK the copy's address in its place: what is packed
// from alias goes by a name that begins with original's. alias, of size bytes, must stay readable and unchanged until
// xpwc_session_finalize. conversion is a word for what was done, for instance "f32 to f16": it is all that tells this copy from others of
// the tensor, so hosts that share a cache must use one word for one conversion alone. If it is NULL or empty, all bytes of alias are digested
// instead, each time. XNNPACK of March 2026 and later tells its own copies itself. XPWC_UNKNOWN_TENSOR if original is no address that
// xpwc_session_load gave, XPWC_NOT_EAGER if its content is yet to be computed.
xpwc_status xpwc_session_alias(
    xpwc_session session, const void* alias, size_t size, const void* original, const char* conversion);

// Returns what to give to xnn_create_runtime_v4 (as xnn_weights_cache_t). The session owns it: valid until xpwc_session_end,
// which must come after xnn_delete_runtime. It serves one runtime.
xpwc_status xpwc_session_provider(xpwc_session session, struct xnn_weights_cache_provider** provider);

// Ends the creation of the runtime: to be called when xnn_create_runtime_v4 has returned, before the runtime is set up. Frees
// the unpacked tensors that packing consumed and has what was packed written in a moment, without waiting for the disk.
// *names is an array of *count sorted names of the packed weights that the runtime uses, owned by the session until its end;
// either may be NULL. The error is the first that a callback of XNNPACK's met. With XPWC_NOT_EAGER, XPWC_SOURCE_CHANGED or XPWC_LOST, or
// if a fill failed, the runtime must not be used; otherwise it is right all the same, if it could be created. The session is finalized
// in any case.
xpwc_status xpwc_session_finalize(xpwc_session session, const char* const** names, size_t* count);

// Returns XPWC_LOST once the disk has lost packed weights that the session's runtime uses, else XPWC_OK: a flush that fails may lose what
// was written before it, and not all of it can be had back. It costs little to ask before or after each inference; the log has it too,
// when it happens.
xpwc_status xpwc_session_check(xpwc_session session);

// Ends the session, also if it returns an error; the runtime must have been deleted.
xpwc_status xpwc_session_end(xpwc_session session);

// Computes the 128-bit digest of size bytes, for xpwc_tensor.digest and xpwc_packing.opaque. data may be NULL if size
// is 0. It guards against accidents, not against an adversary.
xpwc_status xpwc_digest(const void* data, size_t size, uint8_t digest[16]);

// Size that suffices for xpwc_file_stamp.
#define XPWC_FILE_STAMP_SIZE 128

// Writes to stamp, of capacity bytes, a text that changes when the open file's content does: device, inode, size and times of
// modification and change. A stamp of a tensor in the file is this with the tensor's position appended. The descriptor stays
// the host's. XPWC_INVALID_ARGUMENT if capacity is too small, or the file is not a regular one.
// It is XPWC_OK and an empty text where these do not tell, and then xpwc_tensor.stamp must stay empty too, without a position: on a file
// system that does not make its change times itself (squashfs, EROFS, ISO 9660, FAT, FUSE, network file systems, and what is not known to; on
// overlayfs a file whose two times are one), for a file whose time of change is that of an image's making, and for one that was
// changed within the last 50 milliseconds, which could be changed again at the same time.
xpwc_status xpwc_file_stamp(int file_descriptor, char* stamp, size_t capacity);

// The state of a file, for xpwc_file_changed. What is in it is the library's.
typedef struct xpwc_file_state {
  uint64_t opaque[8];
} xpwc_file_state;

// Fills in *state for an open file. To be called before the file is read or mapped. The descriptor stays the host's.
// XPWC_INVALID_ARGUMENT if the file is not a regular one.
xpwc_status xpwc_file_look(int file_descriptor, struct xpwc_file_state* state);

// Sets *changed to 1 if the content of the open file may have changed since before, else to 0: what xpwc_data_map.changed is to say. So
// the host keeps the descriptor. Any file system will do. It is 1 for a change of owner, mode or name too, but not where another file was
// put in this one's place, or it was removed. For a file that was written to right before that state it waits until another
// change would show: some tens of milliseconds, or 2 seconds where the file system keeps whole seconds.
xpwc_status xpwc_file_changed(int file_descriptor, const struct xpwc_file_state* before, int* changed);

#ifdef __cplusplus
}
#endif

#endif
