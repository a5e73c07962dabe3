// The flatbuffer of an XNNPACK delegate.
#ifndef XPWC_EXECUTORCH_GRAPH_H
#define XPWC_EXECUTORCH_GRAPH_H

#include <cstddef>
#include <set>
#include <string>

namespace executorch {
namespace backends {
namespace xnnpack {
namespace delegate {
namespace xpwc_executorch {

// Returns the names of a delegate's constants that nodes use as kernels only, so that inference does not read them. The
// bytes are those that ExecuTorch passes to the backend. Returns none if they are no delegate, are damaged, or have a
// node of an unknown kind.
std::set<std::string> packed_only(const void* delegate, size_t size);

} // namespace xpwc_executorch
} // namespace delegate
} // namespace xnnpack
} // namespace backends
} // namespace executorch

#endif
