#include "backend.h"

#include <algorithm>
#include <cstdio>
#include <string_view>

#include "subgraph.h"

namespace {

struct ReleaseWorkspace {
  void operator()(xnn_workspace_t workspace) const { xnn_release_workspace(workspace); }
};
using Workspace = std::unique_ptr<xnn_workspace, ReleaseWorkspace>;

// Prints what the cache goes on without, and what failed. It may be called by a thread of the library.
void log(xpwc::LogLevel level, std::string_view message) {
  const char* kind = level == xpwc::LogLevel::error ? "error" : "warning";
  std::fprintf(stderr, "%s: %.*s\n", kind, static_cast<int>(message.size()), message.data());
}

}  // namespace

Status create_runtime(const Subgraph& subgraph, xnn_weights_cache_t provider, Runtime* out) {
  xnn_workspace_t raw_workspace = nullptr;
  RETURN_IF_ERROR(Status::xnnpack("create a workspace", xnn_create_workspace(&raw_workspace)));
  const Workspace workspace(raw_workspace);  // the runtime keeps it
  xnn_runtime_t runtime = nullptr;
  RETURN_IF_ERROR(Status::xnnpack(
      "create a runtime", xnn_create_runtime_v4(
                              subgraph.get(), provider, workspace.get(), /*threadpool=*/nullptr, /*flags=*/0, &runtime)));
  out->reset(runtime);
  return Status();
}

Status Backend::create(const BackendOptions& options, std::unique_ptr<Backend>* out) {
  RETURN_IF_ERROR(Status::xnnpack("initialize", xnn_initialize(nullptr)));
  std::unique_ptr<Backend> backend(new Backend);
  backend->options_ = options;
  if (options.use_cache) {
    xpwc::Options cache_options;
    cache_options.log_level = xpwc::LogLevel::warning;
    cache_options.log = log;
    xpwc::Result<xpwc::Cache> cache = xpwc::Cache::open(options.cache_path, cache_options);
    if (!cache) {
      return cache.status();
    }
    backend->cache_ = *std::move(cache);
  }
  *out = std::move(backend);
  return Status();
}

Status Backend::init(const Program& program, const Method& method, xpwc::DataMap& data, Executor** out) {
  auto executor = std::make_unique<Executor>();
  executor->outputs_ = program.outputs(method);
  // XNNPACK reads a little beyond an input's end.
  executor->input_.resize(program.inputs(method) + XNN_EXTRA_BYTES / sizeof(float));
  if (!cache_) {
    executor->unpacked_ = std::make_unique<PlainLoader>(data);
    RETURN_IF_ERROR(create_runtime(program, method, *executor->unpacked_, *executor));
    if (!options_.keep_unpacked) {
      executor->unpacked_->release();
    }
  } else {
    xpwc::Result<xpwc::Session> session = cache_->begin(&data);
    if (!session) {
      return session.status();
    }
    executor->session_ = *std::move(session);
    SessionLoader loader(*executor->session_);
    const Status created = create_runtime(program, method, loader, *executor);
    const xpwc::Status finalized = executor->session_->finalize();
    if (!created.ok()) {  // the cache may know why
      return finalized.ok() ? created : Status::error(created.message() + "; " + finalized.message());
    }
    if (!finalized.ok()) {  // the runtime must not be used; packed weights that could not be stored are no error
      return finalized;
    }
  }
  *out = executor.release();
  return Status();
}

Status Backend::create_runtime(const Program& program, const Method& method, Loader& loader, Executor& executor) {
  Subgraph subgraph;
  RETURN_IF_ERROR(define_subgraph(program, method, loader, &subgraph));
  return ::create_runtime(subgraph, executor.session_ ? executor.session_->provider() : nullptr, &executor.runtime_);
}

Status Backend::execute(Executor* executor, const std::vector<float>& input, std::vector<float>* output) {
  if (input.size() + XNN_EXTRA_BYTES / sizeof(float) != executor->input_.size()) {
    return Status::error("execute: the input has " + std::to_string(input.size()) + " numbers");
  }
  std::copy(input.begin(), input.end(), executor->input_.begin());
  output->resize(executor->outputs_);
  const xnn_external_value values[] = {{input_value, executor->input_.data()}, {output_value, output->data()}};
  const xnn_runtime_t runtime = executor->runtime_.get();
  const std::size_t shape[] = {1, input.size()};
  RETURN_IF_ERROR(Status::xnnpack("reshape the input", xnn_reshape_external_value(runtime, input_value, 2, shape)));
  RETURN_IF_ERROR(Status::xnnpack("reshape", xnn_reshape_runtime(runtime)));
  RETURN_IF_ERROR(Status::xnnpack("set up", xnn_setup_runtime_v2(runtime, 2, values)));
  RETURN_IF_ERROR(Status::xnnpack("invoke", xnn_invoke_runtime(runtime)));
  return executor->session_ ? executor->session_->check() : Status();
}

Status Backend::save() {
  if (!cache_) {
    return Status();
  }
  return cache_->save();
}
