// What a runtime's constants are for, as far as it can be seen: which are the scales of which kernel, and which
// inference may read.
#ifndef XPWC_EXECUTORCH_CONSTANTS_H
#define XPWC_EXECUTORCH_CONSTANTS_H

#include "runtime.h"

namespace executorch {
namespace backends {
namespace xnnpack {
namespace delegate {
namespace xpwc_executorch {

// Reports whether ExecuTorch's exporter gives scales names like this.
bool is_exported_scale(const std::string& name);

// Reports whether ExecuTorch's exporter gives constants names like this: with the SHA-256 of their bytes.
bool is_exported(const std::string& name);

// Adds a constant that was loaded just now to the keys of those before it whose scales or bias it could be.
void guess_quantization(Runtime& runtime, const Constant& next);

// Adds bytes to the key of what is packed from a constant.
Error add_quantization(Runtime& runtime, const std::string& name, const void* bytes, size_t size);

// Keeps the constants that inference may read beyond xpwc_session_finalize.
void retain_what_inference_may_read(Runtime& runtime);

} // namespace xpwc_executorch
} // namespace delegate
} // namespace xnnpack
} // namespace backends
} // namespace executorch

#endif
