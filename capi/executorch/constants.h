// What a runtime's constants are for, as far as it is known: how they are packed, and which of them inference may read.
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

// Adds bytes to the key of the weights that are packed from a constant.
Error add_packing(Runtime& runtime, const std::string& name, const void* bytes, size_t size);

// Sets the packing of a kernel that XNNPACK is about to look up, or packed. All constants are loaded by then.
void identify_packing(Runtime& runtime, const Constant& kernel);

// Keeps the constants that inference may read beyond xpwc_session_finalize.
void retain_what_inference_may_read(Runtime& runtime);

// Drops the resident pages of a constant in a mapped file. A later read maps them again. Linux only: elsewhere, and of
// memory that is not a file's or was changed, they stay.
void drop_pages(const Unpacked& constant);

} // namespace xpwc_executorch
} // namespace delegate
} // namespace xnnpack
} // namespace backends
} // namespace executorch

#endif
