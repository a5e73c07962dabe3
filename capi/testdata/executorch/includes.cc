// A host of which xpwc_executorch.hpp is the only header.
#include <xpwc_executorch.hpp>

#include <type_traits>

using executorch::backends::xnnpack::XNNWeightsCacheManager;
using executorch::backends::xnnpack::delegate::XNNWeightsCache;

static_assert(!std::is_copy_constructible_v<XNNWeightsCache> && !std::is_move_constructible_v<XNNWeightsCache>);
static_assert(!std::is_copy_constructible_v<XNNWeightsCacheManager> && !std::is_move_constructible_v<XNNWeightsCacheManager>);
static_assert(XNNWeightsCache::kPackedAllocationAlignment == 64);
static_assert(noexcept(std::declval<XNNWeightsCache&>().mutex()));

int main() {
  XNNWeightsCacheManager caches;
  return static_cast<int>(caches.live_count());
}
