#include <algorithm>
#include <cstring>

#include <executorch/runtime/platform/log.h>

#include "constants.h"
#include "graph.h"
#include "names.h"
#include "provider.h"
#include "runtime.h"

namespace executorch {
namespace backends {
namespace xnnpack {
namespace delegate {

using namespace xpwc_executorch;

namespace {

void log(void* context, uint32_t level, const char* message) {
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

xpwc_options default_options() {
  xpwc_options options{};
  options.struct_size = sizeof(options);
  options.log_level = XPWC_LOG_INFO;
  return options;
}

xpwc_status give_tensor(void* context, const char* name, xpwc_tensor* tensor) {
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
  // The exporter names constants by the SHA-256 of their bytes, so the name replaces a digest.
  tensor->stamp = is_exported(constant.name) ? constant.name.c_str() : nullptr;
  return XPWC_STATUS_OK;
}

void end(Runtime& runtime) {
  xpwc_session_end(runtime.session);
}

} // namespace

Error xpwc_executorch::error_of(xpwc_status status) {
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

// The cache and its runtimes: the one that is being created, and finalized ones.
class XNNWeightsCache::Runtimes {
 public:
  Runtimes();
  ~Runtimes();

  Error begin(const NamedDataMap* named_data_map);
  Result<std::vector<std::string>> finalize();
  Result<const uint8_t*> load(const std::string& name);
  Error delete_packed(const std::vector<std::string>& packed_names);
  Error save();
  Result<xpwc_stats> stats() const;
  std::set<std::string> packed_names() const;
  Result<PackedDataMeta> meta(const std::string& name) const;

  std::string path;
  xpwc_options options = default_options();
  bool options_changed{false}; // since the cache was opened
  std::unique_ptr<Runtime> current; // being created
  xnn_weights_cache_provider provider;

 private:
  // Opening and closing
  Error open();
  void close();
  bool has_file() const;
  std::set<std::string> names_in_file() const;

  // Runtimes
  void abandon();
  RuntimeList::iterator give_up(RuntimeList::iterator runtime);
  bool is_used(const Runtime& runtime) const;
  void count_down(const std::vector<std::string>& names);
  void trim();
  std::shared_ptr<Unpacked> unpacked_data(const Runtime& runtime, const std::string& name) const;

  std::string opened_path_;
  xpwc_cache cache_{};
  bool is_open_{false};
  bool in_memory_instead_{false};
  bool finalized_{false}; // once
  RuntimeList finalized_runtimes_;
  std::map<std::string, size_t> uses_; // by name, never zero
  std::unordered_map<std::string, std::weak_ptr<Unpacked>> held_;
};

XNNWeightsCache::Runtimes::Runtimes() : provider(provider_of(&current)) {}

XNNWeightsCache::Runtimes::~Runtimes() {
  abandon();
  for (auto& runtime : finalized_runtimes_) {
    end(*runtime);
  }
  finalized_runtimes_.clear();
  close();
}

Error XNNWeightsCache::Runtimes::open() {
  const bool as_wanted = opened_path_ == path && !options_changed && !in_memory_instead_;
  if (is_open_ && (as_wanted || !finalized_runtimes_.empty())) {
    return Error::Ok;
  }
  close();
  xpwc_options with_log = options;
  if (with_log.log == nullptr) {
    with_log.log = log;
  }
  opened_path_ = path;
  options_changed = in_memory_instead_ = false;
  xpwc_status status = xpwc_open(path.c_str(), &with_log, &cache_);
  if (status != XPWC_STATUS_OK && !path.empty()) {
    // A model never fails for its cache's sake. The next runtime tries again.
    ET_LOG(Error, "xpwc: packed weights of %s are kept in memory", path.c_str());
    in_memory_instead_ = true;
    status = xpwc_open("", &with_log, &cache_);
  }
  is_open_ = status == XPWC_STATUS_OK;
  return error_of(status);
}

void XNNWeightsCache::Runtimes::close() {
  if (!is_open_) {
    return;
  }
  xpwc_close(cache_);
  is_open_ = false;
  cache_ = xpwc_cache{};
}

bool XNNWeightsCache::Runtimes::has_file() const {
  return is_open_ && !opened_path_.empty() && !in_memory_instead_;
}

std::set<std::string> XNNWeightsCache::Runtimes::names_in_file() const {
  std::set<std::string> names;
  const char* const* listed = nullptr;
  size_t count = 0;
  if (has_file() && xpwc_cache_names(cache_, &listed, &count) == XPWC_STATUS_OK) {
    names.insert(listed, listed + count);
    xpwc_names_free(listed);
  }
  return names;
}

Error XNNWeightsCache::Runtimes::begin(const NamedDataMap* named_data_map) {
  abandon();
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
  current = std::move(runtime);
  return Error::Ok;
}

Result<std::vector<std::string>> XNNWeightsCache::Runtimes::finalize() {
  finalized_ = true;
  if (current == nullptr) {
    return std::vector<std::string>();
  }
  std::unique_ptr<Runtime> runtime = std::move(current);
  retain_what_inference_may_read(*runtime);
  if (xpwc_status status = xpwc_session_finalize(runtime->session); status != XPWC_STATUS_OK) {
    end(*runtime);
    return error_of(status);
  }
  for (auto& [name, constant] : runtime->constants) {
    if (constant.unpacked != nullptr) {
      runtime->held.insert(constant.unpacked->data);
      held_[name] = constant.unpacked;
      if (constant.packings > 0) {
        drop_pages(*constant.unpacked);
      }
    }
  }
  runtime->addresses.clear();
  if (runtime->packed.empty() && runtime->held.empty()) {
    end(*runtime);
    return std::vector<std::string>();
  }
  give_names(*runtime, finalized_runtimes_);
  std::vector<std::string> names = runtime->names();
  for (const std::string& name : names) {
    uses_[name]++;
  }
  finalized_runtimes_.push_back(std::move(runtime));
  return names;
}

Result<const uint8_t*> XNNWeightsCache::Runtimes::load(const std::string& name) {
  if (current == nullptr) {
    ET_LOG(Error, "xpwc: constant %s was loaded before initialize_for_runtime", name.c_str());
    return Error::InvalidState;
  }
  Runtime& runtime = *current;
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

  xpwc_load_options load_options{};
  load_options.struct_size = sizeof(load_options);
  load_options.flags = is_exported_scale(name) ? XPWC_LOAD_PACK_ONLY : 0;
  const void* address = nullptr;
  const xpwc_status status = xpwc_session_load(runtime.session, name.c_str(), &load_options, &address, nullptr);
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
  return static_cast<const uint8_t*>(constant->address);
}

// Returns the constant's memory, or null. If a runtime of the same data map keeps it, it is that: then the two runtimes
// are alike. The memory of another data map could be gone before this runtime is.
std::shared_ptr<Unpacked> XNNWeightsCache::Runtimes::unpacked_data(
    const Runtime& runtime, const std::string& name) const {
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

Error XNNWeightsCache::Runtimes::delete_packed(const std::vector<std::string>& packed_names) {
  std::vector<std::string> names = packed_names;
  std::sort(names.begin(), names.end());
  // Runtimes of equal names use the same memory (give_names), so that it does not matter which of them this is.
  auto found = std::find_if(finalized_runtimes_.begin(), finalized_runtimes_.end(), [&](const auto& runtime) {
    return runtime->has_names(names);
  });
  if (found != finalized_runtimes_.end()) {
    count_down(names);
    give_up(found);
    trim();
    return Error::Ok;
  }
  if (current != nullptr || !finalized_) {
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
  for (auto runtime = finalized_runtimes_.begin(); runtime != finalized_runtimes_.end();) {
    runtime = is_used(**runtime) ? std::next(runtime) : give_up(runtime);
  }
  trim();
  return Error::Ok;
}

Error XNNWeightsCache::Runtimes::save() {
  return is_open_ ? error_of(xpwc_cache_save(cache_)) : Error::Ok;
}

Result<xpwc_stats> XNNWeightsCache::Runtimes::stats() const {
  if (!is_open_) {
    return Error::InvalidState;
  }
  xpwc_stats stats{};
  stats.struct_size = sizeof(stats);
  if (xpwc_status status = xpwc_cache_stats(cache_, &stats); status != XPWC_STATUS_OK) {
    return error_of(status);
  }
  return stats;
}

std::set<std::string> XNNWeightsCache::Runtimes::packed_names() const {
  std::set<std::string> names = names_in_file();
  for (const auto& [name, count] : uses_) {
    names.insert(name);
  }
  if (current != nullptr) {
    for (const auto& [name, memory] : current->packed) {
      if (!name.empty()) {
        names.insert(name);
      }
    }
  }
  return names;
}

Result<PackedDataMeta> XNNWeightsCache::Runtimes::meta(const std::string& name) const {
  const auto of = [&name](const Runtime& runtime) {
    auto packed = runtime.packed.find(name);
    return packed == runtime.packed.end() || packed->second.empty() ? nullptr
                                                                    : &runtime.metas.at(*packed->second.begin());
  };
  const PackedDataMeta* known = nullptr;
  for (const auto& runtime : finalized_runtimes_) {
    known = known != nullptr ? known : of(*runtime);
  }
  const PackedDataMeta* here = current != nullptr && !name.empty() ? of(*current) : nullptr;
  PackedDataMeta meta;
  if (known != nullptr) {
    meta = *known;
  } else if (here != nullptr) {
    meta = *here;
  } else if (names_in_file().count(name) > 0) {
    meta.from_load = true;
  } else {
    return Error::NotFound;
  }
  auto use = uses_.find(name);
  meta.ref_count = use == uses_.end() ? 0 : use->second;
  meta.in_current_runtime = here != nullptr;
  return meta;
}

void XNNWeightsCache::Runtimes::abandon() {
  if (current != nullptr) {
    end(*current);
    current.reset();
    trim();
  }
}

RuntimeList::iterator XNNWeightsCache::Runtimes::give_up(RuntimeList::iterator runtime) {
  end(**runtime);
  return finalized_runtimes_.erase(runtime);
}

bool XNNWeightsCache::Runtimes::is_used(const Runtime& runtime) const {
  return std::any_of(
      runtime.packed.begin(), runtime.packed.end(), [&](const auto& entry) { return uses_.count(entry.first) > 0; });
}

void XNNWeightsCache::Runtimes::count_down(const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    if (auto use = uses_.find(name); use != uses_.end() && --use->second == 0) {
      uses_.erase(use);
    }
  }
}

void XNNWeightsCache::Runtimes::trim() {
  for (auto held = held_.begin(); held != held_.end();) {
    held = held->second.expired() ? held_.erase(held) : std::next(held);
  }
  if (is_open_ && (!has_file() || finalized_runtimes_.empty())) {
    xpwc_cache_trim(cache_);
  }
}

// The class that ExecuTorch calls.

XNNWeightsCache::XNNWeightsCache() : runtimes_(std::make_unique<Runtimes>()) {}

XNNWeightsCache::~XNNWeightsCache() = default;

void XNNWeightsCache::set_packed_cache_path(const std::string& path) {
  runtimes_->path = path;
}

void XNNWeightsCache::set_options(const xpwc_options& options) {
  runtimes_->options = options;
  runtimes_->options_changed = true;
}

Result<xpwc_stats> XNNWeightsCache::get_stats() const {
  return runtimes_->stats();
}

Error XNNWeightsCache::initialize_for_runtime(MemoryAllocator* runtime_allocator, const NamedDataMap* named_data_map) {
  (void)runtime_allocator;
  return runtimes_->begin(named_data_map);
}

Result<std::vector<std::string>> XNNWeightsCache::finalize_for_runtime() {
  return runtimes_->finalize();
}

xnn_weights_cache_t XNNWeightsCache::get() {
  return &runtimes_->provider;
}

size_t XNNWeightsCache::get_num_unpacked_data() {
  size_t loads = 0;
  if (runtimes_->current != nullptr) {
    for (const auto& [name, constant] : runtimes_->current->constants) {
      loads += constant.loads;
    }
  }
  return loads;
}

std::vector<std::string> XNNWeightsCache::get_unpacked_data_names() {
  std::vector<std::string> names;
  if (runtimes_->current != nullptr) {
    for (const auto& [name, constant] : runtimes_->current->constants) {
      names.push_back(name);
    }
  }
  return names;
}

std::vector<std::string> XNNWeightsCache::get_packed_data_names() {
  const std::set<std::string> names = runtimes_->packed_names();
  return {names.begin(), names.end()};
}

Result<PackedDataMeta> XNNWeightsCache::get_packed_data_meta(const std::string& name) const {
  return runtimes_->meta(name);
}

Result<const uint8_t*> XNNWeightsCache::load_unpacked_data(const std::string& name) {
  return runtimes_->load(name);
}

Error XNNWeightsCache::set_program(const void* data, size_t size) {
  Runtime* current = runtimes_->current.get();
  if (current == nullptr) {
    return Error::InvalidState;
  }
  Digest digest{};
  if (size == 0 || xpwc_digest(data, size, digest.data()) != XPWC_STATUS_OK) {
    return Error::InvalidArgument;
  }
  const bool replaces = current->program && *current->program != digest;
  if (replaces && !current->constants.empty()) {
    return Error::InvalidState; // look-ups may have been answered for the first program
  }
  current->program = digest;
  current->packed_only = packed_only(data, size);
  return Error::Ok;
}

Error XNNWeightsCache::set_packing(const std::string& name, const void* bytes, size_t size) {
  Runtime* current = runtimes_->current.get();
  if (current == nullptr) {
    return Error::InvalidState;
  }
  auto constant = current->constants.find(name);
  if (bytes == nullptr || size == 0 || constant == current->constants.end()) {
    return Error::InvalidArgument;
  }
  constant->second.packing_given = true;
  return add_packing(*current, name, bytes, size);
}

Error XNNWeightsCache::delete_packed_data(const std::vector<std::string>& packed_names) {
  return runtimes_->delete_packed(packed_names);
}

Error XNNWeightsCache::save_packed_index() {
  return runtimes_->save();
}

} // namespace delegate
} // namespace xnnpack
} // namespace backends
} // namespace executorch
