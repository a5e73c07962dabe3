// A backend in ExecuTorch's shape: init makes an executor of a method, execute runs it, destroy frees it.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <xnnpack.h>

#include "loader.h"
#include "program.h"
#include "status.h"
#include "subgraph.h"

struct DeleteRuntime {
  void operator()(xnn_runtime_t runtime) const { xnn_delete_runtime(runtime); }
};
using Runtime = std::unique_ptr<xnn_runtime, DeleteRuntime>;

// Creates a runtime with a workspace of its own. There may be no provider.
Status create_runtime(const Subgraph& subgraph, xnn_weights_cache_t provider, Runtime* runtime);

struct BackendOptions {
  bool use_cache = true;
  // The cache's file; empty for a cache in memory.
  std::string cache_path;
  // Without a cache: unpacked weights are kept as long as the executor, and not given back once they are packed.
  bool keep_unpacked = false;
};

// A method's runtime. One thread at a time may execute it.
class Executor {
 private:
  friend class Backend;

  // Destroyed in reverse: the session must outlive the runtime.
  std::optional<xpwc::Session> session_;
  std::unique_ptr<PlainLoader> unpacked_;
  Runtime runtime_;
  std::vector<float> input_;
  std::size_t outputs_ = 0;
};

// May be used from any number of threads; nothing in it is locked while runtimes are created or executed.
class Backend {
 public:
  static Status create(const BackendOptions& options, std::unique_ptr<Backend>* backend);

  // Makes an executor of a program's method. data must outlive it.
  Status init(const Program& program, const Method& method, xpwc::DataMap& data, Executor** executor);
  // Runs the method. input is one row; so is output, which is resized.
  Status execute(Executor* executor, const std::vector<float>& input, std::vector<float>* output);
  void destroy(Executor* executor) { delete executor; }

  // Waits until everything that was packed is on the disk. There is no need to: it gets there by itself.
  Status save();
  // nullptr without a cache.
  xpwc::Cache* cache() { return cache_ ? &*cache_ : nullptr; }

 private:
  Backend() = default;
  Status create_runtime(const Program& program, const Method& method, Loader& loader, Executor& executor);

  BackendOptions options_;
  std::optional<xpwc::Cache> cache_;
};
