// The names of packed weights.
#ifndef XPWC_EXECUTORCH_NAMES_H
#define XPWC_EXECUTORCH_NAMES_H

#include "runtime.h"

namespace executorch {
namespace backends {
namespace xnnpack {
namespace delegate {
namespace xpwc_executorch {

// Renames a new runtime's packed weights so that a name identifies one memory among all runtimes. Runtimes with equal
// names then use the same packed weights and constants, and when one ends, the others keep their memory.
void give_names(Runtime& runtime, const RuntimeList& others);

} // namespace xpwc_executorch
} // namespace delegate
} // namespace xnnpack
} // namespace backends
} // namespace executorch

#endif
