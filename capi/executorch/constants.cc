#include "constants.h"

#include <algorithm>

namespace executorch {
namespace backends {
namespace xnnpack {
namespace delegate {
namespace xpwc_executorch {

namespace {

bool is_sha256(const char* text, size_t length) {
  return length == 64 && std::all_of(text, text + length, [](char digit) {
           return (digit >= '0' && digit <= '9') || (digit >= 'a' && digit <= 'f');
         });
}

// Whether next, loaded right after kernel, could be its scales. The exporter gives scales names that say so; what
// follows a kernel that it named, and has no such name, is at most a bias.
bool could_be_scales(const Constant& kernel, const Constant& next) {
  static constexpr size_t always = 4096;
  if (is_exported_scale(next.name)) {
    return true;
  }
  const size_t part = is_exported(kernel.name) && is_exported(next.name) ? 8 : 2;
  return next.size <= std::max(always, kernel.size / part);
}

// Whether next, loaded right after scales, could be the bias: there is one for each channel, and for each channel one
// or more scales of as many bytes or half of them.
bool could_be_bias(const Constant& scales, const Constant& next) {
  return next.size > 0 && next.size <= 2 * scales.size && 2 * scales.size % next.size == 0;
}

void add_quantization(Runtime& runtime, const Constant& kernel, const Constant& parameters) {
  if (is_exported(parameters.name)) {
    add_quantization(runtime, kernel.name, parameters.name.data(), parameters.name.size());
    return;
  }
  uint8_t digest[16];
  if (xpwc_digest(parameters.address, parameters.size, digest) == XPWC_STATUS_OK) {
    add_quantization(runtime, kernel.name, digest, sizeof(digest));
  }
}

} // namespace

bool is_exported_scale(const std::string& name) {
  static constexpr char prefix[] = "scale_";
  static constexpr size_t length = sizeof(prefix) - 1;
  return name.compare(0, length, prefix) == 0 && is_sha256(name.data() + length, name.size() - length);
}

bool is_exported(const std::string& name) {
  return is_sha256(name.data(), name.size()) || is_exported_scale(name);
}

void guess_quantization(Runtime& runtime, const Constant& next) {
  const Constant* kernel = nullptr;
  if (runtime.previous != nullptr && runtime.previous != &next) {
    if (runtime.kernel != nullptr && runtime.kernel != &next && could_be_bias(*runtime.previous, next)) {
      add_quantization(runtime, *runtime.kernel, next);
    }
    if (could_be_scales(*runtime.previous, next)) {
      kernel = runtime.previous;
      add_quantization(runtime, *kernel, next);
    }
  }
  runtime.kernel = kernel;
  runtime.previous = &next;
}

Error add_quantization(Runtime& runtime, const std::string& name, const void* bytes, size_t size) {
  if (size == 0) {
    return Error::Ok;
  }
  xpwc_packing packing{};
  packing.struct_size = sizeof(packing);
  packing.opaque = bytes;
  packing.opaque_size = size;
  xpwc_load_options options{};
  options.struct_size = sizeof(options);
  options.packing = &packing;
  const void* address = nullptr;
  return error_of(xpwc_session_load(runtime.session, name.c_str(), &options, &address, nullptr));
}

// What is not a kernel may be read at inference. So may what was loaded more than once, for as many values: that it was
// packed as often may be two layers that share one of them. What is packed as a bias may be a slope too: equal
// constants have one name.
void retain_what_inference_may_read(Runtime& runtime) {
  xpwc_load_options options{};
  options.struct_size = sizeof(options);
  options.flags = XPWC_LOAD_RETAIN;
  for (const auto& [name, constant] : runtime.constants) {
    if ((constant.packings == 0 || constant.loads > 1) && !is_exported_scale(name)) {
      const void* address = nullptr;
      xpwc_session_load(runtime.session, name.c_str(), &options, &address, nullptr);
    }
  }
}

} // namespace xpwc_executorch
} // namespace delegate
} // namespace xnnpack
} // namespace backends
} // namespace executorch
