// ExecuTorch's XNNWeightsCache on the reader of sealed files, for apps that ship a packed file, without libxpwc. C++17
// without exceptions and RTTI. Names, signatures and the order of calls as in ExecuTorch of August 2026.
//
// In ExecuTorch's tree: in backends/xnnpack/runtime, XNNWeightsCache.h becomes
//
//   #pragma once
//   #include <xpwc_reader_executorch.hpp>
//
// XNNWeightsCache.cpp leaves the build, and xpwc_reader.c joins it. XNNWeightsCacheManager stays. The file is made
// ahead of time, and the app gives its path and the digest that is printed, in the one option there is for it:
//
//   xpwc pack model.pte --sealed -o model.xpwc                            # prints 0f3c...
//   options.set_option("packed_cache_path", "model.xpwc#0f3c...");        // at most 255 bytes
//
// A start packs nothing if the class gets the bytes of the program, too. In XNNCompiler.cpp, compileModel calls this
// before it defines the first tensor:
//
//   if (use_weight_cache) weights_cache->set_program(buffer_pointer, num_bytes);
//
// A kernel is believed then exactly if the file was packed for a delegate of the same bytes, and the names of constants
// are hashes of their content, as ExecuTorch's exporter makes them. Without the bytes the class sees the names of constants,
// and neither shapes nor the scales of activations. So each kernel is packed at each start, compared, and used from the file
// where it is equal. An old file is safe in both cases: the delegates that an export has changed are packed and compared.
//
// What the file does not have is packed into memory, as all is without file or digest, and nothing is ever written. Each
// runtime has its own name for delete_packed_data. The file is open as long as one of them has it: a file that takes its
// place by a rename is opened after that.
#ifndef XPWC_READER_EXECUTORCH_HPP
#define XPWC_READER_EXECUTORCH_HPP

#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include <xnnpack.h>

#include <executorch/runtime/core/error.h>
#include <executorch/runtime/core/freeable_buffer.h>
#include <executorch/runtime/core/memory_allocator.h>
#include <executorch/runtime/core/named_data_map.h>
#include <executorch/runtime/core/result.h>
#include <executorch/runtime/platform/log.h>

#include "xpwc_reader.h"

namespace executorch {
namespace backends {
namespace xnnpack {
namespace delegate {

using executorch::ET_RUNTIME_NAMESPACE::NamedDataMap;
using executorch::runtime::Error;
using executorch::runtime::FreeableBuffer;
using executorch::runtime::MemoryAllocator;
using executorch::runtime::Result;

// The caller holds mutex() around every method and around xnn_create_runtime, as ExecuTorch's backend does. Runtimes
// may execute without it: XNNPACK asks then for is_finalized and offset_to_addr alone.
class XNNWeightsCache {
 public:
  XNNWeightsCache() {
    provider_.context = this;
    provider_.look_up = look_up;
    provider_.reserve_space = reserve_space;
    provider_.look_up_or_insert = look_up_or_insert;
    provider_.is_finalized = [](void*) { return true; };
    provider_.offset_to_addr = [](void*, size_t offset) { return reinterpret_cast<void*>(offset); };
    provider_.delete_cache = [](void*) { return xnn_status_success; };
    set_alias_data(provider_);
  }
  XNNWeightsCache(const XNNWeightsCache&) = delete;
  XNNWeightsCache& operator=(const XNNWeightsCache&) = delete;

  // Sets the file, for runtimes that are begun later: its path, "#" and the digest of the model.
  void set_packed_cache_path(const std::string& path) { path_ = path; }

  Error initialize_for_runtime(MemoryAllocator*, const NamedDataMap* named_data_map) {
    current_ = std::make_unique<Runtime>();
    current_->named_data_map = named_data_map;
    const size_t end = path_.rfind('#');
    if (end == std::string::npos) {
      if (!path_.empty()) {
        ET_LOG(Error, "xpwc: packed_cache_path %s has no digest of the model: append # and what xpwc pack --sealed printed; "
                      "all is packed", path_.c_str());
      }
      return Error::Ok;
    }
    current_->reader = opened_path_ == path_ ? opened_.lock() : nullptr;
    if (current_->reader != nullptr) { // the runtime before has freed constants
      xpwc_reader_forget(current_->reader.get());
      return Error::Ok;
    }
    xpwc_reader* reader = nullptr;
    const xpwc_status status = xpwc_reader_open(path_.substr(0, end).c_str(), path_.substr(end + 1).c_str(), &reader);
    if (status != XPWC_STATUS_OK) {
      char why[512];
      xpwc_reader_error(status, why, sizeof(why));
      ET_LOG(Error, "xpwc: %s cannot be used: %s; all is packed", path_.c_str(), why);
      return Error::Ok;
    }
    current_->reader.reset(reader, xpwc_reader_close);
    opened_ = current_->reader;
    opened_path_ = path_;
    return Error::Ok;
  }

  // Gives the bytes that ExecuTorch gives to the backend for its delegate, which are read during the call. Call it
  // between initialize_for_runtime and the first load_unpacked_data, for each runtime; the last call counts. The class
  // cannot detect the bytes of another delegate: it would use that delegate's packed weights, and outputs would be
  // wrong. InvalidState at any other time, InvalidArgument for no bytes: then nothing changes. Not in ExecuTorch's
  // class.
  Error set_program(const void* data, size_t size) {
    if (current_ == nullptr || !current_->constants.empty()) {
      return Error::InvalidState;
    }
    if (data == nullptr || size == 0) {
      return Error::InvalidArgument;
    }
    const bool given = current_->reader == nullptr ||
                       xpwc_reader_set_program(current_->reader.get(), data, size) == XPWC_STATUS_OK;
    return given ? Error::Ok : Error::Internal;
  }

  // Loads a constant for the runtime that is being created.
  Result<const uint8_t*> load_unpacked_data(const std::string& name) {
    if (current_ == nullptr || current_->named_data_map == nullptr) {
      return Error::InvalidState;
    }
    auto known = current_->constants.find(name);
    if (known == current_->constants.end()) {
      Result<FreeableBuffer> loaded = current_->named_data_map->get_data(name);
      if (!loaded.ok()) {
        return Error::InvalidExternalData;
      }
      known = current_->constants.try_emplace(name).first;
      FreeableBuffer& buffer = known->second.buffer.emplace(std::move(loaded.get()));
      current_->at[buffer.data()] = &known->second;
      if (current_->reader != nullptr) { // what cannot be named is packed
        xpwc_reader_name_as_sealed(current_->reader.get(), name.c_str(), buffer.data(), buffer.size());
      }
    }
    known->second.loads++;
    return static_cast<const uint8_t*>(known->second.buffer->data());
  }

  size_t get_num_unpacked_data() { return current_ == nullptr ? 0 : current_->constants.size(); }
  xnn_weights_cache_t get() { return &provider_; }

  // Frees the constants that only packing reads, and returns the runtime's name. These are kernels that were found, if
  // ExecuTorch's exporter named them: a file is sealed only for delegates that do not read them at inference. Nothing shows
  // which nodes read any other constant, or one with a second tensor by its name or its address, so these stay.
  Result<std::vector<std::string>> finalize_for_runtime() {
    if (current_ == nullptr || (current_->constants.empty() && current_->blocks.empty())) {
      current_.reset();
      return std::vector<std::string>();
    }
    std::map<const void*, size_t> names; // by address
    for (const auto& [name, constant] : current_->constants) {
      names[constant.buffer->data()]++;
    }
    for (auto& [name, constant] : current_->constants) {
      const bool has_second = constant.loads > 1 || names[constant.buffer->data()] > 1;
      if (constant.found && !has_second && is_exported(name)) {
        constant.buffer.reset();
      }
    }
    if (current_->reader != nullptr && current_->found == 0 && !current_->constants.empty()) {
      if (const char* why = xpwc_reader_reason(current_->reader.get()); *why != 0) {
        ET_LOG(Info, "xpwc: no look-up hit: %s; file %s", why, path_.c_str()); // which may be cut off at its end
      }
    }
    const std::string name = "runtime " + std::to_string(++made_);
    runtimes_[name] = std::move(current_);
    return std::vector<std::string>{name};
  }

  // Frees what a runtime has that will not execute again.
  Error delete_packed_data(const std::vector<std::string>& names) {
    for (const std::string& name : names) {
      if (runtimes_.erase(name) == 0) {
        return Error::InvalidArgument;
      }
    }
    return Error::Ok;
  }

  Error save_packed_index() { return Error::Ok; }

  std::mutex& mutex() noexcept { return mutex_; }

  // Packed weights that runtimes found in their files, that were packed and are equal to the file's, which are used, and
  // that were packed into memory.
  size_t found() const { return found_; }
  size_t compared() const { return compared_; }
  size_t packed() const { return packed_; }

 private:
  struct Constant {
    std::optional<FreeableBuffer> buffer;
    size_t loads{0};
    bool found{false}; // as a kernel, in the file
  };

  struct Runtime {
    ~Runtime() {
      for (void* block : blocks) {
        std::free(block);
      }
    }

    std::shared_ptr<xpwc_reader> reader; // of all runtimes that have the file
    const NamedDataMap* named_data_map{nullptr};
    std::map<std::string, Constant> constants;
    std::unordered_map<const void*, Constant*> at;
    std::vector<void*> blocks; // packed weights in private memory
    size_t found{0};
  };

  // Reports whether ExecuTorch's exporter gives constants names like this: the SHA-256 of their bytes.
  static bool is_exported(const std::string& name) {
    return name.size() == 64 && name.find_first_not_of("0123456789abcdef") == std::string::npos;
  }

  // Returns the provider of the current runtime, or null if there is no runtime or it has no reader.
  xnn_weights_cache_t reader_provider() const {
    const bool has_reader = current_ != nullptr && current_->reader != nullptr;
    return has_reader ? xpwc_reader_provider(current_->reader.get()) : nullptr;
  }

  static size_t look_up(void* context, const xnn_weights_cache_look_up_key* key) {
    auto* cache = static_cast<XNNWeightsCache*>(context);
    xnn_weights_cache_t provider = cache->reader_provider();
    const size_t found = provider == nullptr ? SIZE_MAX : provider->look_up(provider->context, key);
    if (found != SIZE_MAX) {
      cache->found_++;
      cache->current_->found++;
      if (auto constant = cache->current_->at.find(key->kernel); constant != cache->current_->at.end()) {
        constant->second->found = true;
      }
    }
    return found;
  }

  static void* reserve_space(void* context, size_t size) {
    auto* cache = static_cast<XNNWeightsCache*>(context);
    if (cache->current_ == nullptr) {
      return nullptr;
    }
    void* block = nullptr;
    if (size > SIZE_MAX - XNN_EXTRA_BYTES || posix_memalign(&block, 128, size + XNN_EXTRA_BYTES) != 0) {
      return nullptr;
    }
    cache->current_->blocks.push_back(block);
    return block;
  }

  static size_t look_up_or_insert(void* context, const xnn_weights_cache_look_up_key* key, void* packed, size_t size) {
    auto* cache = static_cast<XNNWeightsCache*>(context);
    xnn_weights_cache_t provider = cache->reader_provider();
    const size_t own = reinterpret_cast<size_t>(packed);
    const size_t used = provider == nullptr ? own : provider->look_up_or_insert(provider->context, key, packed, size);
    if (packed != nullptr && used == own) {
      cache->packed_++;
    } else if (packed != nullptr) { // the file has the same
      cache->compared_++;
      if (!cache->current_->blocks.empty() && cache->current_->blocks.back() == packed) {
        std::free(packed);
        cache->current_->blocks.pop_back();
      }
    }
    return used;
  }

  // XNNPACK of March 2026 and later reports constants that it converted.
  template <typename Provider>
  static auto set_alias_data(Provider& provider) -> decltype(void(provider.alias_data)) {
    provider.alias_data = [](void* context, void* alias, void* original) {
      auto* cache = static_cast<XNNWeightsCache*>(context);
      const Provider* of = cache->reader_provider();
      return of == nullptr ? xnn_status_success : of->alias_data(of->context, alias, original);
    };
  }
  static void set_alias_data(...) {}

  xnn_weights_cache_provider provider_{};
  std::string path_;
  std::weak_ptr<xpwc_reader> opened_; // the last that was opened, while a runtime has it
  std::string opened_path_;
  std::unique_ptr<Runtime> current_; // that is being created
  std::map<std::string, std::unique_ptr<Runtime>> runtimes_; // that are finalized, by name
  size_t made_{0}, found_{0}, compared_{0}, packed_{0};
  std::mutex mutex_;
};

} // namespace delegate
} // namespace xnnpack
} // namespace backends
} // namespace executorch

#endif
