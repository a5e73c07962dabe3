// xpwc for ExecuTorch: its XNNWeightsCache and XNNWeightsCacheManager, on xpwc's cache. C++17, header only; needs
// neither exceptions nor RTTI. Names, signatures and behaviour are those of ExecuTorch of August 2026; 1.5 has all that
// it includes.
//
// In ExecuTorch's tree: in backends/xnnpack/runtime, XNNWeightsCache.h and XNNWeightsCacheManager.h become
//
//   #pragma once
//   #include <xpwc_executorch.hpp>
//
// XNNWeightsCache.cpp and XNNWeightsCacheManager.cpp leave the build, and the XNNPACK backend links libxpwc. Nothing
// else changes; models, options and the calling order stay. The cache file is xpwc's. What ExecuTorch left at the path
// is taken over, each entry when it is seen to be what would be packed now, and ExecuTorch's own class can read what is
// written.
//
// What is the same: one cache is shared by all runtimes of a path; calls are serialized by the caller with mutex();
// packed weights go by the name of the kernel directly followed by the bias'; names are counted, and delete_packed_data
// counts them down; the file keeps what it has when all runtimes are gone.
//
// What is safe here and was not there:
// - Packed weights that cannot be inserted, or a provider that is called when no runtime is being created, never become
//   a wild pointer. At worst the runtime is not created.
// - Constants that are read at inference (PReLU slopes, operands of elementwise operators) stay until the runtime is
//   gone, also if they are a bias elsewhere. Only kernels, and scales that ExecuTorch's exporter wrote, are freed by
//   finalize_for_runtime. (Not seen: a kernel that another operator reads at inference through the same tensor.)
// - Packed weights are found by what they were packed from and for, not by name and seed alone: contents, CPU, XNNPACK
//   version and, as far as it can be seen, quantisation. Runtimes that give one name to different weights get each
//   their own; those of the second go by the name with "#2" added, as do a runtime's whose names are another's but
//   whose constants are not.
// - Runtimes can be executed while another is created: what they ask the provider needs no state.
// - delete_packed_data with names it does not know changes nothing.
// - A file that cannot be opened because it is something else or belongs to someone else is left alone; weights are
//   kept in memory then, and the log tells.
//
// Quantisation. XNNPACK packs scales in, and with dynamically quantised inputs also the bias, and names neither to the
// cache. Nor does ExecuTorch. Two models whose quantised kernel has the same bytes but other scales would get each
// other's. What can be seen is the order in which ExecuTorch's XNNCompiler loads: a kernel, its scales, then mostly its
// bias. So what is loaded next goes into the kernel's key if its name (exporter: "scale_" and a SHA-256) or size says
// it could be scales; and what comes then, if its size fits a bias. A wrong guess costs packing twice what two methods
// could share. Not seen are scales inside the program (exported before scales had names) and zero points:
// set_quantization tells those. Nor are operators, shapes and groups: two runtimes that use one name and content
// in different ones get each other's packed weights (wrong answers, and reads out of bounds) unless set_quantization
// tells them apart.
#ifndef XPWC_EXECUTORCH_HPP
#define XPWC_EXECUTORCH_HPP

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <vector>

#include <xnnpack.h>

#include <executorch/runtime/core/error.h>
#include <executorch/runtime/core/freeable_buffer.h>
#include <executorch/runtime/core/memory_allocator.h>
#include <executorch/runtime/core/named_data_map.h>
#include <executorch/runtime/core/result.h>
#include <executorch/runtime/platform/compiler.h>
#include <executorch/runtime/platform/log.h>

#include "xpwc.h"

namespace executorch {
namespace backends {
namespace xnnpack {
namespace delegate {

using executorch::ET_RUNTIME_NAMESPACE::NamedDataMap;
using executorch::runtime::Error;
using executorch::runtime::FreeableBuffer;
using executorch::runtime::MemoryAllocator;
using executorch::runtime::Result;

// The packed weights behind one path, or in memory, for any number of runtimes. It is not synchronized: the caller
// holds mutex() around every method and around xnn_create_runtime, as ExecuTorch's backend does. Runtimes may be
// executed without it.
class XNNWeightsCache {
 public:
  // Packed weights are aligned to it at least.
  static constexpr size_t kPackedAllocationAlignment = 64;

  XNNWeightsCache() {
    provider_.context = this;
    provider_.look_up = look_up;
    provider_.reserve_space = reserve_space;
    provider_.look_up_or_insert = look_up_or_insert;
    provider_.is_finalized = is_finalized;
    provider_.offset_to_addr = offset_to_addr;
    provider_.delete_cache = delete_cache;
    set_alias_data(provider_);
  }

  // Gives everything back, waiting for the disk. All runtimes must have been deleted.
  ~XNNWeightsCache() {
    abandon_runtime();
    for (auto& runtime : runtimes_) {
      end(*runtime);
    }
    runtimes_.clear();
    close();
  }

  XNNWeightsCache(const XNNWeightsCache&) = delete;
  XNNWeightsCache& operator=(const XNNWeightsCache&) = delete;
  XNNWeightsCache(XNNWeightsCache&&) = delete;
  XNNWeightsCache& operator=(XNNWeightsCache&&) = delete;

  // Sets the path of the file; empty, as at first, is memory alone. Takes effect with the next initialize_for_runtime
  // while there are no runtimes; later it is without effect.
  void set_packed_cache_path(const std::string& path) {
    path_ = path;
  }

  // Begins the creation of a runtime, for which load_unpacked_data takes constants from named_data_map until
  // finalize_for_runtime. What a creation that failed has left is given back. The allocator is not used.
  Error initialize_for_runtime(MemoryAllocator* runtime_allocator, const NamedDataMap* named_data_map) {
    (void)runtime_allocator;
    abandon_runtime();
    if (Error error = open(); error != Error::Ok) {
      return error;
    }
    auto runtime = std::make_unique<Runtime>();
    runtime->named_data_map = named_data_map;

    xpwc_data_map data_map{};
    data_map.struct_size = sizeof(data_map);
    data_map.get = give_tensor;
    data_map.context = runtime.get();
    if (xpwc_status status = xpwc_session_begin(cache_, &data_map, &runtime->session); status != XPWC_STATUS_OK) {
      return error_of(status);
    }
    if (xpwc_status status = xpwc_session_provider(runtime->session, &runtime->provider); status != XPWC_STATUS_OK) {
      end(*runtime);
      return error_of(status);
    }
    current_ = std::move(runtime);
    return Error::Ok;
  }

  // Ends the creation of a runtime: frees the kernels that were packed, and has the file written in a moment. Returns what
  // names the runtime's packed weights, for delete_packed_data. A runtime without any, but with constants of its own,
  // is given their name, so that it too is deleted.
  Result<std::vector<std::string>> finalize_for_runtime() {
    finalized_ = true;
    if (current_ == nullptr) {
      return std::vector<std::string>();
    }
    std::unique_ptr<Runtime> runtime = std::move(current_);
    retain_what_inference_may_read(*runtime);
    // Whatever it says, what is packed is right.
    if (xpwc_status status = xpwc_session_finalize(runtime->session, nullptr, nullptr); status == XPWC_STATUS_NOT_EAGER) {
      end(*runtime);
      return error_of(status);
    }
    for (auto& [name, constant] : runtime->constants) {
      if (constant.unpacked != nullptr) {
        runtime->held.insert(constant.unpacked->data);
        held_[name] = constant.unpacked;
      }
    }
    runtime->addresses.clear();
    if (runtime->packed.empty() && runtime->held.empty()) {
      end(*runtime);
      return std::vector<std::string>();
    }
    give_names(*runtime);
    std::vector<std::string> names = runtime->names();
    for (const std::string& name : names) {
      uses_[name]++;
    }
    runtimes_.push_back(std::move(runtime));
    return names;
  }

  // Returns the provider for xnn_create_runtime. It is one and the same for all runtimes, as long as this object is.
  inline xnn_weights_cache_t get() {
    return &provider_;
  }

  // Returns the number of constants loaded for the runtime that is being created.
  inline size_t get_num_unpacked_data() {
    return current_ == nullptr ? 0 : current_->constants.size();
  }

  // Returns the names of the constants loaded for the runtime that is being created.
  inline std::vector<std::string> get_unpacked_data_names() {
    std::vector<std::string> names;
    if (current_ != nullptr) {
      for (const auto& [name, constant] : current_->constants) {
        names.push_back(name);
      }
    }
    return names;
  }

  // Returns the names of all packed weights, those that runtimes use and those that are in the file.
  inline std::vector<std::string> get_packed_data_names() {
    std::set<std::string> names = names_in_file();
    for (const auto& [name, count] : uses_) {
      names.insert(name);
    }
    if (current_ != nullptr) {
      for (const auto& [name, memory] : current_->packed) {
        if (!name.empty()) {
          names.insert(name);
        }
      }
    }
    return {names.begin(), names.end()};
  }

  // Loads a constant for the runtime that is being created and returns its address, which goes to
  // xnn_define_tensor_value.
  Result<const uint8_t*> load_unpacked_data(const std::string& name) {
    if (current_ == nullptr) {
      ET_LOG(Error, "xpwc: constant %s was loaded before initialize_for_runtime", name.c_str());
      return Error::InvalidState;
    }
    Runtime& runtime = *current_;
    Constant* constant = nullptr;
    if (auto known = runtime.constants.find(name); known != runtime.constants.end()) {
      constant = &known->second;
    } else {
      std::shared_ptr<Unpacked> unpacked = unpacked_data(runtime, name);
      if (unpacked == nullptr) {
        ET_LOG(Error, "xpwc: there is no constant %s", name.c_str());
        return Error::InvalidExternalData;
      }
      constant = &runtime.constants[name];
      constant->name = name;
      constant->address = unpacked->data;
      constant->size = unpacked->size;
      constant->unpacked = std::move(unpacked);
    }

    xpwc_load_options options{};
    options.struct_size = sizeof(options);
    options.flags = is_exported_scale(name) ? XPWC_LOAD_PACK_ONLY : 0;
    const void* address = nullptr;
    const xpwc_status status = xpwc_session_load(runtime.session, name.c_str(), &options, &address, nullptr);
    if (status != XPWC_STATUS_OK) {
      return status == XPWC_STATUS_OUT_OF_MEMORY ? Error::MemoryAllocationFailed : Error::InvalidExternalData;
    }
    if (constant->size > 0) {
      constant->address = address;
    }
    constant->loads++;
    if (runtime.first_name.empty()) {
      runtime.first_name = name;
    }
    runtime.addresses[constant->address] = constant;
    guess_quantization(runtime, *constant);
    return static_cast<const uint8_t*>(constant->address);
  }

  // Tells what the constant of that name is packed with and XNNPACK does not tell: scales, zero points, the shape, in any
  // form that differs when they do. To be called between load_unpacked_data and xnn_create_runtime; it adds to what is
  // known. No bytes tell nothing. Not in ExecuTorch's class.
  Error set_quantization(const std::string& name, const void* bytes, size_t size) {
    if (current_ == nullptr) {
      return Error::InvalidState;
    }
    if ((bytes == nullptr && size > 0) || current_->constants.find(name) == current_->constants.end()) {
      return Error::InvalidArgument;
    }
    return tell_quantization(*current_, name, bytes, size);
  }

  // Counts down the names of a runtime that will not be executed again, as finalize_for_runtime returned them, and
  // gives back what no other runtime uses. Any other names are counted down too, and a runtime none of whose names is
  // left is given up. InvalidArgument, without effect, for a name that is not known, and for anything but a runtime's
  // names before finalize_for_runtime.
  Error delete_packed_data(const std::vector<std::string>& packed_names) {
    std::vector<std::string> names = packed_names;
    std::sort(names.begin(), names.end());
    // Runtimes of equal names use the same memory (give_names), so that it does not matter which of them this is.
    auto found = std::find_if(
        runtimes_.begin(), runtimes_.end(), [&](const auto& runtime) { return runtime->has_names(names); });
    if (found != runtimes_.end()) {
      count_down(names);
      give_up(found);
      trim();
      return Error::Ok;
    }
    if (current_ != nullptr || !finalized_) {
      ET_LOG(Error, "xpwc: %zu packed names deleted before finalize_for_runtime", names.size());
      return Error::InvalidArgument;
    }
    const std::set<std::string> in_file = names.empty() ? std::set<std::string>() : names_in_file();
    for (const std::string& name : names) {
      if (uses_.find(name) == uses_.end() && in_file.find(name) == in_file.end()) {
        ET_LOG(Error, "xpwc: there are no packed weights %s", name.c_str());
        return Error::InvalidArgument;
      }
    }
    count_down(names);
    for (auto runtime = runtimes_.begin(); runtime != runtimes_.end();) {
      runtime = is_used(**runtime) ? std::next(runtime) : give_up(runtime);
    }
    trim();
    return Error::Ok;
  }

  // Waits until all packed weights are in the file, on stable storage. Ok if there is no file.
  Error save_packed_index() {
    if (!is_open_) {
      return Error::Ok;
    }
    return error_of(xpwc_cache_save(cache_));
  }

  // Returns the mutex that callers serialize with. This class does not lock it.
  std::mutex& mutex() noexcept {
    return mutex_;
  }

 private:
  // An unpacked constant's memory. Runtimes that keep the same constant share it.
  struct Unpacked {
    explicit Unpacked(FreeableBuffer&& from) : buffer(std::move(from)) {}

    FreeableBuffer buffer;
    const NamedDataMap* named_data_map{nullptr};
    const void* data{nullptr};
    size_t size{0};
  };

  // A constant as one runtime loaded it.
  struct Constant {
    std::string name;
    std::shared_ptr<Unpacked> unpacked; // until the session releases it
    const void* address{nullptr};
    size_t size{0};
    size_t loads{0};
    size_t packings{0}; // as a kernel
  };

  using Memory = std::set<const void*>;

  // A runtime, from initialize_for_runtime to delete_packed_data.
  struct Runtime {
    xpwc_session session{};
    xnn_weights_cache_provider* provider{nullptr};
    const NamedDataMap* named_data_map{nullptr};
    std::unordered_map<std::string, Constant> constants;
    std::unordered_map<const void*, Constant*> addresses;
    std::string first_name;
    const void* announced{nullptr}; // kernel of the last look-up
    const Constant* previous{nullptr}; // loaded last
    const Constant* kernel{nullptr}; // loaded before it, and told the previous as its scales

    std::map<std::string, Memory> packed; // by name; without one: ""
    Memory held; // unpacked constants that stay

    bool has_names(const std::vector<std::string>& sorted) const {
      return std::equal(
          packed.begin(), packed.end(), sorted.begin(), sorted.end(),
          [](const auto& entry, const std::string& name) { return entry.first == name; });
    }

    std::vector<std::string> names() const {
      std::vector<std::string> all;
      for (const auto& [name, memory] : packed) {
        all.push_back(name);
      }
      return all;
    }
  };

  using Runtimes = std::vector<std::unique_ptr<Runtime>>;

  static constexpr size_t kNotFound = SIZE_MAX;

  // ---- Opening and closing

  Error open() {
    if (is_open_ && (!runtimes_.empty() || (path_ == opened_path_ && !in_memory_instead_))) {
      return Error::Ok;
    }
    close();
    xpwc_options options{};
    options.struct_size = sizeof(options);
    options.log_level = XPWC_LOG_INFO;
    options.log = log;
    opened_path_ = path_;
    in_memory_instead_ = false;
    xpwc_status status = xpwc_open(path_.c_str(), &options, &cache_);
    if (status != XPWC_STATUS_OK && !path_.empty()) {
      // A model never fails for its cache's sake. The next runtime tries again.
      ET_LOG(Error, "xpwc: packed weights of %s are kept in memory", path_.c_str());
      in_memory_instead_ = true;
      status = xpwc_open("", &options, &cache_);
    }
    is_open_ = status == XPWC_STATUS_OK;
    return error_of(status);
  }

  void close() {
    if (!is_open_) {
      return;
    }
    xpwc_close(cache_);
    is_open_ = false;
    cache_ = xpwc_cache{};
  }

  bool has_file() const {
    return is_open_ && !opened_path_.empty() && !in_memory_instead_;
  }

  std::set<std::string> names_in_file() const {
    std::set<std::string> names;
    const char* const* listed = nullptr;
    size_t count = 0;
    if (has_file() && xpwc_cache_names(cache_, &listed, &count) == XPWC_STATUS_OK) {
      names.insert(listed, listed + count);
      xpwc_names_free(listed);
    }
    return names;
  }

  static void log(void* context, uint32_t level, const char* message) {
    (void)context;
    switch (level) {
      case XPWC_LOG_DEBUG:
        ET_LOG(Debug, "xpwc: %s", message);
        break;
      case XPWC_LOG_INFO:
        ET_LOG(Info, "xpwc: %s", message);
        break;
      default: // ExecuTorch has no level for warnings
        ET_LOG(Error, "xpwc: %s", message);
    }
  }

  // What failed is in the log already (log).
  static Error error_of(xpwc_status status) {
    switch (status) {
      case XPWC_STATUS_OK:
        return Error::Ok;
      case XPWC_STATUS_OUT_OF_MEMORY:
        return Error::MemoryAllocationFailed;
      case XPWC_STATUS_INVALID_ARGUMENT:
        return Error::InvalidArgument;
      case XPWC_STATUS_INVALID_HANDLE:
      case XPWC_STATUS_FINALIZED:
      case XPWC_STATUS_IN_USE:
        return Error::InvalidState;
      case XPWC_STATUS_READ_ONLY:
        return Error::AccessFailed;
      default:
        return Error::Internal;
    }
  }

  // ---- Runtimes

  void abandon_runtime() {
    if (current_ != nullptr) {
      end(*current_);
      current_.reset();
      trim();
    }
  }

  static void end(Runtime& runtime) {
    xpwc_session_end(runtime.session);
  }

  Runtimes::iterator give_up(Runtimes::iterator runtime) {
    end(**runtime);
    return runtimes_.erase(runtime);
  }

  bool is_used(const Runtime& runtime) const {
    return std::any_of(
        runtime.packed.begin(), runtime.packed.end(), [&](const auto& entry) { return uses_.count(entry.first) > 0; });
  }

  void count_down(const std::vector<std::string>& names) {
    for (const std::string& name : names) {
      if (auto use = uses_.find(name); use != uses_.end() && --use->second == 0) {
        uses_.erase(use);
      }
    }
  }

  void trim() {
    for (auto held = held_.begin(); held != held_.end();) {
      held = held->second.expired() ? held_.erase(held) : std::next(held);
    }
    if (is_open_ && (!has_file() || runtimes_.empty())) {
      xpwc_cache_trim(cache_);
    }
  }

  // give_names makes names and memory one to one among the runtimes there are. Then a runtime is known by its names
  // well enough: those of equal names use the same packed weights and the same constants, and whichever is ended, the
  // others keep what they need.
  void give_names(Runtime& runtime) const {
    std::map<std::string, Memory> packed;
    packed.swap(runtime.packed);
    if (auto unnamed = packed.find(""); unnamed != packed.end() || packed.empty()) { // goes with any of the runtime's names
      Memory memory;
      if (unnamed != packed.end()) {
        memory.swap(unnamed->second);
        packed.erase(unnamed);
      }
      const std::string any = runtime.first_name.empty() ? "unnamed" : runtime.first_name;
      packed[packed.empty() ? any : packed.begin()->first].merge(memory);
    }
    for (auto& [name, memory] : packed) {
      runtime.packed[unique_name(runtime, name, memory)] = std::move(memory);
    }
    const std::string first = runtime.packed.begin()->first;
    std::string renamed = first;
    for (size_t n = 2; has_other_constants(runtime); n++) {
      auto node = runtime.packed.extract(renamed);
      renamed = unique_name(runtime, first + "#" + std::to_string(n), node.mapped());
      node.key() = renamed;
      runtime.packed.insert(std::move(node));
    }
  }

  std::string unique_name(const Runtime& runtime, const std::string& name, const Memory& memory) const {
    std::string unique = name;
    for (size_t n = 2; runtime.packed.count(unique) > 0 || is_other_memory(unique, memory); n++) {
      unique = name + "#" + std::to_string(n);
    }
    return unique;
  }

  bool is_other_memory(const std::string& name, const Memory& memory) const {
    return std::any_of(runtimes_.begin(), runtimes_.end(), [&](const auto& other) {
      auto same_name = other->packed.find(name);
      return same_name != other->packed.end() && same_name->second != memory;
    });
  }

  bool has_other_constants(const Runtime& runtime) const {
    const std::vector<std::string> names = runtime.names();
    return std::any_of(runtimes_.begin(), runtimes_.end(), [&](const auto& other) {
      return other->held != runtime.held && other->has_names(names);
    });
  }

  // ---- Constants

  // Returns the constant's memory, or null. If a runtime of the same data map keeps it, it is that: then the two
  // runtimes are alike. The memory of another data map could be gone before this runtime is.
  std::shared_ptr<Unpacked> unpacked_data(const Runtime& runtime, const std::string& name) const {
    if (runtime.named_data_map == nullptr) {
      return nullptr;
    }
    Result<FreeableBuffer> loaded = runtime.named_data_map->get_data(name.c_str());
    if (!loaded.ok()) {
      return nullptr;
    }
    Result<const void*> data = loaded->data_safe();
    if (!data.ok() || (data.get() == nullptr && loaded->size() > 0)) {
      return nullptr;
    }
    const size_t size = loaded->size();
    if (auto held = held_.find(name); held != held_.end()) {
      std::shared_ptr<Unpacked> same = held->second.lock();
      if (same != nullptr && same->named_data_map == runtime.named_data_map && same->size == size &&
          (size == 0 || std::memcmp(same->data, data.get(), size) == 0)) {
        return same;
      }
    }
    const void* address = data.get();
    auto unpacked = std::make_shared<Unpacked>(std::move(loaded.get()));
    unpacked->named_data_map = runtime.named_data_map;
    unpacked->data = address;
    unpacked->size = size;
    return unpacked;
  }

  static xpwc_status give_tensor(void* context, const char* name, xpwc_tensor* tensor) {
    auto& constants = static_cast<Runtime*>(context)->constants;
    auto found = constants.find(name);
    if (found == constants.end() || found->second.unpacked == nullptr) {
      return XPWC_STATUS_UNKNOWN_TENSOR;
    }
    Constant& constant = found->second;
    tensor->data = constant.unpacked->data;
    tensor->size = constant.unpacked->size;
    tensor->release = [](void* released, const void*, size_t) { static_cast<Constant*>(released)->unpacked.reset(); };
    tensor->context = &constant;
    // The exporter names constants by the SHA-256 of their bytes, so the name says as much as a digest would.
    tensor->stamp = is_exported(constant.name) ? constant.name.c_str() : nullptr;
    return XPWC_STATUS_OK;
  }

  // Whatever is not a kernel may be read at inference, and so may what was loaded more than once, for as many values: that
  // it was packed as often may be two layers that share one of them. What is packed as a bias may well be a slope too: equal
  // constants have one name.
  static void retain_what_inference_may_read(Runtime& runtime) {
    xpwc_load_options options{};
    options.struct_size = sizeof(options);
    options.flags = XPWC_LOAD_RETAIN;
    for (const auto& [name, constant] : runtime.constants) {
      if ((constant.packings == 0 || constant.loads > 1) && !is_exported_scale(name)) {
        const void* address = nullptr;
        xpwc_session_load(runtime.session, name.c_str(), &options, &address, nullptr);
      }
    }
  }

  // ---- Quantisation

  static bool is_sha256(const char* text, size_t length) {
    return length == 64 && std::all_of(text, text + length, [](char digit) {
             return (digit >= '0' && digit <= '9') || (digit >= 'a' && digit <= 'f');
           });
  }

  // As ExecuTorch's exporter names scales.
  static bool is_exported_scale(const std::string& name) {
    static constexpr char prefix[] = "scale_";
    static constexpr size_t length = sizeof(prefix) - 1;
    return name.compare(0, length, prefix) == 0 && is_sha256(name.data() + length, name.size() - length);
  }

  // As ExecuTorch's exporter names constants.
  static bool is_exported(const std::string& name) {
    return is_sha256(name.data(), name.size()) || is_exported_scale(name);
  }

  // Whether next, loaded right after kernel, could be its scales. The exporter gives scales names that tell; what
  // follows a kernel it named without being such is at most a bias.
  static bool could_be_scales(const Constant& kernel, const Constant& next) {
    static constexpr size_t always = 4096;
    if (is_exported_scale(next.name)) {
      return true;
    }
    const size_t part = is_exported(kernel.name) && is_exported(next.name) ? 8 : 2;
    return next.size <= std::max(always, kernel.size / part);
  }

  // Whether next, loaded right after scales, could be the bias: there is one for each channel, and for each channel one
  // or more scales of as many bytes or half of them.
  static bool could_be_bias(const Constant& scales, const Constant& next) {
    return next.size > 0 && next.size <= 2 * scales.size && 2 * scales.size % next.size == 0;
  }

  static void guess_quantization(Runtime& runtime, const Constant& next) {
    const Constant* kernel = nullptr;
    if (runtime.previous != nullptr && runtime.previous != &next) {
      if (runtime.kernel != nullptr && runtime.kernel != &next && could_be_bias(*runtime.previous, next)) {
        tell_quantization(runtime, *runtime.kernel, next);
      }
      if (could_be_scales(*runtime.previous, next)) {
        kernel = runtime.previous;
        tell_quantization(runtime, *kernel, next);
      }
    }
    runtime.kernel = kernel;
    runtime.previous = &next;
  }

  static void tell_quantization(Runtime& runtime, const Constant& kernel, const Constant& parameters) {
    if (is_exported(parameters.name)) {
      tell_quantization(runtime, kernel.name, parameters.name.data(), parameters.name.size());
      return;
    }
    uint8_t digest[16];
    if (xpwc_digest(parameters.address, parameters.size, digest) == XPWC_STATUS_OK) {
      tell_quantization(runtime, kernel.name, digest, sizeof(digest));
    }
  }

  static Error tell_quantization(Runtime& runtime, const std::string& name, const void* bytes, size_t size) {
    if (size == 0) {
      return Error::Ok;
    }
    xpwc_packing packing{};
    packing.struct_size = sizeof(packing);
    packing.opaque = bytes;
    packing.opaque_size = size;
    xpwc_load_options options{};
    options.struct_size = sizeof(options);
    options.packing = &packing;
    const void* address = nullptr;
    return error_of(xpwc_session_load(runtime.session, name.c_str(), &options, &address, nullptr));
  }

  // ---- The provider

  // XNNPACK keeps the provider for the runtime's life, and asks it at inference for is_finalized (fully connected,
  // convolution) and offset_to_addr only; deleting a runtime asks nothing. So these two need no session, and the others
  // forward to that of the runtime that is being created. Offsets are addresses.
  static size_t look_up(void* context, const xnn_weights_cache_look_up_key* key) {
    Runtime* runtime = static_cast<XNNWeightsCache*>(context)->current_.get();
    if (runtime == nullptr) {
      return kNotFound;
    }
    count_packing(*runtime, key->kernel);
    runtime->announced = key->kernel;
    const size_t offset = runtime->provider->look_up(runtime->provider->context, key);
    if (offset == kNotFound) {
      return kNotFound;
    }
    return note(*runtime, *key, runtime->provider->offset_to_addr(runtime->provider->context, offset));
  }

  static void* reserve_space(void* context, size_t n) {
    Runtime* runtime = static_cast<XNNWeightsCache*>(context)->current_.get();
    return runtime == nullptr ? nullptr : runtime->provider->reserve_space(runtime->provider->context, n);
  }

  static size_t look_up_or_insert(void* context, const xnn_weights_cache_look_up_key* key, void* packed, size_t size) {
    Runtime* runtime = static_cast<XNNWeightsCache*>(context)->current_.get();
    if (runtime == nullptr) {
      return packed == nullptr ? kNotFound : reinterpret_cast<uintptr_t>(packed);
    }
    if (runtime->announced != key->kernel) { // an operator that packs without looking up
      count_packing(*runtime, key->kernel);
    }
    runtime->announced = nullptr;
    const size_t offset = runtime->provider->look_up_or_insert(runtime->provider->context, key, packed, size);
    void* address = offset == kNotFound ? packed : runtime->provider->offset_to_addr(runtime->provider->context, offset);
    return address == nullptr ? kNotFound : note(*runtime, *key, address);
  }

  static bool is_finalized(void* context) {
    (void)context;
    return true;
  }

  static void* offset_to_addr(void* context, size_t offset) {
    (void)context;
    return offset == kNotFound ? nullptr : reinterpret_cast<void*>(offset);
  }

  // The host owns the cache.
  static xnn_status delete_cache(void* context) {
    (void)context;
    return xnn_status_success;
  }

  // XNNPACK of March 2026 and later has alias_data, and tells of constants that it converted.
  template <typename Provider, typename = void>
  struct Alias {
    static void set(Provider&) {}
  };

  template <typename Provider>
  struct Alias<Provider, std::void_t<decltype(std::declval<Provider>().alias_data)>> {
    static void set(Provider& provider) {
      provider.alias_data = forward;
    }

    static xnn_status forward(void* context, void* alias, void* original) {
      Runtime* runtime = static_cast<XNNWeightsCache*>(context)->current_.get();
      if (runtime == nullptr) {
        return xnn_status_success;
      }
      if (auto known = runtime->addresses.find(original); known != runtime->addresses.end()) {
        runtime->addresses[alias] = known->second;
      }
      const Provider* provider = runtime->provider;
      return provider->alias_data == nullptr ? xnn_status_success
                                             : provider->alias_data(provider->context, alias, original);
    }
  };

  template <typename Provider>
  static void set_alias_data(Provider& provider) {
    Alias<Provider>::set(provider);
  }

  static void count_packing(Runtime& runtime, const void* kernel) {
    if (auto known = runtime.addresses.find(kernel); known != runtime.addresses.end()) {
      known->second->packings++;
    }
  }

  static size_t note(Runtime& runtime, const xnn_weights_cache_look_up_key& key, const void* packed) {
    std::string name;
    if (auto kernel = runtime.addresses.find(key.kernel); kernel != runtime.addresses.end()) {
      name = kernel->second->name;
      if (auto bias = runtime.addresses.find(key.bias); key.bias != nullptr && bias != runtime.addresses.end()) {
        name += bias->second->name;
      }
    }
    runtime.packed[name].insert(packed);
    return reinterpret_cast<uintptr_t>(packed);
  }

  std::string path_;
  std::string opened_path_;
  xpwc_cache cache_{};
  bool is_open_{false};
  bool in_memory_instead_{false};
  bool finalized_{false}; // once
  xnn_weights_cache_provider provider_{};
  std::unique_ptr<Runtime> current_; // being created
  Runtimes runtimes_; // finalized
  std::map<std::string, size_t> uses_; // by name, never zero
  std::unordered_map<std::string, std::weak_ptr<Unpacked>> held_;
  std::mutex mutex_;
};

} // namespace delegate

// Gives every path one cache, which lives as long as someone holds it. Its methods may be called from any thread.
class XNNWeightsCacheManager {
 public:
  XNNWeightsCacheManager() = default;
  ~XNNWeightsCacheManager() = default;

  XNNWeightsCacheManager(const XNNWeightsCacheManager&) = delete;
  XNNWeightsCacheManager& operator=(const XNNWeightsCacheManager&) = delete;
  XNNWeightsCacheManager(XNNWeightsCacheManager&&) = delete;
  XNNWeightsCacheManager& operator=(XNNWeightsCacheManager&&) = delete;

  // Returns the cache of that path; all callers with the empty path share one in memory.
  runtime::Result<std::shared_ptr<delegate::XNNWeightsCache>> get_or_create(const std::string& cache_file_path) {
    std::lock_guard<std::mutex> lock(mutex_);
    std::weak_ptr<delegate::XNNWeightsCache>& known = cache_file_path.empty() ? in_memory_ : caches_[cache_file_path];
    std::shared_ptr<delegate::XNNWeightsCache> cache = known.lock();
    if (cache == nullptr) {
      cache = std::make_shared<delegate::XNNWeightsCache>();
      cache->set_packed_cache_path(cache_file_path);
      known = cache;
    }
    return cache;
  }

  // Saves every cache that has a path, each under its mutex. Returns the first error, after all were tried.
  runtime::Error save_all() {
    runtime::Error first = runtime::Error::Ok;
    for (const auto& cache : live()) {
      std::lock_guard<std::mutex> lock(cache->mutex());
      const runtime::Error error = cache->save_packed_index();
      if (first == runtime::Error::Ok) {
        first = error;
      }
    }
    return first;
  }

  // Returns the number of caches with a path that someone holds.
  size_t live_count() const {
    std::lock_guard<std::mutex> lock(mutex_);
    return static_cast<size_t>(
        std::count_if(caches_.begin(), caches_.end(), [](const auto& entry) { return !entry.second.expired(); }));
  }

 private:
  std::vector<std::shared_ptr<delegate::XNNWeightsCache>> live() {
    std::lock_guard<std::mutex> lock(mutex_);
    std::vector<std::shared_ptr<delegate::XNNWeightsCache>> live;
    for (auto entry = caches_.begin(); entry != caches_.end();) {
      if (auto cache = entry->second.lock()) {
        live.push_back(std::move(cache));
        ++entry;
      } else {
        entry = caches_.erase(entry);
      }
    }
    return live;
  }

  mutable std::mutex mutex_;
  std::unordered_map<std::string, std::weak_ptr<delegate::XNNWeightsCache>> caches_;
  std::weak_ptr<delegate::XNNWeightsCache> in_memory_;
};

} // namespace xnnpack
} // namespace backends
} // namespace executorch

#endif
