#include <algorithm>

#include <xpwc_executorch.hpp>

namespace executorch {
namespace backends {
namespace xnnpack {

void XNNWeightsCacheManager::set_options(const xpwc_options& options) {
  std::lock_guard<std::mutex> lock(mutex_);
  options_ = options;
}

runtime::Result<std::shared_ptr<delegate::XNNWeightsCache>> XNNWeightsCacheManager::get_or_create(
    const std::string& cache_file_path) {
  std::lock_guard<std::mutex> lock(mutex_);
  std::weak_ptr<delegate::XNNWeightsCache>& known = cache_file_path.empty() ? in_memory_ : caches_[cache_file_path];
  std::shared_ptr<delegate::XNNWeightsCache> cache = known.lock();
  if (cache == nullptr) {
    cache = std::make_shared<delegate::XNNWeightsCache>();
    cache->set_packed_cache_path(cache_file_path);
    if (options_) {
      cache->set_options(*options_);
    }
    known = cache;
  }
  return cache;
}

runtime::Error XNNWeightsCacheManager::save_all() {
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

size_t XNNWeightsCacheManager::live_count() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return static_cast<size_t>(
      std::count_if(caches_.begin(), caches_.end(), [](const auto& entry) { return !entry.second.expired(); }));
}

std::vector<std::shared_ptr<delegate::XNNWeightsCache>> XNNWeightsCacheManager::live() {
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

} // namespace xnnpack
} // namespace backends
} // namespace executorch
