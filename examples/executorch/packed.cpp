// Counts what ExecuTorch's cache is asked to make room for: its interface does not report that, and the growth of its
// file does not show what it packs on the heap. An app needs nothing of this.
#include "packed.h"

#include <cstdint>
#include <map>
#include <mutex>

#include <dlfcn.h>
#include <xnnpack.h>

namespace {

using Reserve = decltype(xnn_weights_cache_provider::reserve_space);

// Caches are used from several threads at once where xpwc's class takes the place of ExecuTorch's.
std::mutex mutex;
Packed so_far;
std::map<void*, Reserve> of_caches;  // by their contexts

void* reserve_counted(void* cache, std::size_t bytes) {
  std::unique_lock<std::mutex> lock(mutex);
  ++so_far.entries;
  so_far.bytes += bytes;
  const Reserve reserve_space = of_caches[cache];
  lock.unlock();
  return reserve_space(cache, bytes);
}

}  // namespace

Packed packed() {
  const std::lock_guard<std::mutex> lock(mutex);
  return so_far;
}

// ExecuTorch's backend calls this function by name, and a program's own function precedes its libraries'.
extern "C" xnn_status xnn_create_runtime_v4(
    xnn_subgraph_t subgraph, xnn_weights_cache_t cache, xnn_workspace_t workspace, pthreadpool_t threads,
    std::uint32_t flags, xnn_runtime_t* created) {
  if (cache != nullptr && cache->reserve_space != reserve_counted) {
    const std::lock_guard<std::mutex> lock(mutex);
    of_caches[cache->context] = cache->reserve_space;
    cache->reserve_space = reserve_counted;
  }
  static const auto create = reinterpret_cast<decltype(&xnn_create_runtime_v4)>(dlsym(RTLD_NEXT, __func__));
  return create(subgraph, cache, workspace, threads, flags, created);
}
