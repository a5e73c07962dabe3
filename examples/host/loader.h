// Where a subgraph's constants come from: a session of the cache, or the data map itself.
#pragma once

#include <map>
#include <string>
#include <utility>

#include "status.h"

class Loader {
 public:
  virtual ~Loader() = default;
  // Gives the tensor of that name, which stays where it is at least until the runtime is created.
  virtual Status load(const std::string& name, const xpwc::LoadOptions& options, xpwc::Loaded* tensor) = 0;
};

class SessionLoader final : public Loader {
 public:
  explicit SessionLoader(xpwc::Session& session) : session_(session) {}

  Status load(const std::string& name, const xpwc::LoadOptions& options, xpwc::Loaded* tensor) override {
    xpwc::Result<xpwc::Loaded> loaded = session_.load(name, options);
    if (!loaded) {
      return loaded.status();
    }
    *tensor = *loaded;
    return Status();
  }

 private:
  xpwc::Session& session_;
};

// Tensors straight from the data map, for runtimes without a cache.
class PlainLoader final : public Loader {
 public:
  explicit PlainLoader(xpwc::DataMap& data) : data_(data) {}
  ~PlainLoader() override { release(); }

  Status load(const std::string& name, const xpwc::LoadOptions&, xpwc::Loaded* tensor) override {
    auto found = tensors_.find(name);
    if (found == tensors_.end()) {
      xpwc::Tensor t;
      if (xpwc::Status status = data_.tensor(name, t); !status.ok()) {
        return status;
      }
      found = tensors_.emplace(name, std::move(t)).first;
    }
    *tensor = {found->second.data, found->second.size};
    return Status();
  }

  void release() {
    for (const auto& [name, tensor] : tensors_) {
      if (tensor.evict) {
        tensor.evict(tensor.data, tensor.size);
      }
    }
    tensors_.clear();
  }

 private:
  xpwc::DataMap& data_;
  std::map<std::string, xpwc::Tensor> tensors_;
};
