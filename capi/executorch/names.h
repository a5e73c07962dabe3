// The names of packed weights.
#ifndef XPWC_EXECUTORCH_NAMES_H
#define XPWC_EXECUTORCH_NAMES_H

#include "runtime.h"

namespace executorch {
namespace backends {
namespace xnnpack {
namespace delegate {
namespace xpwc_executorch {

// Makes names and memory one to one among the runtimes there are, by renaming those of a new one. Then a runtime is
// known by its names well enough: those of equal names use the same packed weights and the same constants, and
// whichever ends, the others keep what they need.
void give_names(Runtime& runtime, const RuntimeList& others);

} // namespace xpwc_executorch
} // namespace delegate
} // namespace xnnpack
} // namespace backends
} // namespace executorch

#endif
