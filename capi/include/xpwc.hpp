// xpwc: a cache for XNNPACK's packed weights. Header-only C++17 wrapper of xpwc.h, whose rules on threads, callbacks
// and lifetimes apply.
//
//   auto cache = xpwc::Cache::open("model.xpwc");
//   if (!cache) return fail(cache.status().message());
//
//   auto session = cache->begin(&data_map); // one for each runtime xpwc::LoadOptions options; options.packing =
//   packing; // operator, shape, types: all that decides the packed bytes auto weights =
//   session->load("layers.0.weight", options); // weights->data goes to xnn_define_tensor_value
//   xnn_create_runtime_v4(subgraph, session->provider(), workspace, threadpool, flags, &runtime); xpwc::Status status =
//   session->finalize(); // frees the sources; the disk is written afterwards ... xnn_setup_runtime_v2,
//   xnn_invoke_runtime, as often as needed ... xnn_delete_runtime(runtime); // the session must outlive the runtime
//
// No function throws, and the header compiles with -fno-exceptions -fno-rtti. Callbacks and data maps must not throw: C
// and Go call them, so an exception ends the program. Methods of a moved-from or ended Cache or Session return
// XPWC_STATUS_INVALID_HANDLE.
#ifndef XPWC_HPP
#define XPWC_HPP

#if __cplusplus < 201703L && (!defined(_MSVC_LANG) || _MSVC_LANG < 201703L)
#error "xpwc.hpp needs C++17: compile with -std=c++17 or later (CMake: set(CMAKE_CXX_STANDARD 17)), or use xpwc.h."
#include "./xpwc_needs_c++17"  // ends the compilation
#endif

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "xpwc.h"
#include "xpwc_packing.hpp"

namespace xpwc {

// The result of a call: a status of xpwc.h and an error message.
class [[nodiscard]] Status {
 public:
  Status() = default;
  explicit Status(xpwc_status code, std::string message = {}) : code_(code), message_(std::move(message)) {}

  bool ok() const { return code_ == XPWC_STATUS_OK; }
  xpwc_status code() const { return code_; }
  // The code's name, for instance "XPWC_STATUS_IN_USE".
  const char* name() const { return xpwc_status_string(code_); }
  // The text of xpwc_last_error, with the message of the host's callback if one failed.
  const std::string& message() const { return message_; }

 private:
  xpwc_status code_ = XPWC_STATUS_OK;
  std::string message_;
};

// A T or an error. Check ok() before dereferencing it.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}
  // status must not be ok.
  Result(Status status) : status_(std::move(status)) {}

  bool ok() const { return value_.has_value(); }
  explicit operator bool() const { return ok(); }
  const Status& status() const { return status_; }

  T& operator*() & { return *value_; }
  const T& operator*() const& { return *value_; }
  T&& operator*() && { return *std::move(value_); }
  T* operator->() { return &*value_; }
  const T* operator->() const { return &*value_; }

 private:
  std::optional<T> value_;
  Status status_;
};

// The 128-bit digest of a content.
using Digest = std::array<std::uint8_t, 16>;

// xpwc_stats and xpwc_progress, as the library filled them in.
using Stats = xpwc_stats;
using Progress = xpwc_progress;

// How packed weights are checked: see XPWC_VERIFY_BACKGROUND.
enum class Verify : std::uint32_t {
  background = XPWC_VERIFY_BACKGROUND,
  on_use = XPWC_VERIFY_ON_USE,
  structure = XPWC_VERIFY_STRUCTURE,
};

// Levels of the log: see XPWC_LOG_DEBUG.
enum class LogLevel : std::uint32_t {
  debug = XPWC_LOG_DEBUG,
  info = XPWC_LOG_INFO,
  warning = XPWC_LOG_WARNING,
  error = XPWC_LOG_ERROR,
};

// Options of Cache::open: see xpwc_options.
struct Options {
  bool read_only = false;
  bool strict = false;
  bool allow_unsafe_file = false;
  bool prefetch = false;
  // If the file cannot be used, open a cache in memory instead; Cache::unusable returns the reason.
  bool or_memory = false;
  Verify verify = Verify::background;
  // Time that a session waits for another process that packs. 0 means 10 s; a negative value means no wait.
  std::chrono::milliseconds writer_wait{0};
  std::uint64_t max_bytes = 0;
  LogLevel log_level = LogLevel::info;
  // Called on any thread, possibly on several at the same time, also in the background: see xpwc_options.log.
  std::function<void(LogLevel, std::string_view message)> log;
  // Called after each packed entry, on the thread that creates the runtime.
  std::function<void(const Progress&)> progress;
};

// An unpacked tensor, as a data map returns it: xpwc_tensor.
struct Tensor {
  // The content, which must stay readable and unchanged until release is called. nullptr if fill is set.
  const void* data = nullptr;
  std::size_t size = 0;
  // Computes the content: writes all size bytes of dst. Called at most once, and only if the tensor is packed.
  std::function<Status(void* dst, std::size_t size)> fill;
  // Called on any thread when the content was read and probably will not be read again; it must stay readable.
  std::function<void(const void* data, std::size_t size)> evict;
  // Called once, when the session no longer needs data.
  std::function<void(const void* data, std::size_t size)> release;
  // The tensor's origin, a text that changes whenever the content does, and the content's digest; each may be empty.
  // See xpwc_tensor.
  std::string source;
  std::string stamp;
  std::optional<Digest> digest;
};

// The host's unpacked tensors by name. It must outlive Session::finalize, or the session if it is not finalized, as
// when an exception ends the load: declare it before the session. It must be thread-safe if several sessions use it.
class DataMap {
 public:
  virtual ~DataMap() = default;
  // Fills in tensor. Returns XPWC_STATUS_UNKNOWN_TENSOR if there is no tensor with that name; Session::load returns any
  // other failure. A session calls it at most once for each name.
  virtual Status tensor(std::string_view name, Tensor& tensor) = 0;
  // Sets changed to true if the content of tensors with that source may have changed in place since the host read or
  // mapped it: see xpwc_data_map.changed and FileWatch. A failure counts as a change.
  virtual Status source_changed(std::string_view source, bool& changed) {
    (void)source;
    changed = false;
    return Status();
  }
};

// A DataMap of a fixed set of tensors. Do not add tensors while sessions use it.
class TensorTable final : public DataMap {
 public:
  // Adds a tensor or replaces the one with that name. The content is not copied.
  void add(std::string name, Tensor tensor) { tensors_.insert_or_assign(std::move(name), std::move(tensor)); }
  void add(std::string name, const void* data, std::size_t size) {
    Tensor tensor;
    tensor.data = data;
    tensor.size = size;
    add(std::move(name), std::move(tensor));
  }

  Status tensor(std::string_view name, Tensor& tensor) override {
    const auto entry = tensors_.find(std::string(name));
    if (entry == tensors_.end()) {
      return Status(XPWC_STATUS_UNKNOWN_TENSOR);
    }
    tensor = entry->second;
    return Status();
  }

 private:
  std::unordered_map<std::string, Tensor> tensors_;
};

// How a tensor is loaded: xpwc_load_options.
struct LoadOptions {
  bool eager = false;
  bool pack_only = false;
  bool retain = false;
  // How XNNPACK will pack the tensor. Set it for every kernel, floats included, and load the kernel again for each
  // further use. Without it the kernel is packed and compared at each start. See xpwc_load_options.packing.
  std::optional<Packing> packing{};
  // Packs and compares the kernel at each start: see XPWC_LOAD_COMPARE.
  bool compare = false;
  // Lets look-ups hit for a kernel without packing, or with an opaque one: see XPWC_LOAD_BELIEVE.
  bool believe = false;
};

// Options for a kernel whose node the host describes in its own format, in bytes that differ whenever the node does:
// see xpwc_packing.opaque. description must stay readable until Session::load returns. The kernel is packed and
// compared at each start unless believe is set.
inline LoadOptions opaque(const void* description, std::size_t size) {
  LoadOptions options;
  options.packing.emplace().opaque = {description, size};
  return options;
}

// A loaded tensor: its address, and its size in bytes. The session owns it.
struct Loaded {
  const void* data = nullptr;
  std::size_t size = 0;
};

namespace detail {

inline Status check(xpwc_status code) { return code == XPWC_STATUS_OK ? Status() : Status(code, xpwc_last_error()); }

// Copies text for C, and refuses a NUL, which would truncate it.
inline Status c_string(std::string_view text, std::string& copy) {
  if (text.find('\0') != std::string_view::npos) {
    return Status(XPWC_STATUS_INVALID_ARGUMENT, "a path or name has a NUL in it");
  }
  copy.assign(text);
  return Status();
}

// Copies and frees names that a call returned.
inline Result<std::vector<std::string>> take_names(xpwc_status code, const char* const* c, std::size_t count) {
  if (code != XPWC_STATUS_OK) {
    return check(code);
  }
  std::vector<std::string> names(c, c + count);
  xpwc_names_free(c);
  return names;
}

// An open handle and its callbacks.
struct CacheState {
  ~CacheState() { xpwc_close(cache); }

  xpwc_cache cache{};
  Status unusable;
  std::function<void(LogLevel, std::string_view)> log;
  std::function<void(const Progress&)> progress;
};

// The context of a session's callbacks. It keeps their error messages, which a C status cannot carry.
struct SessionState {
  // Keeps the first failure of a callback, and returns its code.
  xpwc_status keep(Status status) {
    const std::lock_guard<std::mutex> lock(mutex);
    if (!status.ok() && failure.ok()) {
      failure = std::move(status);
      return failure.code();
    }
    return status.code();
  }

  DataMap* data = nullptr;
  std::mutex mutex;
  Status failure;
};

// Returns the status of a session's call, with the message of the callback that failed.
inline Status check(xpwc_status code, SessionState* state) {
  Status status = check(code);
  if (status.ok() || state == nullptr) {
    return status;
  }
  const std::lock_guard<std::mutex> lock(state->mutex);
  const Status cause = std::exchange(state->failure, Status());
  const bool caused = !cause.ok() && (cause.code() == code || code == XPWC_STATUS_CALLBACK_FAILED);
  return caused && !cause.message().empty() ? Status(code, status.message() + ": " + cause.message()) : status;
}

// A tensor on loan to a session.
struct Lent {
  Tensor tensor;
  SessionState* state;
};

inline void log(void* context, std::uint32_t level, const char* message) noexcept {
  static_cast<CacheState*>(context)->log(static_cast<LogLevel>(level), message);
}

inline void progress(void* context, const xpwc_progress* progress) noexcept {
  static_cast<CacheState*>(context)->progress(*progress);
}

inline xpwc_status fill(void* context, void* dst, std::size_t size) noexcept {
  auto* lent = static_cast<Lent*>(context);
  return lent->state->keep(lent->tensor.fill(dst, size));
}

inline void evict(void* context, const void* data, std::size_t size) noexcept {
  static_cast<Lent*>(context)->tensor.evict(data, size);
}

inline void release(void* context, const void* data, std::size_t size) noexcept {
  const std::unique_ptr<Lent> lent(static_cast<Lent*>(context));
  if (lent->tensor.release) {
    lent->tensor.release(data, size);
  }
}

inline xpwc_status changed(void* context, const char* source, int* out) noexcept {
  bool differs = false;
  const Status status = static_cast<SessionState*>(context)->data->source_changed(source, differs);
  *out = differs ? 1 : 0;
  return status.code();
}

inline xpwc_status get(void* context, const char* name, xpwc_tensor* out) noexcept {
  auto* state = static_cast<SessionState*>(context);
  auto lent = std::unique_ptr<Lent>(new (std::nothrow) Lent{{}, state});
  if (!lent) {
    return XPWC_STATUS_OUT_OF_MEMORY;
  }
  Tensor& tensor = lent->tensor;
  Status status = state->data->tensor(name, tensor);
  if (!status.ok()) {
    return state->keep(std::move(status));
  }
  out->data = tensor.data;
  out->size = tensor.size;
  out->fill = tensor.fill ? fill : nullptr;
  out->evict = tensor.evict ? evict : nullptr;
  out->release = release;
  out->source = tensor.source.c_str();
  out->stamp = tensor.stamp.c_str();
  out->digest = tensor.digest ? tensor.digest->data() : nullptr;
  out->context = lent.release();
  return XPWC_STATUS_OK;
}

}  // namespace detail

// A session, which serves one xnn_runtime_t. Cache::begin returns it. It must outlive the runtime, and keeps the cache
// open.
class Session {
 public:
  Session(Session&& other) noexcept
      : cache_(std::move(other.cache_)),
        state_(std::move(other.state_)),
        session_(std::exchange(other.session_, {})),
        provider_(std::exchange(other.provider_, nullptr)) {}
  Session& operator=(Session&& other) noexcept {
    if (this != &other) {
      if (state_) {
        (void)end();
      }
      cache_ = std::move(other.cache_);
      state_ = std::move(other.state_);
      session_ = std::exchange(other.session_, {});
      provider_ = std::exchange(other.provider_, nullptr);
    }
    return *this;
  }
  ~Session() {
    if (state_) {
      (void)end();
    }
  }

  // Returns the address of a tensor for xnn_define_tensor_value. See xpwc_session_load.
  Result<Loaded> load(std::string_view name, const LoadOptions& options = {}) {
    std::string copy;
    if (Status status = detail::c_string(name, copy); !status.ok()) {
      return status;
    }
    xpwc_load_options c{};
    c.struct_size = sizeof(c);
    c.flags = detail::flag(options.eager, XPWC_LOAD_EAGER) | detail::flag(options.pack_only, XPWC_LOAD_PACK_ONLY) |
        detail::flag(options.retain, XPWC_LOAD_RETAIN) | detail::flag(options.compare, XPWC_LOAD_COMPARE) |
        detail::flag(options.believe, XPWC_LOAD_BELIEVE);
    xpwc_packing packing{};
    if (options.packing) {
      packing = detail::c_packing(*options.packing);
      c.packing = &packing;
    }
    Loaded loaded;
    const xpwc_status code = xpwc_session_load(session_, copy.c_str(), &c, &loaded.data, &loaded.size);
    if (code != XPWC_STATUS_OK) {
      return detail::check(code, state_.get());
    }
    return loaded;
  }

  // Registers alias as the host's copy of a loaded tensor. conversion names the conversion; if it is empty, the digest
  // of alias is computed. See xpwc_session_alias.
  Status alias(Bytes alias, const void* original, std::string_view conversion) {
    std::string copy;
    if (Status status = detail::c_string(conversion, copy); !status.ok()) {
      return status;
    }
    return detail::check(xpwc_session_alias(session_, alias.data, alias.size, original, copy.c_str()));
  }

  // The weights cache for xnn_create_runtime_v4. The session owns it; nullptr after end().
  xnn_weights_cache_t provider() const { return provider_; }

  // Ends the creation of the runtime. Call it before the runtime is set up. After an error the runtime must not be
  // used. See xpwc_session_finalize.
  Status finalize() { return detail::check(xpwc_session_finalize(session_), state_.get()); }

  // The sorted names of the packed weights that the runtime uses so far.
  Result<std::vector<std::string>> names() const {
    const char* const* c = nullptr;
    std::size_t count = 0;
    const xpwc_status status = xpwc_session_names(session_, &c, &count);
    return detail::take_names(status, c, count);
  }

  // Returns XPWC_STATUS_LOST or XPWC_STATUS_SOURCE_CHANGED if packed weights of the runtime may be wrong. Call it after
  // each inference, before the outputs are used; after an error neither they nor the runtime may be used. See
  // xpwc_session_check.
  Status check() const { return detail::check(xpwc_session_check(session_)); }

  // Returns why the creation of the runtime took longer than mapping. See xpwc_session_explain.
  Result<std::string> explain() const {
    std::string text(XPWC_EXPLANATION_SIZE, '\0');
    if (Status status = detail::check(xpwc_session_explain(session_, text.data(), text.size())); !status.ok()) {
      return status;
    }
    text.resize(text.find('\0'));
    return text;
  }

  // Ends the session, as the destructor does, and returns the status.
  Status end() {
    Status status = detail::check(xpwc_session_end(std::exchange(session_, {})));
    provider_ = nullptr;
    state_.reset();
    cache_.reset();
    return status;
  }

  // The handle for calls of xpwc.h. The session still owns it.
  xpwc_session handle() const { return session_; }

 private:
  friend class Cache;
  Session() = default;

  std::shared_ptr<detail::CacheState> cache_;
  std::unique_ptr<detail::SessionState> state_;
  xpwc_session session_{};
  xnn_weights_cache_t provider_ = nullptr;
};

// The packed weights of one path. Sessions keep the cache open after this object is destroyed.
class Cache {
 public:
  // Opens the cache file at path, or a cache in memory if path is empty. See xpwc_open.
  static Result<Cache> open(std::string_view path, Options options = {}) {
    std::string copy;
    if (Status status = detail::c_string(path, copy); !status.ok()) {
      return status;
    }
    return open_with(std::move(options), [&](const xpwc_options& c, xpwc_cache* cache) {
      return xpwc_open(copy.c_str(), &c, cache);
    });
  }

  // Opens the cache in an open file. The host keeps the descriptor. See xpwc_open_fd.
  static Result<Cache> open_fd(int file_descriptor, Options options = {}) {
    return open_with(std::move(options), [&](const xpwc_options& c, xpwc_cache* cache) {
      return xpwc_open_fd(file_descriptor, &c, cache);
    });
  }

  Cache(Cache&&) noexcept = default;
  Cache& operator=(Cache&&) noexcept = default;
  // Waits for the disk, here or when the last session ends. Errors are only logged: call save first to get them.
  ~Cache() = default;

  // Begins a session. data may be nullptr if the host loads no tensor. See xpwc_session_begin.
  Result<Session> begin(DataMap* data) {
    auto state = std::make_unique<detail::SessionState>();
    state->data = data;
    xpwc_data_map c{};
    c.struct_size = sizeof(c);
    c.get = detail::get;
    c.changed = detail::changed;
    c.context = state.get();
    Session session;
    const xpwc_status begun = xpwc_session_begin(handle(), data ? &c : nullptr, &session.session_);
    if (begun != XPWC_STATUS_OK) {
      return detail::check(begun);
    }
    session.state_ = std::move(state);
    session.cache_ = state_;
    if (Status status = detail::check(xpwc_session_provider(session.session_, &session.provider_)); !status.ok()) {
      return status;
    }
    return session;
  }

  // With Options::or_memory, the reason why the cache is in memory and not in its file. Otherwise ok.
  Status unusable() const { return state_ ? state_->unusable : Status(XPWC_STATUS_INVALID_HANDLE); }

  // Waits until all packed weights are on stable storage, and closes the cache. Returns XPWC_STATUS_IN_USE while there
  // are sessions; the cache stays open then.
  Status close() { return detail::check(xpwc_close(handle())); }
  Status save() { return detail::check(xpwc_cache_save(handle())); }
  Status compact() { return detail::check(xpwc_cache_compact(handle())); }
  Status trim() { return detail::check(xpwc_cache_trim(handle())); }

  // The sorted names of the packed weights that this machine can use.
  Result<std::vector<std::string>> names() const {
    const char* const* c = nullptr;
    std::size_t count = 0;
    const xpwc_status status = xpwc_cache_names(handle(), &c, &count);
    return detail::take_names(status, c, count);
  }

  Result<Stats> stats() const {
    Stats stats{};
    stats.struct_size = sizeof(stats);
    if (Status status = detail::check(xpwc_cache_stats(handle(), &stats)); !status.ok()) {
      return status;
    }
    return stats;
  }

  // The handle for calls of xpwc.h. The cache still owns it. End sessions begun with it before this object is
  // destroyed.
  xpwc_cache handle() const { return state_ ? state_->cache : xpwc_cache{}; }

 private:
  explicit Cache(std::shared_ptr<detail::CacheState> state) : state_(std::move(state)) {}

  template <typename Open>
  static Result<Cache> open_with(Options options, Open open) {
    auto state = std::make_shared<detail::CacheState>();
    state->log = std::move(options.log);
    state->progress = std::move(options.progress);
    xpwc_options c{};
    c.struct_size = sizeof(c);
    c.flags = detail::flag(options.read_only, XPWC_OPEN_READ_ONLY) | detail::flag(options.strict, XPWC_OPEN_STRICT) |
        detail::flag(options.allow_unsafe_file, XPWC_OPEN_ALLOW_UNSAFE_FILE) |
        detail::flag(options.prefetch, XPWC_OPEN_PREFETCH) | detail::flag(options.or_memory, XPWC_OPEN_OR_MEMORY);
    c.verify = static_cast<std::uint32_t>(options.verify);
    c.writer_wait_ms = options.writer_wait.count();
    c.max_bytes = options.max_bytes;
    c.log_level = static_cast<std::uint32_t>(options.log_level);
    c.log = state->log ? detail::log : nullptr;
    c.progress = state->progress ? detail::progress : nullptr;
    c.context = state.get();
    if (Status status = detail::check(open(c, &state->cache)); !status.ok()) {
      return status;
    }
    std::string reason = xpwc_last_error();
    Cache cache(std::move(state));
    Result<Stats> stats = cache.stats();
    if (!stats) {
      return stats.status();
    }
    if (stats->unusable != XPWC_STATUS_OK) {
      cache.state_->unusable = Status(static_cast<xpwc_status>(stats->unusable), std::move(reason));
    }
    return cache;
  }

  std::shared_ptr<detail::CacheState> state_;
};

// Computes the digest of a content, for Tensor::digest and Packing::opaque.
inline Result<Digest> digest(Bytes content) {
  Digest digest{};
  if (Status status = detail::check(xpwc_digest(content.data, content.size, digest.data())); !status.ok()) {
    return status;
  }
  return digest;
}

// Returns a text that changes when the open file's content does. Followed by a tensor's position it is the tensor's
// stamp. If it is empty, leave the stamps of the file's tensors empty. See xpwc_file_stamp.
inline Result<std::string> file_stamp(int file_descriptor) {
  char stamp[XPWC_FILE_STAMP_SIZE] = "";
  if (Status status = detail::check(xpwc_file_stamp(file_descriptor, stamp, sizeof(stamp))); !status.ok()) {
    return status;
  }
  return std::string(stamp);
}

// Detects changes of an open file's content, for DataMap::source_changed. The host keeps the descriptor, which must
// stay open.
class FileWatch {
 public:
  // Starts watching. Call it before the file is read or mapped.
  static Result<FileWatch> on(int file_descriptor) {
    FileWatch watch(file_descriptor);
    if (Status status = detail::check(xpwc_file_look(file_descriptor, &watch.state_)); !status.ok()) {
      return status;
    }
    return watch;
  }

  // Sets changed to true if the content may have changed since on(). See xpwc_file_changed.
  Status changed(bool& changed) const {
    int differs = 0;
    Status status = detail::check(xpwc_file_changed(file_descriptor_, &state_, &differs));
    changed = differs != 0;
    return status;
  }

 private:
  explicit FileWatch(int file_descriptor) : file_descriptor_(file_descriptor) {}

  int file_descriptor_;
  xpwc_file_state state_{};
};

}  // namespace xpwc

#endif
