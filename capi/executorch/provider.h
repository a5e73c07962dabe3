// The provider that XNNPACK calls.
#ifndef XPWC_EXECUTORCH_PROVIDER_H
#define XPWC_EXECUTORCH_PROVIDER_H

#include "runtime.h"

namespace executorch {
namespace backends {
namespace xnnpack {
namespace delegate {
namespace xpwc_executorch {

// Returns the one provider of all runtimes. XNNPACK keeps it for a runtime's life, and asks it at inference for
// is_finalized (fully connected, convolution) and offset_to_addr only; deleting a runtime asks nothing. So these two
// need no session, and the others go to the session of the runtime that is being created: *current, or none. Offsets
// are addresses.
xnn_weights_cache_provider provider_of(const std::unique_ptr<Runtime>* current);

} // namespace xpwc_executorch
} // namespace delegate
} // namespace xnnpack
} // namespace backends
} // namespace executorch

#endif
